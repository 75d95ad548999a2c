"""Mixture of diagonal Gaussians, Eq 13 of DAC (Lee, Lee & Teh 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from clusterwise.priors.base import Components, TaskBatch
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.partitions import binomial_k, uniform_k

__all__ = ["GaussianComponents", "MixtureOfGaussians"]


@dataclass(frozen=True)
class GaussianComponents(Components):
    """Weights (K,), means (K, d) and standard deviations (K, d) of a diagonal mixture."""

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        standardized = (points[:, None, :] - self.means) / self.sds
        normalizers = np.log(self.sds).sum(axis=1) + 0.5 * points.shape[1] * np.log(2 * np.pi)
        log_density: np.ndarray = -0.5 * np.square(standardized).sum(axis=2) - normalizers
        return log_density


@dataclass(frozen=True)
class MixtureOfGaussians(MixturePrior):
    """DAC Eq 13, in any number of dimensions.

    k - 1 ~ Binomial(k_max - 1, 1/2); pi ~ Dir(concentration, ..., concentration);
    mu_j ~ Normal(0, mean_sd^2 I); log sigma_j ~ Normal(log sd_median, sd_log_sd^2 I).

    The paper does not print the concentration alpha. With alpha = 1 the oracle log-likelihoods
    are the printed ones (-0.693 and -1.527); with alpha = 5 they are not (-0.81 and -1.78).

    ``k_law="uniform"`` draws k uniformly from 1 .. k_max instead, for training on larger k: the
    binomial with a large k_max would hardly ever show a data set of one cluster.

    ``near`` is the share of clusters, apart from the first, that lie beside an earlier one, at 1.5 to 5 of
    its standard deviations: hard to tell apart, which few data sets show by chance.
    """

    k_law: Literal["binomial", "uniform"] = "binomial"
    near: float = field(default=0.0, metadata={"least": 0})

    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        return (uniform_k if self.k_law == "uniform" else binomial_k)(rng, n_sets, self.k_max)

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        width = int(k.max())
        means = rng.normal(0.0, self.mean_sd, (n_sets, width, self.n_features))
        log_sds = rng.normal(np.log(self.sd_median), self.sd_log_sd, (n_sets, width, self.n_features))
        sds = np.exp(log_sds)
        if self.near > 0:
            _bring_near(rng, means, sds, self.near)
        noise = rng.standard_normal((n_sets, n_points, self.n_features))
        row = np.arange(n_sets)[:, None]
        points = means[row, labels] + sds[row, labels] * noise
        components = [
            GaussianComponents(weights[b, : k[b]], means[b, : k[b]], sds[b, : k[b]]) for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)


# Standard deviations between the means of clusters that lie side by side.
BESIDE = (1.5, 5.0)


def _bring_near(rng: np.random.Generator, means: np.ndarray, sds: np.ndarray, share: float) -> None:
    """Move a share of the means (B, K, d), in place, to where an earlier cluster of their set is."""
    n_sets, width, d = means.shape
    rows = np.arange(n_sets)
    for j in range(1, width):
        moved = rng.random((n_sets, 1)) < share
        beside = rng.integers(j, size=n_sets)
        direction = rng.standard_normal((n_sets, d))
        direction *= rng.uniform(*BESIDE, (n_sets, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        there = means[rows, beside] + direction * sds[rows, beside]
        means[:, j] = np.where(moved, there, means[:, j])
