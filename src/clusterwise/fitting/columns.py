"""The user's columns as features: those that vary, in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise._arrays import Scaling, fit_scaling
from clusterwise.fitting.space import FARTHEST

__all__ = ["Columns", "fit_columns"]


@dataclass(frozen=True)
class Columns:
    """How columns of the user's data become features: those that vary, shifted and scaled."""

    varies: np.ndarray  # (d,) bool
    constants: np.ndarray  # (d,) values of the columns that do not vary
    scaling: Scaling  # of the columns that vary; of the first one if none does

    @property
    def used(self) -> np.ndarray:
        """Numbers of the columns in use, at least one."""
        used = np.flatnonzero(self.varies)
        return used if len(used) > 0 else np.zeros(1, dtype=np.int64)

    @property
    def log_volume(self) -> float:
        """A log density in data units is that of the features minus this."""
        return self.scaling.log_volume

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d)."""
        chosen = points if self.varies.all() else points[:, self.used]
        with np.errstate(over="ignore"):  # a new point may lie as far out as it likes
            features = self.scaling.apply(chosen)
            return np.clip(features, -FARTHEST, FARTHEST, out=features)

    def undo(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""
        points = np.repeat(self.constants[None], len(features), axis=0)
        points[:, self.used] = self.scaling.undo(features)
        return points

    def undo_covariances(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances (K, d, d) in the units of the data; zero where a column does not vary."""
        scale = self.scaling.scale
        result = np.zeros((len(covariances), len(self.varies), len(self.varies)))
        result[:, self.used[:, None], self.used] = covariances * scale[:, None] * scale
        return result


def fit_columns(points: np.ndarray, joint: bool) -> Columns:
    """Find the columns of points (n, d) that vary, and their scale, one for all of them if ``joint``."""
    scaling = fit_scaling(points, per_feature=True)
    noise = 4 * np.finfo(points.dtype).eps * np.abs(points).max(axis=0)
    varies = np.abs(points / 2 - scaling.shift / 2).max(axis=0) > noise / 2
    if varies.all() and not joint:
        return Columns(varies, points[0].copy(), scaling)
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    return Columns(varies, points[0].copy(), fit_scaling(points[:, used], per_feature=not joint))
