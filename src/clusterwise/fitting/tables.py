"""The user's data as rows for a sampler: sorted, without constant columns, in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from clusterwise._arrays import Scaling, require_finite
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.columns import Columns, fit_columns
from clusterwise.fitting.validation import as_points
from clusterwise.gaussian.order import sorted_order
from clusterwise.gaussian.rows import Rows
from clusterwise.rows import as_source

__all__ = ["Table", "read_table"]

ROWS_AT_ONCE = 65_536
# Files with fewer numbers are read whole: then they give what the same array in memory gives.
LEAST_MAPPED = 1_000_000


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
    if as_source(X) is not None and not isinstance(X, np.memmap):
        raise ClusterwiseError(
            f"{type(estimator).__name__} is fitted to data in memory or to a numpy.memmap; load the rows, or "
            "part of them, and pass the rest to predict."
        )
    points = as_points(X, estimator)
    order = sorted_order(points)
    points = points[order]
    columns = fit_columns(points, joint)
    return Table(Rows(columns.apply(points)), order, columns)
