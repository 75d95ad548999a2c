"""What every prior over labelled data sets provides: draws, and the truth behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

__all__ = ["Components", "LabelledSet", "Prior", "TaskBatch"]


class Components(ABC):
    """The true mixture behind one data set: what an oracle knows."""

    weights: np.ndarray  # (K,), pi

    @abstractmethod
    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Return log p_j(x_i), shape (n, K), for points of shape (n, d)."""

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Return log(pi_j p_j(x_i)), shape (n, K), for points of shape (n, d)."""
        with np.errstate(divide="ignore"):  # a component of weight 0 never wins
            log_weights = np.log(self.weights)
        log_joint: np.ndarray = log_weights + self.log_density(points)
        return log_joint


@dataclass(frozen=True)
class LabelledSet:
    """One data set with its labels and the mixture that it was drawn from."""

    points: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,) component indices; some components may have no point
    components: Components

    @property
    def n_clusters(self) -> int:
        """Number of components that have at least one point."""
        return len(np.unique(self.labels))

    def oracle_log_likelihood(self) -> float:
        """Mean log density per point under the true parameters."""
        return float(logsumexp(self.components.log_joint(self.points), axis=1).mean())

    def oracle_labels(self) -> np.ndarray:
        """Most likely component of each point under the true parameters, shape (n,)."""
        likeliest: np.ndarray = self.components.log_joint(self.points).argmax(axis=1)
        return likeliest


@dataclass(frozen=True)
class TaskBatch:
    """B data sets of one size, ready for a training step."""

    points: np.ndarray  # (B, N, d)
    labels: np.ndarray  # (B, N)
    components: Sequence[Components]  # B of them

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> LabelledSet:
        return LabelledSet(self.points[index], self.labels[index], self.components[index])


class Prior(ABC):
    """A distribution over labelled data sets."""

    n_features: int

    @abstractmethod
    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        """Draw ``n_sets`` data sets of ``n_points`` points each, independent of each other."""

    def draw_set(self, rng: np.random.Generator, n_points: int) -> LabelledSet:
        """Draw one data set."""
        return self.draw(rng, 1, n_points)[0]
