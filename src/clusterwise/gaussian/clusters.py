"""The clusters of one partition under a conjugate prior: what rows, known and new, are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self, TypeVar

import numpy as np
from scipy.special import chdtr, chdtrc, gammaincinv, logsumexp

from clusterwise._compiled import compiled
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart, Posterior
from clusterwise.gaussian.sorted_rows import Rows, by_first_appearance

__all__ = [
    "Clusters",
    "Described",
    "clusters_in_use",
    "largest_ordinary_distance",
    "outlier_scores",
    "outlier_scores_of",
]

# Rows are compared with clusters in chunks of about this many (row, cluster) pairs: what a chunk needs stays
# in the processor's cache.
PAIRS_AT_ONCE = 65_536
# The exponential of anything below is zero.
LOG_OF_ZERO = -760.0


class Described(Protocol):
    """K clusters as densities, whatever their shape: what a fit ends with."""

    @property
    def covariance_type(self) -> CovarianceType | None:
        """That of Gaussian clusters; None for others."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""

    @property
    def proportions(self) -> np.ndarray:
        """Share of each cluster, (K,)."""

    @property
    def means(self) -> np.ndarray:
        """Centres of the clusters, (K, d)."""

    @property
    def covariances(self) -> np.ndarray:
        """Covariances of the clusters, (K, d, d)."""

    def select(self, clusters: np.ndarray) -> Self:
        """Keep the clusters with these indices, in this order."""

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of share times density, (n, K), each row on its own."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), rows sum to one."""

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log density of each point, (n,)."""

    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,)."""

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw points (n_samples, d) and their clusters (n_samples,), sorted by cluster."""


@dataclass(frozen=True)
class Clusters:
    """K clusters, told by the sums of T(x) over their members, which may be weighted; see ``niw``."""

    prior: NormalInverseWishart
    statistics: np.ndarray  # (K, p)
    shares: np.ndarray | None = None  # (K,) where the statistics are of rows that were not chosen evenly

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
        """Share of each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0] if self.shares is None else self.shares
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
        shares = None if self.shares is None else self.shares[clusters]
        return Clusters(self.prior, self.statistics[clusters], shares)

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of share times predictive density, (n, K), each row on its own."""
        posterior, log_shares = self.posterior, np.log(self.proportions)
        result = np.empty((len(points), len(log_shares)))
        for rows in self._chunks(len(points)):
            np.add(log_shares, self.prior.log_predictive(points[rows], posterior), out=result[rows])
        return result

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), rows sum to one."""
        weights = self.log_joint(points)
        _normalize(weights)
        return weights

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log predictive density of each point, (n,)."""
        return logsumexp(self.log_joint(points), axis=1)

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


class GivesMemberships(Protocol):
    """K clusters, or outputs of a net, that give rows their memberships."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""

    def select(self, clusters: np.ndarray) -> Self:
        """Keep the clusters with these indices, in this order."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K)."""


Giver = TypeVar("Giver", bound=GivesMemberships)


def clusters_in_use(rows: Rows, order: np.ndarray | None, clusters: Giver) -> tuple[Giver, np.ndarray]:
    """Keep the clusters that some row prefers, in the order of first appearance; and the memberships (n, K).

    ``order`` (n,) has the places of the rows in the input; None: as they came.
    """
    while True:
        k = clusters.n_clusters
        membership = np.empty((len(rows), k))
        for part, points in rows.chunks(rows.n_features + k):
            membership[part] = clusters.memberships(points)
        in_use = by_first_appearance(membership.argmax(axis=1), k, order)
        if np.array_equal(in_use, np.arange(k)):
            return clusters, membership
        # A row between two clusters prefers the first of them: look again after they changed places.
        clusters = clusters.select(in_use)


def outlier_scores_of(rows: Rows, clusters: Clusters) -> np.ndarray:
    """Outlier scores (n,) of the rows."""
    distances = np.empty(len(rows))
    for part, points in rows.chunks(clusters.prior.n_statistics + clusters.n_clusters):
        distances[part] = clusters.nearest_distances(points)
    return outlier_scores(distances, rows.n_features, len(rows))


def outlier_scores(nearest: np.ndarray, d: int, n_points: int) -> np.ndarray:
    """P(none of ``n_points`` is as far out) for squared distances (n,) in standard deviations, d features.

    Under the mixture the distance to the nearest cluster is at most chi-squared with d degrees of freedom.
    Ordinary points score near zero, a point farther out than the farthest of n should be scores near one.
    """
    scores = np.zeros(len(nearest))  # what nearly all of many points have
    far = np.flatnonzero(nearest >= largest_ordinary_distance(d, n_points))
    if len(far) > 0:
        scores[far] = np.exp(n_points * _log_chi_squared(d, nearest[far]))
    return scores


def largest_ordinary_distance(d: int, n_points: int) -> float:
    """Squared distance below which the outlier score of one of ``n_points`` with d features is zero."""
    return float(2 * gammaincinv(d / 2, np.exp(LOG_OF_ZERO / n_points)))


def _log_chi_squared(d: int, x: np.ndarray) -> np.ndarray:
    """Log of P(chi-squared with d degrees of freedom < x); a millisecond less than through scipy.stats."""
    with np.errstate(divide="ignore"):
        return np.where(x < d, np.log(chdtr(d, x)), np.log1p(-chdtrc(d, x)))
