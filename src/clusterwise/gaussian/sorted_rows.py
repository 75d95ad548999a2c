"""The rows of a data set, chunk by chunk, and an order of them that depends on their values alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.affine import AffineMap

__all__ = ["Rows", "by_first_appearance", "in_input_order", "sorted_order"]

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
        size = max(16, CHUNK // width)
        for start in range(0, len(self), size):
            rows = slice(start, min(start + size, len(self)))
            yield rows, self.take(rows)

    def chunks_of(self, index: np.ndarray, width: int) -> Iterator[tuple[slice, np.ndarray]]:
        """The rows at ``index`` (m,) in turn; the slices are positions in ``index``."""
        size = max(16, CHUNK // width)
        for start in range(0, len(index), size):
            part = slice(start, min(start + size, len(index)))
            yield part, self.take(index[part])


def sorted_order(points: np.ndarray) -> np.ndarray:
    """Order of the rows (n, d) by value, the first column first."""
    order = np.argsort(points[:, 0], kind="stable")
    leading = points[order, 0]
    # Sorting by all columns takes several times as long, and ties in the first are rare.
    return np.lexsort(points.T[::-1]) if (leading[1:] == leading[:-1]).any() else order


def in_input_order(values: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Bring values of sorted rows, (n, ...), back to the order of the input; None: they are in it."""
    if order is None:
        return values
    result = np.empty_like(values)
    if values.ndim == 2 and values.flags.c_contiguous:
        _place_rows(values, order, result)
    else:
        result[order] = values
    return result


@compiled
def _place_rows(values: np.ndarray, order: np.ndarray, result: np.ndarray) -> None:
    """Write row i of values (n, K) to row ``order[i]`` of the result; numpy takes ten times as long."""
    for i in range(len(order)):
        for j in range(values.shape[1]):
            result[order[i], j] = values[i, j]


def by_first_appearance(labels: np.ndarray, n_clusters: int, order: np.ndarray | None) -> np.ndarray:
    """Return the clusters in use, (K,), the one that comes first in the input first.

    ``labels`` (n,) are those of the sorted rows, out of 0 .. ``n_clusters`` - 1.
    """
    never = np.iinfo(np.int64).max
    first = np.full(n_clusters, never)
    np.minimum.at(first, labels, np.arange(len(labels)) if order is None else order)
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < never)]
