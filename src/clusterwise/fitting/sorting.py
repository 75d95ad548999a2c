"""The rows of a data set as features, in an order that depends on their values alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

import numpy as np

from clusterwise.affine import AffineMap, FeatureSpace
from clusterwise.fitting.validation import require_finite
from clusterwise.gaussian.sorted_rows import Rows, in_input_order, sorted_order

__all__ = [
    "MAX_SAMPLE",
    "SortedRows",
    "fit_column_map_of_file",
    "is_mapped",
    "sample_rows",
    "sort_rows",
    "spread_rows",
]

# Rows that clusters are fitted to; of more a random part, and all rows are labelled by these clusters.
MAX_SAMPLE = 10_000
# Files with fewer numbers are read whole: then they give what the same array in memory gives.
MIN_MAPPED = 1_000_000
# Rows of a mapped file that are read at a time.
ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class SortedRows:
    """The n rows of one data set as features: sorted in memory, or read from a mapped file as they come."""

    rows: Rows
    space: FeatureSpace
    order: np.ndarray | None  # (n,) the rows of the input; None: they are in their own order

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def features(self) -> np.ndarray:
        """Features (n, f) of all rows."""
        return self.rows.take(slice(None))

    def in_input_order(self, values: np.ndarray) -> np.ndarray:
        """Values (n, ...) of the rows, in the order of the input."""
        return in_input_order(values, self.order)


def sort_rows(points: np.ndarray, fit_space: Callable[[np.ndarray], FeatureSpace]) -> SortedRows:
    """Rows of points (n, d) in the space that ``fit_space`` makes of the sorted points.

    Sorted rows make everything that follows, rounding included, independent of the input's order.
    """
    order = sorted_order(points)
    points = points[order]
    space = fit_space(points)
    return SortedRows(Rows(space.apply(points)), space, order)


def sample_rows(n: int, most: int, seed: int) -> np.ndarray:
    """Ascending positions of all n rows, or of ``most`` of them at random."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


@lru_cache(maxsize=4)  # setting up a generator takes longer than the choice
def spread_rows(n: int, most: int) -> np.ndarray:
    """Ascending positions of all n rows, or of one in each of ``most`` stretches; the same for the same n."""
    if n <= most:
        return np.arange(n)
    edges = np.arange(most + 1) * n // most
    # At random within a stretch: a fixed step could fall in with a pattern of the sorted rows.
    within = np.random.default_rng(n).random(most)
    return edges[:-1] + (within * np.diff(edges)).astype(np.int64)


def is_mapped(X: Any) -> TypeGuard[np.memmap]:
    """Whether X is a mapped file that is large enough to be read chunk by chunk."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.size >= MIN_MAPPED and X.dtype.kind == "f"


def fit_column_map_of_file(points: np.memmap, joint: bool) -> AffineMap:
    """The map of ``fit_column_map`` from two passes over mapped points (n, d), for more rows than memory."""
    n, d = points.shape
    starts = range(0, n, ROWS_AT_ONCE)
    mean, largest, smallest = np.zeros(d), np.full(d, -np.inf), np.full(d, np.inf)
    for start in starts:
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        require_finite(chunk, f"X[{start}:]")
        mean += chunk.sum(axis=0) / n
        largest, smallest = np.maximum(largest, chunk.max(axis=0)), np.minimum(smallest, chunk.min(axis=0))
    varies = largest > smallest
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    squares = np.zeros(d)
    for start in starts:
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        squares += np.square(chunk - mean).sum(axis=0) / n
    spread = squares[used].mean() if joint else squares[used]
    scale = np.broadcast_to(np.sqrt(np.where(spread > 0, spread, 1.0)), used.shape).copy()
    if varies.all():
        return AffineMap(mean, scale)
    return AffineMap(mean[used], scale, columns=used, constants=np.asarray(points[0], dtype=np.float64))
