"""The rows of one data set in the units of a sampler, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clusterwise.affine import AffineMap

__all__ = ["Rows"]

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
