"""Arrays that are mapped from a file, or are in memory already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clusterwise.sources.base import Batch, LocalSource, rows_at_once

__all__ = ["ArraySource"]


class ArraySource(LocalSource):
    """The rows of an array (n, d), in memory or a ``numpy.memmap``."""

    names = None

    def __init__(self, array: np.ndarray, name: str = "X") -> None:
        self.array = array
        self.name = name
        self.n_features = int(array.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.array)

    def batches(self) -> Iterator[Batch]:
        """All batches in order."""
        size = rows_at_once(self.n_features)
        for start in range(0, len(self.array), size):
            yield Batch(np.array(self.array[start : start + size]), start, self.name, start)
