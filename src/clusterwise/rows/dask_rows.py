"""Collections of dask as sources of rows: tasks run where the partitions are, sums and samples come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import getitem
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from clusterwise._threads import one_thread
from clusterwise.exceptions import ClusterwiseError, InvalidDataError, MissingDependencyError
from clusterwise.rows.arrow import ParquetPart, parquet_parts
from clusterwise.rows.batches import slice_rows
from clusterwise.rows.blocks import Block, Blocks, Operation, operate, samples_of, start
from clusterwise.rows.sorted_rows import Rows
from clusterwise.rows.source import Batch, RowSource, rows_at_once, spooled
from clusterwise.rows.worker_memory import memory_kept

try:
    import dask
    import dask.array
except ImportError as error:
    raise MissingDependencyError(
        "collections of dask need dask and distributed; run: pip install 'clusterwise[dask]'"
    ) from error

__all__ = ["DaskSource", "as_source", "map_sets"]

Result = TypeVar("Result")
Task = Callable[[Batch], Any]
LACKS_PACKAGE = "a dask worker cannot import clusterwise; install the same version of it on all workers."


def as_source(X: Any) -> DaskSource | None:
    """A dask array (n, d) or DataFrame as a source; None for other things of dask."""
    if isinstance(X, dask.array.Array):
        if X.ndim != 2:
            raise InvalidDataError(f"X is a dask array with {X.ndim} dimensions; pass rows and columns.")
        if np.isnan(X.shape[1]):
            raise InvalidDataError("X has an unknown number of columns; call compute_chunk_sizes() first.")
        whole = X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})
        lengths = None if np.isnan(whole.chunks[0]).any() else list(map(int, whole.chunks[0]))
        return DaskSource(list(whole.to_delayed().ravel()), int(X.shape[1]), None, lengths)
    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        names, delayed = tuple(map(str, X.columns)), list(X.to_delayed())
        files = parquet_parts(X, delayed)
        if files is not None:
            # With names of their own, or dask would look for collections in them.
            return DaskSource([dask.delayed(part, traverse=False) for part in files], len(names), names, None)
        # Of files the first column alone tells how many rows there are.
        counted = X[[X.columns[0]]] if len(set(names)) == len(names) > 1 else X
        numeric = tuple(name for name, kind in zip(names, X.dtypes, strict=True) if _is_numeric(kind))
        parts = [_checked_part(part, index, numeric) for index, part in enumerate(delayed)]
        return DaskSource(parts, len(names), names, None, list(counted.to_delayed()))
    return None


def _is_numeric(kind: Any) -> bool:
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(kind))


@dask.delayed(pure=True)  # type: ignore[untyped-decorator]
def _checked_part(part: Any, index: int, numeric: tuple[str, ...]) -> Any:
    """Run on a worker: a partition of a data frame, whose numeric columns hold numbers."""
    for name, kind in zip(part.columns, part.dtypes, strict=True):
        if str(name) in numeric and not _is_numeric(kind):
            raise InvalidDataError(
                f"column {str(name)!r} of partition {index} holds {kind}, but numbers in other partitions; "
                "make it the same type everywhere."
            )
    return part


class DaskSource(RowSource):
    """The partitions of a collection of dask, which may be of unknown length."""

    def __init__(
        self,
        parts: list[Any],
        n_features: int,
        names: tuple[str, ...] | None,
        lengths: list[int] | None,
        counted: list[Any] | None = None,
    ) -> None:
        self.parts = parts
        self.counted = parts if counted is None else counted  # quicker to read, and as long
        self.n_features = n_features
        self.names = names
        self.lengths = lengths

    @property
    def n_rows(self) -> int:
        """Number of rows n; unknown lengths are counted once, where the partitions are."""
        if self.lengths is None:
            count = dask.delayed(len)
            with self._clear_errors():
                self.lengths = list(dask.compute(*[count(part) for part in self.counted]))
        return sum(self.lengths)

    def _starts(self) -> np.ndarray:
        """Number of the first row of each partition."""
        lengths = self.lengths or [0] * len(self.parts)
        return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)

    def _calls(self, function: Callable[..., Any], task: Task) -> list[Any]:
        """``function`` of the task, each partition, its number and its first row; not computed yet."""
        _require_package()
        call, shared = dask.delayed(function, pure=True), dask.delayed(task)
        starts = self._starts()
        return [
            call(shared, part, index, int(starts[index]), self.n_features)
            for index, part in enumerate(self.parts)
        ]

    def map(self, task: Callable[[Batch], Result]) -> Iterator[Result]:
        """See ``RowSource``; all partitions are computed before the first result comes without a client."""
        assert self.n_rows >= 0  # row numbers must be known before
        with self._clear_errors():
            for results in _computed(self._calls(_run, task)):
                yield from results

    def gather(self, task: Callable[[Batch], np.ndarray], dtype: Any, n_columns: int | None = None) -> Any:
        """See ``RowSource``; a lazy dask array with one block for each partition."""
        lengths: Sequence[float] = self.lengths or [np.nan] * len(self.parts)
        blocks = [
            dask.array.from_delayed(
                call, (length,) if n_columns is None else (length, n_columns), dtype=np.dtype(dtype)
            )
            for call, length in zip(self._calls(_stacked, task), lengths, strict=True)
        ]
        return dask.array.concatenate(blocks, axis=0, allow_unknown_chunksizes=True)

    def hold(self, features: Callable[[Batch], np.ndarray], sample: np.ndarray) -> Blocks:
        """See ``RowSource``; on the workers, or without a cluster in a temporary file."""
        assert self.n_rows >= 0
        assert self.lengths is not None
        calls, client = self._calls(_stacked, features), _client()
        with self._clear_errors():
            if client is None:
                names = [f"partition {index}" for index in range(len(calls))]
                return spooled(zip(names, _computed(calls), strict=True), sample)
            return DaskBlocks(client, client.compute(calls), self.lengths, samples_of(sample, self.lengths))

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Name the partition that cannot be computed, if it was one."""
        try:
            with _clear_errors():
                yield
        except (ClusterwiseError, GeneratorExit):
            raise
        except Exception as error:
            place = self._broken()
            if place is None:
                raise
            text = " ".join(str(error).split())
            raise InvalidDataError(
                f"partition {place} cannot be computed ({type(error).__name__}: {text}); all partitions must "
                "be readable, with the same columns."
            ) from error

    def _broken(self) -> int | None:
        """The first partition that cannot be computed by itself."""
        for place, part in enumerate(self.parts):
            try:
                dask.delayed(len)(part).compute()
            except Exception:
                return place
        return None


class DaskBlocks(Blocks):
    """Blocks on the workers of a cluster; what is lost with a worker is computed again."""

    def __init__(
        self, client: Any, points: list[Any], lengths: Sequence[int], samples: Sequence[np.ndarray]
    ) -> None:
        self.client, self.points, self.lengths, self.samples = client, points, lengths, samples
        self.n_rows = sum(lengths)
        self.done = client.map(_start, lengths, list(samples), pure=False)  # blocks, each with a result

    def run(
        self,
        operation: Operation,
        seed: int,
        new_codes: np.ndarray | None,
        *arguments: Any,
        of_each: Sequence[Any] | None = None,
    ) -> list[Any]:
        """See ``Blocks``."""
        results = []
        for index, points in enumerate(self.points):
            given = arguments if of_each is None else (*arguments, of_each[index])
            told = ((seed, index), new_codes, given)
            both = self.client.submit(_operate, operation, self.done[index], points, *told, pure=False)
            self.done[index] = both
            results.append(self.client.submit(getitem, both, 1, pure=False))
        with _clear_errors():
            return list(self.client.gather(results))

    def fork(self) -> DaskBlocks:
        """See ``Blocks``."""
        return DaskBlocks(self.client, self.points, self.lengths, self.samples)


def _start(n_rows: int, sample: np.ndarray) -> tuple[Block, None]:
    """Run on a worker: a block of one cluster, without a result."""
    return start(n_rows, sample), None


def _operate(
    operation: Operation,
    before: tuple[Block, Any],
    points: np.ndarray,
    key: tuple[int, int],
    new_codes: np.ndarray | None,
    arguments: tuple[Any, ...],
) -> tuple[Block, Any]:
    """Run on a worker: an operation on one block."""
    with one_thread(), memory_kept():
        return operate(operation, before[0], Rows(points), key, new_codes, arguments)


def _computed(calls: list[Any]) -> Iterator[Any]:
    """Results in their order; as they come if there is a client of a cluster."""
    client = _client()
    if client is None:
        yield from dask.compute(*calls)
        return
    futures = client.compute(calls)
    try:
        for place in range(len(futures)):
            future, futures[place] = futures[place], None  # a result that has been read may be forgotten
            yield future.result()
    finally:
        client.cancel([future for future in futures if future is not None])


def _client() -> Any:
    """The client that dask would use, or None."""
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:
        return None


# Workers of each client that were found to have our package.
_checked: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def _require_package() -> None:
    """Raise an error if a worker lacks our package: it would end on the first task, and leave us waiting."""
    client = _client()
    if client is None:
        return
    known = _checked.setdefault(client, set())
    new = sorted(set(client.nthreads()) - known)
    if not new:
        return
    # A lambda travels with its code; a function would be looked for in the package. Workers that are just
    # being lost do not matter.
    found = client.run(
        lambda: __import__("importlib.util").util.find_spec("clusterwise") is not None,
        workers=new,
        on_error="return",
    )
    if any(one is False or isinstance(one, ModuleNotFoundError) for one in found.values()):
        raise MissingDependencyError(LACKS_PACKAGE)
    known.update(worker for worker, one in found.items() if one is True)


def _batches(data: Any, index: int, start: int, n_features: int) -> Iterator[Batch]:
    """Cut a partition in batches of bounded size."""
    size, place = rows_at_once(n_features), f"partition {index}"
    if isinstance(data, ParquetPart):
        for batch in data.batches():
            yield Batch(batch.data, start + batch.start, place, batch.start)
        return
    for first in range(0, max(1, len(data)), size):
        yield Batch(slice_rows(data, first, first + size), start + first, place, first)


def _run(task: Task, data: Any, index: int, start: int, n_features: int) -> list[Any]:
    """Run on a worker: results of all batches of a partition."""
    with one_thread(), memory_kept():
        return [task(batch) for batch in _batches(data, index, start, n_features)]


def _stacked(task: Task, data: Any, index: int, start: int, n_features: int) -> np.ndarray:
    """Run on a worker: what a task says of every row of a partition."""
    return np.concatenate(_run(task, data, index, start, n_features))


@contextmanager
def _clear_errors() -> Iterator[None]:
    """Say what to do about errors of the cluster."""
    try:
        yield
    except ClusterwiseError:
        raise
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            raise ClusterwiseError(
                "several workers died while they had the same partition, perhaps for lack of memory; make "
                "partitions smaller or give workers more memory."
            ) from error
        if _lacks_package(error):
            raise MissingDependencyError(LACKS_PACKAGE) from error
        raise


def _lacks_package(error: BaseException | None) -> bool:
    """Whether an error, or what it came from, is about our package not being there."""
    while error is not None:
        if "No module named 'clusterwise" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def map_sets(Xs: Any, function: Callable[[list[Any]], list[Any]]) -> Any:
    """A bag of what ``function`` returns for the data sets of each partition of a bag."""
    return Xs.map_partitions(_Sets(function))


class _Sets:
    """A function of a list of data sets, for partitions of a bag."""

    def __init__(self, function: Callable[[list[Any]], list[Any]]) -> None:
        self.function = function

    def __call__(self, sets: Any) -> list[Any]:
        """Results of the sets of one partition."""
        return self.function(list(sets))
