"""Clusters of any shape: each is a flow that maps its rows to a standard normal, u = f_k(x).

The density of cluster k is ``p_k(x) = Normal(f_k(x); 0, I) |det df_k/dx|``. All clusters share the weights of
one masked autoregressive flow (``nn.flows``) and differ in what their contexts add to its layers. Here the
flow is arrays: clusters that were found can be compared with rows, drawn from and pickled without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from clusterwise.nn.flow_loops import to_noise, to_points

__all__ = ["ConditionedFlow", "FlowClusters"]

# Beyond this many spreads there is nothing: rows farther out count as lying here, and no square overflows.
FARTHEST = 1e3
# Added to the variances of a cluster's rows: two of them have none in one direction.
LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class ConditionedFlow:
    """A flow of B blocks whose contexts are given: K maps between points and noise.

    Points are taken to the coordinates of the cluster first, map (x - mean). Each block has two hidden layers
    of h units; its weights are masked already.
    """

    features: np.ndarray  # (B, d) the features in the order in which a block takes them
    first: np.ndarray  # (B, d, h)
    second: np.ndarray  # (B, h, h)
    last: np.ndarray  # (B, h, 2 d)
    contexts: np.ndarray  # (K, B, 2 h + 2 d), added before the activations and to the output
    largest_log_scale: float
    means: np.ndarray  # (K, d)
    maps: np.ndarray  # (K, d, d)

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.contexts)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return self.features.shape[1]

    def select(self, clusters: np.ndarray) -> ConditionedFlow:
        """Keep the clusters with these indices, in this order."""
        return replace(
            self,
            contexts=self.contexts[clusters],
            means=self.means[clusters],
            maps=self.maps[clusters],
        )

    def noise(self, points: np.ndarray, cluster: int) -> tuple[np.ndarray, np.ndarray]:
        """u = f_k(x), (n, d), and the log determinants (n,) of its derivative, of points (n, d)."""
        own, offsets = self.maps[cluster], points - self.means[cluster]
        # Feature by feature: a matrix product may round a row differently next to other rows.
        mapped = sum(offsets[:, [j]] * own[:, j] for j in range(self.n_features))
        noise, log_determinants = to_noise(
            np.ascontiguousarray(mapped),
            self.first,
            self.second,
            self.last,
            self.contexts[cluster],
            self.largest_log_scale,
        )
        return noise, log_determinants + np.linalg.slogdet(own).logabsdet

    def points(self, noise: np.ndarray, cluster: int) -> np.ndarray:
        """The points (n, d) that ``noise`` maps to these u, (n, d)."""
        found: np.ndarray = to_points(
            np.ascontiguousarray(noise),
            self.first,
            self.second,
            self.last,
            self.contexts[cluster],
            self.largest_log_scale,
            self.features,
        )
        return np.linalg.solve(self.maps[cluster], found.T).T + self.means[cluster]


@dataclass(frozen=True)
class FlowClusters:
    """K clusters with the densities of a flow; what rows, known and new, are compared with."""

    flow: ConditionedFlow
    counts: np.ndarray  # (K,) rows of each cluster
    means: np.ndarray  # (K, d) of these rows
    covariances: np.ndarray  # (K, d, d)

    @classmethod
    def of(cls, flow: ConditionedFlow, points: np.ndarray, labels: np.ndarray) -> FlowClusters:
        """The clusters of points (m, d) with labels (m,) from 0 to K - 1, all in use."""
        members = [points[labels == k] for k in range(flow.n_clusters)]
        means = np.stack([rows.mean(axis=0) for rows in members])
        offsets = [rows - mean for rows, mean in zip(members, means, strict=True)]
        covariances = np.stack([of.T @ of / len(of) for of in offsets])
        return cls(flow, np.bincount(labels).astype(np.float64), means, covariances)

    @property
    def covariance_type(self) -> None:
        """None: they are no Gaussians."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.counts)

    @property
    def proportions(self) -> np.ndarray:
        """Share of each cluster, (K,)."""
        return np.asarray(self.counts / self.counts.sum())

    def select(self, clusters: np.ndarray) -> FlowClusters:
        """Keep the clusters with these indices, in this order."""
        return FlowClusters(
            self.flow.select(clusters),
            self.counts[clusters],
            self.means[clusters],
            self.covariances[clusters],
        )

    def _compare(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n, K), and squared distances (n, K) from the centres in the space of the noise."""
        points = np.clip(points, -FARTHEST, FARTHEST)
        densities, distances = np.empty((2, len(points), self.n_clusters))
        for k in range(self.n_clusters):
            noise, log_determinants = self.flow.noise(points, k)
            distances[:, k] = np.square(noise).sum(axis=1)
            densities[:, k] = log_determinants - 0.5 * distances[:, k]
        return densities - 0.5 * points.shape[1] * np.log(2 * np.pi), distances

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of share times density, (n, K), each row on its own."""
        return np.asarray(self._compare(points)[0] + np.log(self.proportions))

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), rows sum to one."""
        weights = self.log_joint(points)
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log density of each point, (n,)."""
        return np.asarray(logsumexp(self.log_joint(points), axis=1))

    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,).

        That of u from the origin: chi-squared, as for a Gaussian. Far from its cluster a flow is what the
        network never saw, so that the distance in the standard deviations of the rows counts if it is
        larger. Clusters of one point do not count.
        """
        distances = self._compare(points)[1]
        for k in range(self.n_clusters):
            root = np.linalg.cholesky(self.covariances[k] + LEAST_VARIANCE * np.eye(points.shape[1]))
            offsets = np.linalg.solve(root, (np.clip(points, -FARTHEST, FARTHEST) - self.means[k]).T)
            distances[:, k] = np.maximum(distances[:, k], np.square(offsets).sum(axis=0))
        shared = self.counts > 1
        return np.asarray(distances[:, shared if shared.any() else slice(None)].min(axis=1))

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw points (n_samples, d) and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        points = rng.standard_normal((n_samples, self.flow.n_features))
        for k in range(self.n_clusters):
            points[labels == k] = self.flow.points(points[labels == k], k)
        return points, labels
