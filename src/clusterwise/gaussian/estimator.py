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
from clusterwise.fitting.mixture_fit import (
    choose_covariance_type,
    clusters_of_mixtures,
    posterior_of_mixtures,
    search_from,
)
from clusterwise.fitting.protocol import Clustering, Method, Progress
from clusterwise.fitting.uncertainty import ClusteringPosterior
from clusterwise.gaussian.mixture import FittedMixture, Sample
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import first_partition, merged_cells
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
            mixtures = self._search(rows, context)
            found.append(clusters_of_mixtures(rows, context, mixtures, self.max_clusters))
        return found

    def posterior(
        self, rows: SortedRows, found: Clustering, seed: int, n_draws: int | None
    ) -> ClusteringPosterior:
        """See ``Method``; nothing is drawn, and all mixtures count that the search has visited."""
        mixtures = self._search(rows, sample_rows(len(rows), self.max_rows, seed))
        return posterior_of_mixtures(rows, mixtures, self.max_clusters)

    def _search(self, rows: SortedRows, context: np.ndarray) -> list[FittedMixture]:
        features = rows.features[context]
        covariance_type = choose_covariance_type(self.covariance_type, *features.shape)
        sample = Sample(features, covariance_type)
        labels = first_partition(sample)
        if labels.max() >= self.max_clusters:
            path = merged_cells(sample, labels)
            labels = next(one for _, one in path if one.max() < self.max_clusters)
        return search_from(rows, context, [labels], context, covariance_type)


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
