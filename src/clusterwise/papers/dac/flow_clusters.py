"""Clusters that are flows: what rows, known and new, are compared with.

The density of cluster k is ``p_k(x) = Normal(u; 0, I) |du/dx|`` with u = f(x; theta_k). All clusters share
the weights of one masked autoregressive flow f; they differ in their contexts theta_k and in the coordinates
that come before the flow (``nn.densities``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterwise.fitting.protocol import ClusterDensity, outlier_scores
from clusterwise.nn.densities import ClusterFlow, MaskedAutoregressiveFlow

__all__ = ["FlowClusters", "to_numpy"]

# Beyond this many spreads there is nothing: rows farther out count as lying here, and no square overflows.
FARTHEST = 1e3
# Added to the variances of a cluster's rows: two of them have none in one direction.
MIN_VARIANCE = 1e-4
# Rows pass through the flow in blocks of this size, the last one filled up: how a product is taken, and so
# its rounding, does not depend on how many other rows there are.
ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class FlowClusters(ClusterDensity):
    """K clusters with the densities of a flow."""

    flow: MaskedAutoregressiveFlow
    contexts: np.ndarray  # (K, c) theta
    centres: np.ndarray  # (K, d) and
    maps: np.ndarray  # (K, d, d): a cluster's own coordinates are map (x - centre)
    counts: np.ndarray  # (K,) rows of each cluster
    row_means: np.ndarray  # (K, d) of these rows
    row_covariances: np.ndarray  # (K, d, d)

    @classmethod
    @torch.no_grad()
    def of(
        cls, network: ClusterFlow, points: Tensor, labels: Tensor, members: Tensor, mask: Tensor
    ) -> FlowClusters:
        """The clusters of points (n, d) with labels (n,) from 0 to K - 1, all in use.

        The flows are made from ``members`` (K, m, d) with a mask (K, m), which are some of the points.
        """
        rows, names = to_numpy(points, np.float64), to_numpy(labels)
        sets = [rows[names == k] for k in range(len(members))]
        means = np.stack([own.mean(axis=0) for own in sets])
        offsets = [own - mean for own, mean in zip(sets, means, strict=True)]
        contexts, centres, maps = network.describe(members, mask)
        return cls(
            network.flow,
            to_numpy(contexts, np.float32),
            to_numpy(centres, np.float64),
            to_numpy(maps, np.float64),
            np.array([len(own) for own in sets], dtype=np.float64),
            means,
            np.stack([own.T @ own / len(own) for own in offsets]),
        )

    @property
    def covariance_type(self) -> None:
        """None: they are no Gaussians."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.counts)

    @property
    def proportions(self) -> np.ndarray:
        """Mixing weight of each cluster, (K,)."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def means(self) -> np.ndarray:
        """Means of the rows of each cluster, (K, d)."""
        return self.row_means

    @property
    def covariances(self) -> np.ndarray:
        """Covariances of the rows of each cluster, (K, d, d)."""
        return self.row_covariances

    def select(self, clusters: np.ndarray) -> FlowClusters:
        """The clusters with these indices, in this order."""
        return replace(
            self,
            contexts=self.contexts[clusters],
            centres=self.centres[clusters],
            maps=self.maps[clusters],
            counts=self.counts[clusters],
            row_means=self.row_means[clusters],
            row_covariances=self.row_covariances[clusters],
        )

    def with_proportions(self, proportions: np.ndarray) -> FlowClusters:
        """The same clusters with other mixing weights (K,)."""
        return replace(self, counts=self.counts.sum() * proportions)

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of mixing weight times density, (n, K), each row on its own."""
        return np.asarray(self._compare(points)[0] + np.log(self.proportions))

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """See ``Assigner``; by the distance to the nearest cluster."""
        return outlier_scores(self.nearest_distances(points), points.shape[1], n_rows)

    def nearest_distances(self, points: np.ndarray) -> np.ndarray:
        """Squared distance of each point to the nearest cluster in its standard deviations, (n,).

        That of u from the origin: chi-squared, as for a Gaussian. Far from its cluster a flow is what the
        network never saw, so that the distance in the standard deviations of the rows counts if it is
        larger. Clusters of one point do not count.
        """
        distances = self._compare(points)[1]
        for k in range(self.n_clusters):
            root = np.linalg.cholesky(self.covariances[k] + MIN_VARIANCE * np.eye(points.shape[1]))
            offsets = np.linalg.solve(root, (np.clip(points, -FARTHEST, FARTHEST) - self.means[k]).T)
            distances[:, k] = np.maximum(distances[:, k], np.square(offsets).sum(axis=0))
        shared = self.counts > 1
        return np.asarray(distances[:, shared if shared.any() else slice(None)].min(axis=1))

    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Points (n_samples, d) drawn from the mixture and their clusters (n_samples,), sorted by cluster."""
        labels = np.repeat(np.arange(self.n_clusters), rng.multinomial(n_samples, self.proportions))
        points = rng.standard_normal((n_samples, self.flow.n_features))
        for k in range(self.n_clusters):
            noise, context = self._tensor(points[labels == k]), self._tensor(self.contexts[k])
            with torch.no_grad():
                own = to_numpy(self.flow.inverse(noise, context), np.float64)
            points[labels == k] = np.linalg.solve(self.maps[k], own.T).T + self.centres[k]
        return points, labels

    def _tensor(self, array: np.ndarray) -> Tensor:
        parameter = next(self.flow.parameters())
        return torch.as_tensor(array, dtype=parameter.dtype, device=parameter.device)

    @torch.no_grad()
    def _compare(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n, K), and squared distances (n, K) from the centres in the space of u."""
        n, d = points.shape
        padded = np.zeros((-(-n // ROWS_AT_ONCE) * ROWS_AT_ONCE, d))
        padded[:n] = np.clip(points, -FARTHEST, FARTHEST)
        densities, distances = np.empty((2, len(padded), self.n_clusters))
        contexts = self._tensor(self.contexts)
        for start in range(0, len(padded), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            own = (padded[rows] - self.centres[:, None]) @ self.maps.swapaxes(1, 2)  # (K, rows, d)
            noise, log_determinants = self.flow(self._tensor(own), contexts)
            distances[rows] = to_numpy(noise.square().sum(-1).T)
            densities[rows] = to_numpy(log_determinants.T)
        densities += np.linalg.slogdet(self.maps).logabsdet - 0.5 * d * math.log(2 * math.pi)
        densities -= 0.5 * distances
        return densities[:n], distances[:n]


def to_numpy(tensor: Tensor, dtype: Any = None) -> np.ndarray:
    """A tensor as a numpy array of its own."""
    array = tensor.detach().cpu().numpy()
    return array if dtype is None else array.astype(dtype)
