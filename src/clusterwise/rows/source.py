"""Sources of rows: batches, a way to run a task on each of them, and the sources that need no package."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import joblib
import numpy as np

from clusterwise.exceptions import ClusterwiseError
from clusterwise.rows.blocks import Blocks, LocalBlocks, samples_of
from clusterwise.rows.sorted_rows import Rows

__all__ = [
    "ArraySource",
    "Batch",
    "InFeatures",
    "LocalSource",
    "PreparedSource",
    "RowSource",
    "rows_at_once",
    "spooled",
]

Result = TypeVar("Result")

# Numbers of a batch, at eight bytes each; tables with very many columns have at least this many rows in one.
NUMBERS_AT_ONCE = 2**18
MIN_ROWS = 256
# More threads than this wait for the disk, and each has a batch in memory.
MAX_THREADS = 8


def rows_at_once(n_features: int) -> int:
    """Rows of a batch with this many columns."""
    return max(MIN_ROWS, NUMBERS_AT_ONCE // max(1, n_features))


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

    @abstractmethod
    def hold(self, features: Callable[[Batch], np.ndarray], sample: np.ndarray) -> Blocks:
        """Features (n, f) of all rows, made once and kept where samplers work on them.

        ``sample`` has the ascending numbers of some rows that are to be found again.
        """


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

    def hold(self, features: Callable[[Batch], np.ndarray], sample: np.ndarray) -> Blocks:
        """See ``RowSource``; in a temporary file, with one block for each place."""
        return spooled(self.map(_WithPlace(features)), sample)

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """All batches in order."""

    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """See ``RowSource``."""
        n_threads = min(MAX_THREADS, joblib.cpu_count())
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


@dataclass(frozen=True)
class _WithPlace:
    """A task whose result comes with the place of the batch."""

    task: Callable[[Batch], np.ndarray]

    def __call__(self, batch: Batch) -> tuple[str, np.ndarray]:
        return batch.place, self.task(batch)


def spooled(parts: Iterable[tuple[str, np.ndarray]], sample: np.ndarray) -> Blocks:
    """Write features (m, f) of consecutive batches to a temporary file; one block for each place."""
    lengths: list[int] = []
    last, n_features = None, 1
    with tempfile.TemporaryFile() as file:
        for place, features in parts:
            if place != last:
                lengths.append(0)
            last, n_features = place, features.shape[1]
            lengths[-1] += len(features)
            file.write(np.ascontiguousarray(features, dtype=np.float64).tobytes())
        file.flush()
        # The map keeps the file until the last block has gone.
        points = np.memmap(file, dtype=np.float64, mode="r", shape=(sum(lengths), n_features))
    edges = np.concatenate([[0], np.cumsum(lengths)])
    blocks = [Rows(points[first:end]) for first, end in pairwise(edges)]
    return LocalBlocks(blocks, samples_of(sample, lengths))


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


@dataclass(frozen=True)
class InFeatures:
    """A task on features (m, f), as a task on batches of a table."""

    task: Callable[[Batch], Any]
    transform: Callable[[Any], np.ndarray]

    def __call__(self, batch: Batch) -> Any:
        """What the task makes of the features of a batch."""
        try:
            features = self.transform(batch.data)
        except ClusterwiseError as error:
            raise type(error)(f"{batch.place}: {error}") from error
        return self.task(Batch(features, batch.start, batch.place, batch.first))


class PreparedSource(RowSource):
    """The rows of a table as numeric features."""

    names = None

    def __init__(self, table: RowSource, transform: Callable[[Any], np.ndarray], n_features: int) -> None:
        self.table = table
        self.transform = transform
        self.n_features = n_features

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.table.n_rows

    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """See ``RowSource``."""
        return self.table.map(InFeatures(task, self.transform))

    def gather(self, task: Callable[[Batch], np.ndarray], dtype: Any, n_columns: int | None = None) -> Any:
        """See ``RowSource``."""
        return self.table.gather(InFeatures(task, self.transform), dtype, n_columns)

    def hold(self, features: Callable[[Batch], np.ndarray], sample: np.ndarray) -> Blocks:
        """See ``RowSource``."""
        return self.table.hold(InFeatures(features, self.transform), sample)
