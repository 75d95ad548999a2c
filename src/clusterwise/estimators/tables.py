"""The user's data as rows for a sampler: sorted, without constant columns, in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from clusterwise._arrays import Scaling, fit_scaling, require_finite
from clusterwise.components.order import sorted_order
from clusterwise.components.rows import Rows
from clusterwise.estimators.validation import as_points

__all__ = ["Columns", "Table", "read_table"]

ROWS_AT_ONCE = 65_536
# Files with fewer numbers are read whole: then they give what the same array in memory gives.
LEAST_MAPPED = 1_000_000


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
        return self.scaling.apply(points[:, self.used])

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


@dataclass(frozen=True)
class Table:
    """One data set, ready for a sampler."""

    rows: Rows
    order: np.ndarray | None  # (n,) rows of the input in the order of ``rows``; None: as they came
    columns: Columns

    def centred_at(self, centre: np.ndarray) -> Table:
        """The same rows with zero at ``centre`` (f,), given in the units of the columns in use."""
        old = self.columns.scaling
        new = Scaling(centre, old.scale)
        columns = replace(self.columns, scaling=new)
        if self.rows.scaling is not None:
            return replace(self, rows=replace(self.rows, scaling=new), columns=columns)
        return replace(self, rows=Rows(self.rows.points + (old.shift - centre) / old.scale), columns=columns)


def _columns(points: np.ndarray, joint: bool) -> Columns:
    scaling = fit_scaling(points, per_feature=True)
    centred = points / 2 - scaling.shift / 2
    noise = 2 * np.finfo(points.dtype).eps * np.abs(points).max(axis=0)
    varies = np.abs(centred).max(axis=0) > noise
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    return Columns(varies, points[0].copy(), fit_scaling(points[:, used], per_feature=not joint))


def _columns_by_chunk(points: np.ndarray, joint: bool) -> Columns:
    """The same from three passes over a file, for data that may not fit in memory."""
    n, d = points.shape
    starts = range(0, n, ROWS_AT_ONCE)
    total, largest, smallest = np.zeros(d), np.full(d, -np.inf), np.full(d, np.inf)
    for start in starts:
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        require_finite(chunk, f"X[{start}:]")
        total += chunk.sum(axis=0) / n
        largest, smallest = np.maximum(largest, chunk.max(axis=0)), np.minimum(smallest, chunk.min(axis=0))
    varies = largest > smallest
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    squares = np.zeros(d)
    for start in starts:
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        squares += np.square(chunk - total).sum(axis=0) / n
    spread = squares[used].mean() if joint else squares[used]
    scale = np.broadcast_to(np.sqrt(np.where(spread > 0, spread, 1.0)), used.shape).copy()
    return Columns(varies, np.asarray(points[0], dtype=np.float64), Scaling(total[used], scale))


def read_table(X: Any, estimator: BaseEstimator, joint: bool) -> Table:
    """Check X and bring it to units of its spread, all features together if ``joint``.

    A large ``numpy.memmap`` is left where it is; it is read chunk by chunk, in its own order.
    """
    if isinstance(X, np.memmap) and X.ndim == 2 and X.size >= LEAST_MAPPED and X.dtype.kind == "f":
        columns = _columns_by_chunk(X, joint)
        return Table(Rows(X, columns.scaling, columns.used), None, columns)
    points = as_points(X, estimator)
    order = sorted_order(points)
    points = points[order]
    columns = _columns(points, joint)
    return Table(Rows(columns.apply(points)), order, columns)
