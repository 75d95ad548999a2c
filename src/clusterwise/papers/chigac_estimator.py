"""The Cluster-wise Hierarchical Generative Model as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.sorted_rows import in_input_order
from clusterwise.papers.estimator import AmortizedClusterer, RefineOption
from clusterwise.pretrained import Weights

__all__ = ["CHiGac"]


class CHiGac(AmortizedClusterer):
    """CHiGac (Liu, Wang & Jing 2021): clusters grow from representative rows, the pioneers; k is found.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one: a
    pioneer is chosen among the remaining rows, a latent vector of its cluster follows from it, and
    together they decide which rows belong to the cluster. All three are random variables of a trained
    model, so that further draws say how sure the answer is. ``refine`` says what happens to this partition.

    Parameters
    ----------
    stop : {"learned", "empty"}
        When to stop: "learned", when the network says that only stragglers are left, which join the
        cluster that fits them best; "empty", when no row is left, as in the paper.
    recentre : int
        How often a cluster is generated again from its most central row, which then is the pioneer; 0 as in
        the paper.
    n_draws : int
        Further paths with drawn pioneers and cluster vectors (L in the paper); the best of all is the answer,
        and memberships are averages over what all of them lead to (Eq 10 in the paper). 0 takes the likeliest
        path alone, which is quick; ``k_posterior_`` then draws 20 by itself. With ``refine=None`` only
        ``k_posterior_`` draws.
    weights, refine, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for "chigac-2d".

    Attributes
    ----------
    pioneers_ : ndarray of shape (K,)
        A row that stands for each cluster of ``labels_``: the pioneer that started it. Where refining left a
        cluster several pioneers it is the first of them, where it left none the row nearest to the
        cluster's mean in units of its spread.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order. ``anchor`` is the pioneer.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, k_posterior_, means_, covariances_, \
proportions_, network_labels_, weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`.

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

    _clusters: Clusters
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
        recentre: int = 5,
        n_draws: int = 0,
        weights: str | Path | Weights | None = None,
        refine: RefineOption | None = "auto",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
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

    def _options(self) -> dict[str, Any]:
        return {"until_empty": self.stop == "empty", "recentre": self.recentre}

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
