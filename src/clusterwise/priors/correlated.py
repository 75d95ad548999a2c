"""Mixture of Gaussians with any covariances: tilted and elongated clusters, in any number of features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.priors.base import Components, Prior, TaskBatch
from clusterwise.priors.options import check_options
from clusterwise.priors.partitions import categorical_labels, dirichlet_weights, uniform_k

__all__ = ["CorrelatedComponents", "CorrelatedGaussians"]


@dataclass(frozen=True)
class CorrelatedComponents(Components):
    """Weights (K,), means (K, d) and roots (K, d, d) with root root' the covariance of a mixture."""

    weights: np.ndarray
    means: np.ndarray
    roots: np.ndarray

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        whitened = np.linalg.solve(self.roots, (points[:, None, :] - self.means).transpose(1, 2, 0))
        log_volumes = np.linalg.slogdet(self.roots)[1]
        with np.errstate(divide="ignore"):  # an empty component has weight 0 and never wins
            log_weights = np.log(self.weights)
        normalizers = log_weights - log_volumes - 0.5 * points.shape[1] * np.log(2 * np.pi)
        log_joint: np.ndarray = normalizers - 0.5 * np.square(whitened).sum(axis=1).T
        return log_joint


@dataclass(frozen=True)
class CorrelatedGaussians(Prior):
    """k ~ Uniform(1 .. k_max); pi ~ Dir(concentration); mu_j ~ Normal(0, mean_sd^2 I).

    Sigma_j = R_j diag(sigma_j^2) R_j' with R_j a uniformly drawn rotation and log sigma_j ~
    Normal(log sd_median, sd_log_sd^2 I), so that ``sd_log_sd`` says how elongated clusters are.
    """

    n_features: int = 2
    k_max: int = 12
    k_exact: int | None = None
    concentration: float = 1.0
    mean_sd: float = 3.0
    sd_median: float = 0.5
    sd_log_sd: float = 0.5

    def __post_init__(self) -> None:
        check_options(
            self,
            counts=("n_features", "k_max", "k_exact"),
            positive=("concentration", "mean_sd", "sd_median"),
            non_negative=("sd_log_sd",),
            optional=("k_exact",),
        )

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        d = self.n_features
        fixed = self.k_exact is not None
        k = np.full(n_sets, self.k_exact) if fixed else uniform_k(rng, n_sets, self.k_max)
        width = int(k.max())
        weights = dirichlet_weights(rng, k, self.concentration)
        labels = categorical_labels(rng, weights, n_points)
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
