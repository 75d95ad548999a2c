"""A Gaussian mixture that finds its number of clusters by evidence, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.affine import AffineMap, fit_column_map
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import (
    MIN_PROBABILITY,
    Clustering,
    ClusteringPosterior,
    Method,
    Progress,
    assign_rows,
    by_first_appearance,
)
from clusterwise.gaussian.mixture import FittedMixture, Sample, choose_covariance_type
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import first_partition, merged_cells, search
from clusterwise.rows.sorted_rows import SortedRows, sample_rows

__all__ = ["GaussianSearch"]


@dataclass(frozen=True)
class SearchMethod(Method):
    """Cells of k-means, put together by their evidence, and a search from there; see ``Method``."""

    covariance_type: CovarianceType | Literal["auto"]
    joint: bool  # whether all columns keep their scales
    max_clusters: int

    def fit_space(self, points: np.ndarray) -> AffineMap:
        """See ``Method``."""
        return fit_column_map(points, self.joint)

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``."""
        found = []
        for done, rows in enumerate(sets):
            progress("searching", done, len(sets))
            context = sample_rows(len(rows), self.max_rows, seed)
            mixtures = self._search(rows.features[context])
            best = next((one for one in mixtures if one.n_clusters <= self.max_clusters), mixtures[0])
            # In the order that nearly always is that of all rows, which then are assigned only once.
            order = context if rows.order is None else rows.order[context]
            clusters = best.clusters.select(by_first_appearance(best.labels, best.n_clusters, order))
            beyond = mixtures[0].n_clusters > self.max_clusters
            found.append(Clustering(clusters, clusters, cap_reached=beyond))
        return found

    def posterior(self, rows: SortedRows, found: Clustering, seed: int) -> ClusteringPosterior:
        """See ``Method``; nothing is drawn, and all mixtures count that the search has visited."""
        visited = self._search(rows.features[sample_rows(len(rows), self.max_rows, seed)])
        mixtures = [one for one in visited if one.n_clusters <= self.max_clusters] or visited
        evidence = np.array([one.log_evidence for one in mixtures])
        if rows.weights is None:  # or the less likely may gain
            likely = np.flatnonzero(evidence >= evidence.max() + np.log(MIN_PROBABILITY)).tolist()
            mixtures, evidence = [mixtures[i] for i in likely], evidence[likely]
        used = [assign_rows(rows, Clustering(one.clusters, one.clusters))[1] for one in mixtures]
        return ClusteringPosterior.of(rows, [one.density for one in used], evidence)

    def _search(self, features: np.ndarray) -> list[FittedMixture]:
        """All mixtures of features (s, f) that a search visits, the one with most evidence first."""
        covariance_type = choose_covariance_type(self.covariance_type, *features.shape)
        sample = Sample(features, covariance_type)
        labels = first_partition(sample)
        if labels.max() >= self.max_clusters:
            path = merged_cells(sample, labels)
            labels = next(one for _, one in path if one.max() < self.max_clusters)
        return search(features, [labels], covariance_type)


class GaussianSearch(BaseClusterer):
    """Gaussian mixture that finds its number of clusters by Bayesian evidence, in any number of features.

    Small cells of rows are merged into clusters, which are fitted by EM, then split and merged as long as
    the evidence of the mixture (its probability with all parameters integrated out) grows. It needs no
    network and no tuning, and replaces fitting a mixture for every k and comparing them by BIC.

    Parameters
    ----------
    covariance_type : {"auto", "full", "diag", "spherical"}
        Shape of a cluster. "auto": full for up to 32 features with at least ten rows for each, else diagonal.
    random_state : int, RandomState or None
        Seed of the choice of rows where there are more than 10,000, of ``sample`` and ``sample_partitions``.
    scaling, max_clusters, verbose
        As for :class:`AMCP`.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters by the evidences of all mixtures that the search has visited.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
cap_reached_
        As for :class:`AMCP`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.GaussianSearch().fit(X).n_clusters_)
    7
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariance_type": [StrOptions({"auto", "full", "diag", "spherical"})],
        "scaling": [StrOptions({"joint", "feature"})],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        covariance_type: CovarianceType | Literal["auto"] = "auto",
        scaling: Literal["joint", "feature"] = "feature",
        max_clusters: int = 100,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.covariance_type = covariance_type
        self.scaling = scaling
        self.max_clusters = max_clusters
        self.random_state = random_state
        self.verbose = verbose

    def _make_method(self) -> SearchMethod:
        return SearchMethod(self.covariance_type, self.scaling == "joint", self.max_clusters)
