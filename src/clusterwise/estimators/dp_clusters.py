"""The clusters of one partition under a conjugate prior: what new points are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.dp.niw import NormalInverseWishart, Posterior
from clusterwise.estimators.tables import Table

__all__ = ["Clusters", "clusters_of_table"]

# Rows that predictions are made for at a time.
ROWS_AT_ONCE = 8192


@dataclass(frozen=True)
class Clusters:
    """The clusters of one partition: what new points are compared with. In the units of the sampler."""

    prior: NormalInverseWishart
    statistics: np.ndarray  # (K, p)

    @property
    def posterior(self) -> Posterior:
        """Posterior of the clusters' parameters."""
        return self.prior.posterior(self.statistics)

    @property
    def proportions(self) -> np.ndarray:
        """Share of each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0]
        return counts / counts.sum()

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of share times predictive density, (n, K), each row on its own."""
        posterior, log_shares = self.posterior, np.log(self.proportions)
        result = np.empty((len(points), len(log_shares)))
        for start in range(0, len(points), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            result[rows] = log_shares + self.prior.log_predictive(points[rows], posterior)
        return result

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K)."""
        log_joint = self.log_joint(points)
        weights = np.exp(log_joint - log_joint.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)


def clusters_of_table(table: Table, clusters: Clusters) -> tuple[Clusters, np.ndarray, np.ndarray]:
    """Keep the clusters that some row prefers, in the order of first appearance.

    Returns also the memberships (n, K) of all rows, and their squared distances (n,) to the nearest cluster
    of more than one row.
    """
    n = len(table.rows)
    order = np.arange(n) if table.order is None else table.order
    while True:
        k = len(clusters.statistics)
        membership, distances = np.empty((n, k)), np.empty(n)
        shared = clusters.statistics[:, 0] > 1.5
        near = Clusters(clusters.prior, clusters.statistics[shared] if shared.any() else clusters.statistics)
        for part, points in table.rows.chunks(clusters.prior.n_statistics + k):
            membership[part] = clusters.memberships(points)
            distances[part] = clusters.prior.squared_distances(points, near.posterior).min(axis=1)
        preferred = membership.argmax(axis=1)
        first = np.full(k, n)
        np.minimum.at(first, preferred, order)
        by_appearance = np.argsort(first, kind="stable")[: np.count_nonzero(first < n)]
        if np.array_equal(by_appearance, np.arange(k)):
            return clusters, membership, distances
        clusters = Clusters(clusters.prior, clusters.statistics[by_appearance])
