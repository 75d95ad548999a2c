"""The rows of a data set as features, chunk by chunk, in an order that depends on their values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from clusterwise.affine import AffineMap, FeatureSpace

if TYPE_CHECKING:
    from clusterwise.rows import Batch, RowSource

__all__ = [
    "Origin",
    "Rows",
    "SortedRows",
    "in_input_order",
    "sample_rows",
    "sort_rows",
    "sorted_order",
    "spread_rows",
]

# Numbers in the largest temporary of a chunk: it should stay in the processor's cache.
CHUNK = 400_000


@dataclass(frozen=True)
class Rows:
    """Points (n, d), in memory or mapped from a file, scaled when they are read.

    Samplers only ever read a chunk at a time and keep labels (n,) and sums, so the points themselves need
    not fit in memory.
    """

    points: np.ndarray
    space: AffineMap | None = None  # what makes features of the points; None: they are features

    def __len__(self) -> int:
        return len(self.points)

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.points.shape[1]) if self.space is None else self.space.n_features

    def take(self, index: np.ndarray | slice) -> np.ndarray:
        """Rows at ``index``, scaled, float64."""
        taken = np.asarray(self.points[index], dtype=np.float64)
        return taken if self.space is None else self.space.apply(taken)

    def chunks(self, width: int) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows in turn, as many at a time as ``width`` numbers for each allow."""
        for rows in self.parts(width):
            yield rows, self.take(rows)

    def parts(self, width: int) -> Iterator[slice]:
        """Where the chunks are that ``width`` numbers for each row allow."""
        size = max(16, CHUNK // width)
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))

    def chunks_of(self, index: np.ndarray, width: int) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows at ``index`` (m,) in turn; the slices are positions in ``index``."""
        size = max(16, CHUNK // width)
        for start in range(0, len(index), size):
            part = slice(start, min(start + size, len(index)))
            yield part, self.take(index[part])


@dataclass(frozen=True)
class Origin:
    """Where a sample is from: rows of a source, chosen by their numbers."""

    source: RowSource
    read: Callable[[Batch], np.ndarray]  # numbers (m, d) of a batch of the source
    numbers: np.ndarray  # (n,) of the rows of the sample, in the order of the source
    weights: np.ndarray | None  # (n,) how many rows each stands for, in that order; None: all for as many


@dataclass(frozen=True)
class SortedRows:
    """The n rows of a data set as features: what a method gets. Those of a mapped file are not sorted."""

    rows: Rows
    space: FeatureSpace
    order: np.ndarray | None  # (n,) the rows of the input; None: they are in their own order
    origin: Origin | None = None  # None: these are all rows there are

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def features(self) -> np.ndarray:
        """Features (n, f) of all rows."""
        return self.rows.take(slice(None))

    @property
    def weights(self) -> np.ndarray | None:
        """How many rows of the source each row stands for, (n,); None: all for as many."""
        if self.origin is None or self.origin.weights is None:
            return None
        return self.origin.weights if self.order is None else self.origin.weights[self.order]

    def in_input_order(self, values: np.ndarray) -> np.ndarray:
        """Values (n, ...) of the rows, in the order of the input."""
        return in_input_order(values, self.order)


def sort_rows(
    points: np.ndarray, fit_space: Callable[[np.ndarray], FeatureSpace], origin: Origin | None = None
) -> SortedRows:
    """Rows of points (n, d) in the space that ``fit_space`` makes of the sorted points.

    Sorted rows make everything that follows, rounding included, independent of the input's order. A large
    mapped file stays where it is.
    """
    if isinstance(points, np.memmap):
        space = fit_space(points)
        assert isinstance(space, AffineMap)
        if not np.isfinite([space.shift, space.scale]).all():
            _find_infinite(points)
        return SortedRows(Rows(points, space), space, None)
    order = sorted_order(points)
    points = points[order]
    space = fit_space(points)
    return SortedRows(Rows(space.apply(points)), space, order, origin)


def _find_infinite(points: np.memmap) -> None:
    """Raise an error that names the first rows of a mapped file that are not finite."""
    from clusterwise.fitting.validation import require_finite

    for start in range(0, len(points), CHUNK):
        require_finite(points[start : start + CHUNK], f"X[{start}:]")


def sample_rows(n: int, max_rows: int, seed: int) -> np.ndarray:
    """Ascending positions of all n rows, or of ``max_rows`` of them at random."""
    if n <= max_rows:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, max_rows, replace=False))


@lru_cache(maxsize=4)  # setting up a generator takes longer than the choice
def spread_rows(n: int, max_rows: int) -> np.ndarray:
    """Ascending positions of all n rows, or of one in each of ``max_rows`` stretches; the same for each n."""
    if n <= max_rows:
        return np.arange(n)
    edges = np.arange(max_rows + 1) * n // max_rows
    # At random within a stretch: a fixed step could fall in with a pattern of the sorted rows.
    within = np.random.default_rng(n).random(max_rows)
    return edges[:-1] + (within * np.diff(edges)).astype(np.int64)


def sorted_order(points: np.ndarray) -> np.ndarray:
    """Order of the rows (n, d) by value, the first column first."""
    order = np.argsort(points[:, 0], kind="stable")
    leading = points[order, 0]
    # Sorting by all columns takes several times as long, and ties in the first are rare.
    return np.lexsort(points.T[::-1]) if (leading[1:] == leading[:-1]).any() else order


def in_input_order(values: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Values (n, ...) of sorted rows in the order of the input; without an order they are in it."""
    if order is None:
        return values
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    return values.take(inverse, axis=0)
