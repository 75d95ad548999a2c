"""The Cluster-wise Hierarchical Generative Model as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.components.order import in_input_order
from clusterwise.estimators.amortized import AmortizedClusterer
from clusterwise.pipeline.refine import Refine
from clusterwise.pretrained import Weights

__all__ = ["CHiGac"]


class CHiGac(AmortizedClusterer):
    """CHiGac (Liu, Wang & Jing 2021): a pioneer, a cluster vector, the rows that go with them; k is found.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one: a
    pioneer is chosen among the rows left over, a latent vector of its cluster follows from it, and both
    together say who belongs to the cluster. All three are random variables of a trained model, so that
    further draws say how sure the answer is. What becomes of this partition says ``refine``.

    Parameters
    ----------
    stop : {"learned", "empty"}
        When no cluster follows: the network says that only stragglers are left, which join the
        cluster that wanted them most, or no row is left at all, as the paper prints it.
    recentre : int
        How often a cluster is generated again from its most central row, which then is the pioneer; 0 as the
        paper prints it.
    n_draws : int
        Further paths with drawn pioneers and cluster vectors (L in the paper); the best of all is the answer,
        and memberships are averages over what all of them lead to (Eq 10 in the paper). 0 takes the likeliest
        path alone, which is quick; ``k_posterior_`` then draws 20 by itself. With ``refine=None`` only
        ``k_posterior_`` draws.
    weights : str, path, Weights or None
        Name of shipped weights (see ``clusterwise.list_weights()``), a ``.safetensors`` file, or weights in
        memory; None stands for "chigac-2d".
    refine : {"search", "em"} or None
        What becomes of the network's partition. "search": its clusters are fitted as Gaussians with any
        covariance, which split and merge as long as the evidence of the mixture gains. "em": they are fitted,
        but neither split nor merged. None: the network's own answer as it is; new rows, and rows that
        the network did not see, go to its clusters as Gaussians.
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    max_clusters : int
        Cap on the number of clusters; a warning says when it was reached.
    max_network_points : int
        The network sees at most this many rows, spread over the data. Up to 10,000 rows take part in
        refining, and all are labelled by the clusters.
    random_state : int, RandomState or None
        Seed of what the network draws, of the choice of rows, and of ``sample``.
    verbose : int
        Print a line after ``fit`` if not 0.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    pioneers_ : ndarray of shape (K,)
        A row that stands for each cluster of ``labels_``: the pioneer that started it. Where refining left a
        cluster several pioneers it is the first of them, where it left none the row nearest to the
        cluster's mean in units of its spread.
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
        Probability of each number of clusters: the evidences of all mixtures that drawn paths lead to.
        With ``refine=None`` they are shares of the drawn paths.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the Gaussian clusters, in the units of X.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order; ``anchor`` is the pioneer.
    network_labels_ : ndarray of shape (n,)
        The network's own partition, before refining; -1 for rows that it was not shown.
    weights_name_ : str
    cap_reached_ : bool
    n_network_points_ : int

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> est = cw.CHiGac(random_state=0).fit(X)
    >>> int(est.n_clusters_)
    7
    >>> bool((est.labels_[est.pioneers_] == range(7)).all())
    True
    """

    _method = "chigac"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "stop": [StrOptions({"learned", "empty"})],
        "recentre": [Interval(Integral, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        stop: Literal["learned", "empty"] = "learned",
        recentre: int = 2,
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
        self.stop = stop
        self.recentre = recentre
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
        return "chigac-2d"

    def _options(self) -> dict[str, Any]:
        return {"until_empty": self.stop == "empty", "recentre": self.recentre}

    def _n_draws(self) -> int:
        return self.n_draws

    @property
    def pioneers_(self) -> np.ndarray:
        """A row for each cluster, (K,)."""
        check_is_fitted(self)
        anchors = np.array([step.anchor for step in self.steps_], dtype=np.int64)
        clusters, order = self._clusters, self._prepared.order
        distances = clusters.prior.squared_distances(self._prepared.features, clusters.posterior)
        own = in_input_order(distances, order)[np.arange(len(order)), self.labels_]
        return _pioneers(self.labels_, anchors, own)


def _pioneers(labels: np.ndarray, candidates: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """One row for each cluster (K,): its first candidate, or else its most typical row."""
    by_distance = np.argsort(distances, kind="stable")
    ranked = np.concatenate([candidates, by_distance])
    pioneers: np.ndarray = ranked[np.unique(labels[ranked], return_index=True)[1]]
    return pioneers
