"""Mixture of diagonal Gaussians, Eq 13 of DAC (Lee, Lee & Teh 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.base import Components, Prior, TaskBatch
from clusterwise.priors.options import check_options
from clusterwise.priors.partitions import binomial_k, categorical_labels, dirichlet_weights, uniform_k

__all__ = ["GaussianComponents", "MixtureOfGaussians", "diagonal_normal_log_density"]


def diagonal_normal_log_density(points: np.ndarray, means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Return log N(x_i; mu_j, diag(sd_j^2)), shape (n, K).

    ``points`` is (n, d); ``means`` and ``sds`` are (K, d).
    """
    standardized = (points[:, None, :] - means) / sds
    normalizer = np.log(sds).sum(axis=1) + 0.5 * points.shape[1] * np.log(2 * np.pi)
    log_density: np.ndarray = -0.5 * np.square(standardized).sum(axis=2) - normalizer
    return log_density


@dataclass(frozen=True)
class GaussianComponents(Components):
    """Weights (K,), means (K, d) and standard deviations (K, d) of a diagonal mixture."""

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):  # an empty component has weight 0 and never wins
            log_weights = np.log(self.weights)
        log_joint: np.ndarray = log_weights + diagonal_normal_log_density(points, self.means, self.sds)
        return log_joint


@dataclass(frozen=True)
class MixtureOfGaussians(Prior):
    """DAC Eq 13, in any number of dimensions.

    k - 1 ~ Binomial(k_max - 1, 1/2); pi ~ Dir(concentration, ..., concentration);
    mu_j ~ Normal(0, mean_sd^2 I); log sigma_j ~ Normal(log sd_median, sd_log_sd^2 I).

    The paper does not print the concentration alpha. With alpha = 1 the oracle log-likelihoods
    are the printed ones (-0.693 and -1.527); with alpha = 5 they are not (-0.81 and -1.78).

    ``k_law="uniform"`` draws k uniformly from 1 .. k_max instead, for training on larger k: the
    binomial with a large k_max would hardly ever show a data set of one cluster.
    """

    n_features: int = 2
    k_max: int = 4
    k_exact: int | None = None
    concentration: float = 1.0
    mean_sd: float = 3.0
    sd_median: float = 0.25
    sd_log_sd: float = 0.1
    k_law: Literal["binomial", "uniform"] = "binomial"

    def __post_init__(self) -> None:
        check_options(
            self,
            counts=("n_features", "k_max", "k_exact"),
            positive=("concentration", "mean_sd", "sd_median"),
            non_negative=("sd_log_sd",),
            optional=("k_exact",),
        )
        if self.k_law not in ("binomial", "uniform"):
            raise RecipeError(f"k_law must be 'binomial' or 'uniform', got {self.k_law!r}.")

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        if self.k_law == "uniform" and self.k_exact is None:
            k = uniform_k(rng, n_sets, self.k_max)
        else:
            k = binomial_k(rng, n_sets, self.k_max, self.k_exact)
        width = int(k.max())
        weights = dirichlet_weights(rng, k, self.concentration)
        labels = categorical_labels(rng, weights, n_points)
        means = rng.normal(0.0, self.mean_sd, (n_sets, width, self.n_features))
        log_sds = rng.normal(np.log(self.sd_median), self.sd_log_sd, (n_sets, width, self.n_features))
        sds = np.exp(log_sds)
        noise = rng.standard_normal((n_sets, n_points, self.n_features))
        row = np.arange(n_sets)[:, None]
        points = means[row, labels] + sds[row, labels] * noise
        components = [
            GaussianComponents(weights[b, : k[b]], means[b, : k[b]], sds[b, : k[b]]) for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)
