"""Amortized Mixing Coupling Processes as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.estimators.amortized import AmortizedClusterer
from clusterwise.models.amcp import Options
from clusterwise.pipeline.refine import Refine
from clusterwise.pretrained import Weights

__all__ = ["AMCP"]


class AMCP(AmortizedClusterer):
    """Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters found one by one, k included.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one on the
    stored encodings: the next one starts at a row unlike all that is assigned, a few EM steps say
    who belongs to it, and earlier clusters are revised. What becomes of this partition says ``refine``.

    Parameters
    ----------
    e_step : {"regular", "sinkhorn"}
        How rows are shared out among the clusters inside a step: each by itself, or by optimal
        transport to the clusters' proportions.
    n_em_steps : int or None
        EM steps per cluster (T in the paper); None stands for the number that the weights were trained with.
    proportions : {"free", "balanced"}
        Whether the clusters' shares are estimated or held equal, as the paper prints them.
    update : bool
        Whether a step revises the clusters found before it (AMCP* in the paper).
    first_cluster : {"learned", "k-means"}
        Whether the first cluster comes from the network's own step or from k-means, as the paper prints it.
    n_draws : int
        Further paths whose starting rows are drawn at random; the best of all is the answer, and memberships
        are averages over what all of them lead to. 0 takes the likeliest path alone, which is quick;
        ``k_posterior_`` then draws 20 by itself. With ``refine=None`` only ``k_posterior_`` draws.
    weights, refine, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`DAC`; ``weights=None`` stands for "amcp-2d".

    Attributes
    ----------
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label. With ``n_draws`` > 0 it is an
        average over the mixtures that the paths lead to, weighted by their evidence; ``predict_proba`` too.
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that the drawn paths lead to.
        With ``refine=None`` they are shares of the drawn paths.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order.
    labels_, n_clusters_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
network_labels_, weights_name_, cap_reached_, n_network_points_
        As for :class:`DAC`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> est = cw.AMCP(random_state=0).fit(X)
    >>> int(est.n_clusters_)
    7
    """

    _method = "amcp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "e_step": [StrOptions({"regular", "sinkhorn"})],
        "n_em_steps": [Interval(Integral, 1, None, closed="left"), None],
        "proportions": [StrOptions({"free", "balanced"})],
        "update": ["boolean"],
        "first_cluster": [StrOptions({"learned", "k-means"})],
        "n_draws": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        e_step: Literal["regular", "sinkhorn"] = "regular",
        n_em_steps: int | None = None,
        proportions: Literal["free", "balanced"] = "free",
        update: bool = True,
        first_cluster: Literal["learned", "k-means"] = "learned",
        n_draws: int = 0,
        weights: str | Path | Weights | None = None,
        refine: Refine | None = "search",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int = 256,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.e_step = e_step
        self.n_em_steps = n_em_steps
        self.proportions = proportions
        self.update = update
        self.first_cluster = first_cluster
        self.n_draws = n_draws
        super().__init__(
            weights=weights,
            refine=refine,
            projection=projection,
            scaling=scaling,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _default_weights(self) -> str:
        return "amcp-2d"

    def _options(self) -> dict[str, Any]:
        names = (self.e_step, self.n_em_steps, self.proportions, self.update, self.first_cluster)
        return {"options": Options(*names)}

    def _n_draws(self) -> int:
        return self.n_draws
