"""The clusters of one partition under a conjugate prior: what new points are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.dp.niw import NormalInverseWishart, Posterior
from clusterwise.dp.rows import Rows
from clusterwise.estimators.order import by_first_appearance
from clusterwise.mixture import outlier_scores

__all__ = ["Clusters", "clusters_in_use", "outlier_scores_of"]

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

    def select(self, clusters: np.ndarray) -> Clusters:
        """Keep the clusters with these indices, in this order."""
        return Clusters(self.prior, self.statistics[clusters])

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


def clusters_in_use(rows: Rows, order: np.ndarray | None, clusters: Clusters) -> tuple[Clusters, np.ndarray]:
    """Keep the clusters that some row prefers, in the order of first appearance; and the memberships (n, K).

    ``order`` (n,) has the places of the rows in the input; None: as they came.
    """
    while True:
        k = len(clusters.statistics)
        membership = np.empty((len(rows), k))
        for part, points in rows.chunks(clusters.prior.n_statistics + k):
            membership[part] = clusters.memberships(points)
        in_use = by_first_appearance(membership.argmax(axis=1), k, order)
        if np.array_equal(in_use, np.arange(k)):
            return clusters, membership
        clusters = clusters.select(in_use)


def outlier_scores_of(rows: Rows, clusters: Clusters) -> np.ndarray:
    """Outlier scores (n,) of the rows; a cluster of one row does not make it an ordinary one."""
    shared = np.flatnonzero(clusters.statistics[:, 0] > 1.5)
    near = (clusters.select(shared) if len(shared) > 0 else clusters).posterior
    distances = np.empty(len(rows))
    for part, points in rows.chunks(clusters.prior.n_statistics + len(near.mean)):
        distances[part] = clusters.prior.squared_distances(points, near).min(axis=1)
    return outlier_scores(distances, rows.n_features, len(rows))
