"""How probable a hard partition is under Gaussians, all parameters integrated out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from clusterwise.search.evidence import Sample, judge
from clusterwise.search.settings import DEFAULT

__all__ = ["GaussianEvidence"]


@dataclass(frozen=True)
class GaussianEvidence:
    """Compares partitions of points (m, q) with one Gaussian, of any covariance or along the axes.

    It sees clusters of a handful of rows where the penalty of the BIC is too large for them.
    """

    points: np.ndarray
    covariance_type: Literal["full", "diag"]

    @cached_property
    def sample(self) -> Sample:
        """The points, ready for a search."""
        return Sample(self.points, self.covariance_type, DEFAULT)

    def gain(self, sums: np.ndarray) -> float:
        """Log evidence of clusters with sums (K, p) of T(x), above that of one Gaussian, in nats.

        T(x) is that of Gaussians of any covariance; see ``components.niw``.
        """
        return self._evidence(sums) - self._of_one

    @cached_property
    def _of_one(self) -> float:
        points = self.points
        upper, right = np.triu_indices(points.shape[1])
        squares = (points.T @ points)[upper, right]
        return self._evidence(np.concatenate([[len(points)], points.sum(axis=0), squares])[None])

    def _evidence(self, sums: np.ndarray) -> float:
        q = self.points.shape[1]
        upper, right = np.triu_indices(q)
        squares = sums[:, q + 1 :].copy()
        squares[:, upper == right] += self.sample.blur * sums[:, :1]  # rows that repeat
        if self.covariance_type == "diag":
            squares = squares[:, upper == right]
        statistics = np.concatenate([sums[:, : q + 1], squares], axis=1)
        return judge(self.sample, np.empty((0, 0)), 0.0, statistics).log_evidence
