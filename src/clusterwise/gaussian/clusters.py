"""The clusters of one partition under a conjugate prior: what rows, known and new, are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.assigner import LOG_OF_ZERO, AssignedRows, ClusterDensity
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart, Posterior
from clusterwise.gaussian.quick import QuickClusters

__all__ = ["Clusters"]

# Rows are compared with clusters in chunks of about this many (row, cluster) pairs: what a chunk needs stays
# in the processor's cache.
PAIRS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Clusters(ClusterDensity):
    """K clusters, told by the sums of T(x) over their members, which may be weighted; see ``niw``."""

    prior: NormalInverseWishart
    statistics: np.ndarray  # (K, p)
    weights: np.ndarray | None = None  # (K,) where the statistics are of rows that were not chosen evenly

    @property
    def covariance_type(self) -> CovarianceType:
        """Shape of a cluster."""
        return self.prior.covariance_type

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.statistics)

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior of the clusters' parameters."""
        return self.prior.posterior(self.statistics)

    @property
    def proportions(self) -> np.ndarray:
        """Mixing weight of each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0] if self.weights is None else self.weights
        return counts / counts.sum()

    @property
    def means(self) -> np.ndarray:
        """Posterior means of the centres, (K, d)."""
        return self.posterior.mean

    @property
    def covariances(self) -> np.ndarray:
        """Covariances of the predictive densities, (K, d, d)."""
        return self.prior.covariances(self.posterior)

    def select(self, clusters: np.ndarray) -> Clusters:
        """Keep the clusters with these indices, in this order."""
        weights = None if self.weights is None else self.weights[clusters]
        return Clusters(self.prior, self.statistics[clusters], weights)

    def with_proportions(self, proportions: np.ndarray) -> Clusters:
        """The same clusters with other mixing weights (K,)."""
        return replace(self, weights=proportions)

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of mixing weight times predictive density, (n, K), each row on its own."""
        posterior, log_weights = self.posterior, np.log(self.proportions)
        result = np.empty((len(points), len(log_weights)))
        for rows in self._chunks(len(points)):
            np.add(log_weights, self.prior.log_predictive(points[rows], posterior), out=result[rows])
        return result

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), rows sum to one."""
        weights = self.log_joint(points)
        _normalize(weights)
        return weights

    def assign(self, points: np.ndarray, n_rows: int) -> AssignedRows:
        """Labels, their probabilities and outlier scores, without the clusters that cannot win a row."""
        return self._quick.assign(points, n_rows)

    @cached_property
    def _quick(self) -> QuickClusters:
        return QuickClusters(self)

    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,).

        A cluster of one point does not make that point an ordinary one, and does not count.
        """
        shared = np.flatnonzero(self.statistics[:, 0] > 1.5)
        near = (self.select(shared) if 0 < len(shared) < self.n_clusters else self).posterior
        distances = np.empty(len(points))
        for rows in self._chunks(len(points)):
            distances[rows] = self.prior.squared_distances(points[rows], near).min(axis=1)
        return distances

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw points (n_samples, d) and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        return self.prior.sample(rng, self.posterior, labels), labels

    def _chunks(self, n_rows: int) -> list[slice]:
        size = max(64, PAIRS_AT_ONCE // self.n_clusters)
        return [slice(start, start + size) for start in range(0, n_rows, size)]


@compiled
def _normalize(log_weights: np.ndarray) -> None:
    """Replace log weights (n, K) by weights whose rows sum to one."""
    n, k = log_weights.shape
    for i in range(n):
        largest, total = log_weights[i, 0], 0.0
        for j in range(1, k):
            largest = max(largest, log_weights[i, j])
        for j in range(k):
            gap = log_weights[i, j] - largest
            log_weights[i, j] = math.exp(gap) if gap > LOG_OF_ZERO else 0.0
            total += log_weights[i, j]
        for j in range(k):
            log_weights[i, j] /= total
