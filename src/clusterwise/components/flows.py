"""Clusters of any shape: each is a flow that maps its rows to a standard normal, u = f_k(x).

The density of cluster k is p_k(x) = Normal(f_k(x); 0, I) |det df_k/dx|. All clusters share the weights of one
masked autoregressive flow (``nn.flows``) and differ in what their contexts add to its layers. Here the flow
is arrays: clusters that were found can be compared with rows, drawn from and pickled without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

__all__ = ["ConditionedFlow", "FlowBlock", "FlowClusters"]

# Rows are compared with a cluster so many at a time: what the layers pass on stays in the processor's cache.
ROWS_AT_ONCE = 1024
# Beyond so many spreads there is nothing: rows farther out count as lying here, and no square overflows.
FARTHEST = 1e3


@dataclass(frozen=True)
class FlowBlock:
    """One block for K clusters: two hidden layers of h units, weights masked already."""

    order: np.ndarray  # (d,) as which each feature comes
    first: np.ndarray  # (d, h)
    second: np.ndarray  # (h, h)
    last: np.ndarray  # (h, 2 d)
    from_context: np.ndarray  # (K, 2 h + 2 d), added before the activations and to the output
    largest_log_scale: float

    def shift_and_log_scale(self, points: np.ndarray, cluster: int) -> tuple[np.ndarray, np.ndarray]:
        """mu and log sigma, (n, d) each, of points (n, d)."""
        h, d = len(self.second), points.shape[1]
        context = self.from_context[cluster]
        hidden = np.maximum(points @ self.first + context[:h], 0.0)
        hidden = np.maximum(hidden @ self.second + context[h : 2 * h], 0.0)
        raw = hidden @ self.last + context[2 * h :]
        return raw[:, :d], self.largest_log_scale * np.tanh(raw[:, d:] / self.largest_log_scale)


@dataclass(frozen=True)
class ConditionedFlow:
    """A flow whose contexts are given: K maps between points and noise."""

    blocks: tuple[FlowBlock, ...]

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.blocks[0].from_context)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return len(self.blocks[0].order)

    def select(self, clusters: np.ndarray) -> ConditionedFlow:
        """Keep the clusters with these indices, in this order."""
        return ConditionedFlow(
            tuple(replace(block, from_context=block.from_context[clusters]) for block in self.blocks)
        )

    def noise(self, points: np.ndarray, cluster: int) -> tuple[np.ndarray, np.ndarray]:
        """u = f_k(x), (n, d), and the log determinants (n,) of its derivative, of points (n, d)."""
        log_determinants = np.zeros(len(points))
        for block in self.blocks:
            shift, log_scale = block.shift_and_log_scale(points, cluster)
            points = (points - shift) * np.exp(-log_scale)
            log_determinants -= log_scale.sum(axis=1)
        return points, log_determinants

    def points(self, noise: np.ndarray, cluster: int) -> np.ndarray:
        """The points (n, d) that ``noise`` maps to these u, (n, d)."""
        for block in reversed(self.blocks):
            points = np.zeros_like(noise)
            for feature in np.argsort(block.order):
                shift, log_scale = block.shift_and_log_scale(points, cluster)
                points[:, feature] = noise[:, feature] * np.exp(log_scale[:, feature]) + shift[:, feature]
            noise = points
        return noise


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
        for start in range(0, len(points), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            for k in range(self.n_clusters):
                noise, log_determinants = self.flow.noise(points[rows], k)
                distances[rows, k] = np.square(noise).sum(axis=1)
                densities[rows, k] = log_determinants - 0.5 * distances[rows, k]
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

        That of u from the origin: chi-squared, as for a Gaussian. Clusters of one point do not count.
        """
        shared = self.counts > 1
        distances = self._compare(points)[1]
        return np.asarray(distances[:, shared if shared.any() else slice(None)].min(axis=1))

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw points (n_samples, d) and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        points = rng.standard_normal((n_samples, self.flow.n_features))
        for k in range(self.n_clusters):
            points[labels == k] = self.flow.points(points[labels == k], k)
        return points, labels
