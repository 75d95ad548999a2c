"""Amortized Mixing Coupling Processes as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.estimators.polished import PolishedClusterer
from clusterwise.models.amcp import Options

__all__ = ["AMCP"]


class AMCP(PolishedClusterer):
    """Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters found one by one, k included.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one on the
    stored encodings: the next one starts at a row unlike all that is assigned, a few EM steps say
    who belongs to it, and earlier clusters are revised. The partition is then polished: EM steps, splits
    and mergers of Gaussian summaries, judged by their evidence. The summaries label every row, known or new.

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
        ``k_posterior_`` then draws 20 by itself. Without ``merge`` only ``k_posterior_`` draws.
    weights : str, path or None
        Name of shipped weights (see ``clusterwise.list_weights()``) or a ``.safetensors`` file; None
        stands for "amcp-2d".
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    zoom_levels : int
        How often found clusters that do not look like one Gaussian are shown to the network again, each by
        itself and at its own scale.
    refine_steps : int
        Number of EM steps on the summaries of the clusters after the network's steps.
    merge : bool
        Split and merge clusters by the evidence of their summaries. False keeps the network's clusters.
    max_clusters : int
        Cap on the steps; a warning says when it was reached.
    max_network_points : int
        The network sees at most this many rows, spread over the data; up to 10,000 rows take part in
        polishing, and all are labelled by the cluster summaries.
    random_state : int, RandomState or None
        Seed of the starting rows, of the choice of rows, and of ``sample``.
    verbose : int
        Print a line after ``fit`` if not 0.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label. With ``n_draws`` > 0 it is an
        average over the mixtures that the paths lead to, weighted by their evidence; ``predict_proba`` too.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        Near 1 for rows farther out than any ordinary row should be, near 0 for ordinary ones.
    k_posterior_ : dict
        Probability of each number of clusters, from ``n_draws`` drawn paths, or from 20 if that is 0.
    means_, variances_ : ndarrays of shape (K, d)
        Summaries of the clusters in the units of X.
    proportions_ : ndarray of shape (K,)
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order.
    network_labels_ : ndarray of shape (n,)
        The partition as that path left it, before the summaries; -1 for rows not shown to the network.
    weights_name_ : str
    cap_reached_ : bool
    n_network_points_ : int

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
        **PolishedClusterer._parameter_constraints,
        "e_step": [StrOptions({"regular", "sinkhorn"})],
        "n_em_steps": [Interval(Integral, 1, None, closed="left"), None],
        "proportions": [StrOptions({"free", "balanced"})],
        "update": ["boolean"],
        "first_cluster": [StrOptions({"learned", "k-means"})],
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
        weights: str | Path | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        zoom_levels: int = 1,
        refine_steps: int = 10,
        merge: bool = True,
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
        super().__init__(
            n_draws=n_draws,
            weights=weights,
            projection=projection,
            scaling=scaling,
            zoom_levels=zoom_levels,
            refine_steps=refine_steps,
            merge=merge,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _default_weights(self) -> str:
        return "amcp-2d"

    def _loop_options(self) -> dict[str, Any]:
        names = (self.e_step, self.n_em_steps, self.proportions, self.update, self.first_cluster)
        return {"options": Options(*names)}
