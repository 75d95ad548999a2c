"""Arrays that are mapped from a file, or are in memory already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clusterwise.rows.base import Batch, LocalSource, rows_at_once

__all__ = ["ArraySource"]


class ArraySource(LocalSource):
    """The rows of an array (n, d), in memory or a ``numpy.memmap``."""

    names = None

    def __init__(self, array: np.ndarray, lengths: Sequence[int] | None = None) -> None:
        self.array = array
        self.lengths = [len(array)] if lengths is None else list(lengths)  # of parts that are places
        self.n_features = int(array.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.array)

    def batches(self) -> Iterator[Batch]:
        """All batches in order."""
        size, begin = rows_at_once(self.n_features), 0
        for part, length in enumerate(self.lengths):
            place = "X" if len(self.lengths) == 1 else f"part {part} of X"
            for first in range(0, length, size):
                start = begin + first
                stop = begin + min(first + size, length)
                yield Batch(np.array(self.array[start:stop]), start, place, first)
            begin += length
