"""The Cluster-wise Hierarchical Generative Model as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.estimators.amortized import Fitted, Prepared
from clusterwise.estimators.polished import PolishedClusterer

__all__ = ["CHiGac"]


class CHiGac(PolishedClusterer):
    """CHiGac (Liu, Wang & Jing 2021): a pioneer, a cluster vector, the rows that go with them; k is found.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one: a
    pioneer is chosen among the rows left over, a latent vector of its cluster follows from it, and both
    together say who belongs to the cluster. All three are random variables of a trained model, so that
    further draws say how sure the answer is. The partition is then polished as that of :class:`AMCP`.

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
        and memberships are averages over what all of them lead to. 0 takes the likeliest path alone, which
        is quick; ``k_posterior_`` then draws 20 by itself. Without ``merge`` only ``k_posterior_`` draws.
    weights : str, path or None
        Name of shipped weights (see ``clusterwise.list_weights()``) or a ``.safetensors`` file; None
        stands for "chigac-2d".
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
        Seed of the draws, of the choice of rows, and of ``sample``.
    verbose : int
        Print a line after ``fit`` if not 0.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
    pioneers_ : ndarray of shape (K,)
        A row that stands for each cluster of ``labels_``: the pioneer that started it. Where polishing left a
        cluster several pioneers it is the first of them, where it left none the row nearest to the
        cluster's mean in units of its spread.
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label. With ``n_draws`` > 0 it is an
        average over the mixtures that the paths lead to, weighted by their evidence (Eq 10 in the paper);
        ``predict_proba`` too.
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
        The steps of the likeliest path in their order; ``anchor`` is the pioneer.
    network_labels_ : ndarray of shape (n,)
        The partition as that path left it, before the summaries; -1 for rows not shown to the network.
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
        **PolishedClusterer._parameter_constraints,
        "stop": [StrOptions({"learned", "empty"})],
        "recentre": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        stop: Literal["learned", "empty"] = "learned",
        recentre: int = 2,
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
        self.stop = stop
        self.recentre = recentre
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
        return "chigac-2d"

    def _loop_options(self) -> dict[str, Any]:
        return {"until_empty": self.stop == "empty", "recentre": self.recentre}

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        self.pioneers_ = _pioneers(
            self.labels_,
            np.array([step.anchor for step in self.steps_], dtype=np.int64),
            self._in_input_order(_distances(prepared.features, fitted)),
        )


def _distances(features: np.ndarray, fitted: Fitted) -> np.ndarray:
    """Squared distance of each sorted row to the mean of its cluster in units of the spread, (n,)."""
    labels = fitted.membership.argmax(axis=1)
    centred = features - fitted.mixture.means[labels]
    squares: np.ndarray = (centred**2 / fitted.mixture.variances[labels]).sum(axis=1)
    return squares


def _pioneers(labels: np.ndarray, candidates: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """One row for each cluster (K,): its first candidate, or else its most typical row."""
    by_distance = np.argsort(distances, kind="stable")
    ranked = np.concatenate([candidates, by_distance])
    pioneers: np.ndarray = ranked[np.unique(labels[ranked], return_index=True)[1]]
    return pioneers
