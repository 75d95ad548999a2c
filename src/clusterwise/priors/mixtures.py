"""What priors over mixtures share: their options, and how many clusters there are and who is in which."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np

from clusterwise.priors.base import Prior
from clusterwise.priors.options import check_options
from clusterwise.priors.partitions import categorical_labels, dirichlet_weights

__all__ = ["MixturePrior"]


@dataclass(frozen=True)
class MixturePrior(Prior):
    """pi ~ Dir(concentration, ..., concentration), labels ~ Cat(pi); the rest is up to the mixture."""

    n_features: int = 2
    k_max: int = 4
    k_exact: int | None = None
    concentration: float = 1.0
    mean_sd: float = 3.0
    sd_median: float = 0.25
    sd_log_sd: float = field(default=0.1, metadata={"least": 0})

    def __post_init__(self) -> None:
        check_options(self, f"of {type(self).__name__}")

    @abstractmethod
    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        """Numbers of clusters, (n_sets,), where ``k_exact`` does not say them."""

    def draw_labels(
        self, rng: np.random.Generator, n_sets: int, n_points: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of clusters (B,), weights (B, max k), zero beyond k, and labels (B, N)."""
        k = self.draw_k(rng, n_sets) if self.k_exact is None else np.full(n_sets, self.k_exact)
        weights = dirichlet_weights(rng, k, self.concentration)
        return k, weights, categorical_labels(rng, weights, n_points)
