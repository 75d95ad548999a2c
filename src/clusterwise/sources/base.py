"""What a source of rows is: batches, and a way to run a task on each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import joblib
import numpy as np

__all__ = ["Batch", "LocalSource", "RowSource", "rows_at_once"]

Result = TypeVar("Result")

# Numbers of a batch, at eight bytes each; tables with very many columns have at least so many rows in one.
NUMBERS_AT_ONCE = 2**20
LEAST_ROWS = 256
# More threads than this wait for the disk, and each has a batch in memory.
MOST_THREADS = 8


def rows_at_once(n_features: int) -> int:
    """Rows of a batch with so many columns."""
    return max(LEAST_ROWS, NUMBERS_AT_ONCE // max(1, n_features))


@dataclass(frozen=True)
class Batch:
    """Some rows as their source has them."""

    data: Any  # an array (m, d), or a data frame
    start: int  # number of the first row among all rows
    place: str  # where they are from, for errors: a file, a partition
    first: int  # number of the first row within that place

    def __len__(self) -> int:
        return len(self.data)


class RowSource(ABC):
    """Rows that are looked at in batches, in an order of their own, as often as needed."""

    names: tuple[str, ...] | None  # of the columns; None for arrays
    n_features: int

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows n; to know it may take a look at all of them."""

    @abstractmethod
    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """Run a task on every batch; results come in the order of the rows.

        Tasks are pure and small when pickled, as are their results: they may run elsewhere, or twice.
        """

    @abstractmethod
    def gather(self, task: Callable[[Batch], np.ndarray], dtype: Any, n_columns: int | None = None) -> Any:
        """What a task says of every row, (n,) or (n, n_columns), as this kind of source holds arrays."""


class LocalSource(RowSource):
    """A source that this process reads; tasks run in threads, a few batches at a time."""

    def gather(self, task: Callable[[Batch], np.ndarray], dtype: Any, n_columns: int | None = None) -> Any:
        """See ``RowSource``; an array in memory."""
        result = np.empty(self.n_rows if n_columns is None else (self.n_rows, n_columns), dtype=dtype)
        done = 0
        for part in self.map(task):
            result[done : done + len(part)] = part
            done += len(part)
        return result

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All batches in order."""

    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """See ``RowSource``."""
        n_threads = min(MOST_THREADS, joblib.cpu_count())
        if n_threads == 1:
            yield from map(task, self.batches())
            return
        waiting: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(n_threads) as threads:
            try:
                for batch in self.batches():
                    waiting.append(threads.submit(task, batch))
                    if len(waiting) > n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()
