"""The Chinese restaurant process: the prior over partitions, and the posterior of its concentration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

__all__ = ["GammaPrior", "draw_alpha", "log_partition_probability"]


@dataclass(frozen=True)
class GammaPrior:
    """Gamma(shape, rate) of the concentration alpha."""

    shape: float = 1.0
    rate: float = 1.0


def log_partition_probability(counts: np.ndarray, alpha: float) -> float:
    """Log probability of a partition with cluster sizes ``counts`` (K,), all positive, under CRP(alpha)."""
    n = counts.sum()
    return float(len(counts) * np.log(alpha) + gammaln(counts).sum() + gammaln(alpha) - gammaln(alpha + n))


def draw_alpha(
    rng: np.random.Generator, alpha: float, n_clusters: int, n_points: int, prior: GammaPrior
) -> float:
    """One Gibbs step for alpha given K and N, by the auxiliary variable of Escobar & West (1995)."""
    eta = rng.beta(alpha + 1, n_points)
    rate = prior.rate - np.log(eta)
    odds = (prior.shape + n_clusters - 1) / (n_points * rate)
    shape = prior.shape + n_clusters - (rng.random() >= odds / (1 + odds))
    return max(float(rng.gamma(shape) / rate), 1e-12)
