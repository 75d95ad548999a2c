"""Mixture of Gaussians with any covariances: tilted and elongated clusters, in any number of features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from clusterwise.priors.base import Components, TaskBatch
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.partitions import uniform_k

__all__ = ["CorrelatedComponents", "CorrelatedGaussians"]


@dataclass(frozen=True)
class CorrelatedComponents(Components):
    """Weights (K,), means (K, d) and roots (K, d, d) with root root' the covariance of a mixture."""

    weights: np.ndarray
    means: np.ndarray
    roots: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        whitened = np.linalg.solve(self.roots, (points[:, None, :] - self.means).transpose(1, 2, 0))
        normalizers = np.linalg.slogdet(self.roots)[1] + 0.5 * points.shape[1] * np.log(2 * np.pi)
        log_density: np.ndarray = -0.5 * np.square(whitened).sum(axis=1).T - normalizers
        return log_density


@dataclass(frozen=True)
class CorrelatedGaussians(MixturePrior):
    """k ~ Uniform(1 .. k_max); pi ~ Dir(concentration); mu_j ~ Normal(0, mean_sd^2 I).

    Sigma_j = R_j diag(sigma_j^2) R_j' with R_j a uniformly drawn rotation and log sigma_j ~
    Normal(log sd_median, sd_log_sd^2 I), so that ``sd_log_sd`` says how elongated clusters are.
    """

    k_max: int = 12
    sd_median: float = 0.5
    sd_log_sd: float = field(default=0.5, metadata={"least": 0})

    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        return uniform_k(rng, n_sets, self.k_max)

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        d, width = self.n_features, int(k.max())
        means = rng.normal(0.0, self.mean_sd, (n_sets, width, d))
        sds = np.exp(rng.normal(np.log(self.sd_median), self.sd_log_sd, (n_sets, width, 1, d)))
        roots = np.linalg.qr(rng.standard_normal((n_sets, width, d, d)))[0] * sds
        noise = rng.standard_normal((n_sets, n_points, d))
        row = np.arange(n_sets)[:, None]
        points = means[row, labels] + np.einsum("bnij,bnj->bni", roots[row, labels], noise)
        components = [
            CorrelatedComponents(weights[b, : k[b]], means[b, : k[b]], roots[b, : k[b]])
            for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)
