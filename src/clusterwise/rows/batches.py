"""What is done with batches: numbers of them, with errors that name the place, and rows chosen at random.

Rows are chosen by their number alone: batches of any size give the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.exceptions import FeatureCountError, InvalidDataError
from clusterwise.rows.source import Batch

__all__ = [
    "Chosen",
    "NumberReader",
    "OnFeatures",
    "choose_rows",
    "lowest",
    "max_key",
    "random_keys",
    "slice_rows",
    "stack",
]

# Rows whose features are made together: they stay in the processor's cache.
ROWS_AT_ONCE = 16_384
# More rows pass the first threshold than are wanted, by this many standard deviations.
SPARE = 8.0


@dataclass(frozen=True)
class NumberReader:
    """Turns a batch into finite numbers (m, d) with the columns that all batches should have."""

    n_features: int
    names: tuple[str, ...] | None = None
    is_fitted: ClassVar[bool] = True

    def fit(self, sample: Any) -> NumberReader:
        """Itself: there is nothing to learn from a sample of the rows."""
        return self

    def __call__(self, batch: Batch) -> np.ndarray:
        """The numbers of a batch, in a floating-point type."""
        data = batch.data
        if isinstance(data, np.ndarray):
            if data.ndim != 2 or data.shape[1] != self.n_features:
                width = data.shape[1] if data.ndim == 2 else f"the shape {data.shape}, not"
                raise FeatureCountError(
                    f"{batch.place} has {width} columns, but {self.n_features} are expected; pass the same "
                    "columns everywhere."
                )
            points = _as_numbers(data, batch, None)
        else:
            points = _numbers_of_frame(data, batch, self.names)
        _require_finite(points, batch, self.names)
        return points


def _numbers_of_frame(data: Any, batch: Batch, names: tuple[str, ...] | None) -> np.ndarray:
    """Columns of a pandas or Arrow table as one array."""
    found = list(map(str, data.column_names if hasattr(data, "column_names") else data.columns))
    expected = list(found if names is None else names)
    missing = [name for name in expected if name not in found]
    if missing or len(found) != len(expected):
        strange = [name for name in found if name not in expected]
        problem = f"lacks column {missing[0]!r}" if missing else f"has a column {strange[0]!r} more"
        raise FeatureCountError(f"{batch.place} {problem}; pass the same columns everywhere.")
    if found == expected and hasattr(data, "dtypes") and _is_one_block(data.dtypes):
        return np.asarray(data.to_numpy())
    columns = [_as_numbers(_column(data, found.index(name)), batch, name) for name in expected]
    points = np.empty((len(data), len(columns)), dtype=np.result_type(*{column.dtype for column in columns}))
    for place, column in enumerate(columns):
        points[:, place] = column
    return points


def _is_one_block(dtypes: Any) -> bool:
    """Whether all columns of a pandas table are numpy's floating-point numbers of one kind."""
    kinds = set(dtypes)
    return len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and kind.kind == "f"


def _column(data: Any, place: int) -> np.ndarray:
    """One column as an array; gaps become NaN."""
    if hasattr(data, "column_names"):  # Arrow
        return np.asarray(data.column(place).to_numpy())
    column = data.iloc[:, place]
    return np.asarray(column.to_numpy(na_value=np.nan) if column.hasnans else column.to_numpy())


def _as_numbers(values: np.ndarray, batch: Batch, name: str | None) -> np.ndarray:
    if values.dtype.kind == "f":
        return values
    if values.dtype.kind in "biu":
        return values.astype(np.float64)
    if values.dtype.kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            pass
    column = "" if name is None else f"column {name!r} of "
    raise InvalidDataError(
        f"{column}{batch.place} holds {values.dtype}, not numbers; drop it or turn it into numbers "
        "(clusterwise.TablePreparation does)."
    )


def _require_finite(points: np.ndarray, batch: Batch, names: tuple[str, ...] | None) -> None:
    # A sum is quick and finite unless a number is not, or all are huge: only then they are looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(points.sum(dtype=np.float64)):
            return
    rows, columns = np.nonzero(~np.isfinite(points))
    if len(rows) == 0:
        return
    kind = "NaN" if np.isnan(points[rows[0], columns[0]]) else "infinity"
    column = columns[0] if names is None else repr(names[columns[0]])
    raise InvalidDataError(
        f"{batch.place} contains {kind} at row {batch.first + rows[0]} column {column}; drop these rows or "
        "fill the values in first."
    )


@dataclass(frozen=True)
class OnFeatures:
    """A function of features (m, f), as a task on batches; small, and runs wherever the batch is."""

    read: Callable[[Batch], np.ndarray]
    space: FeatureSpace
    function: Callable[[np.ndarray], Any]  # to an array with an entry for each row, or to a tuple of such

    def __call__(self, batch: Batch) -> Any:
        """What the function makes of all rows of a batch."""
        points = self.read(batch)
        starts = range(0, max(1, len(points)), ROWS_AT_ONCE)
        parts = [self.function(self.space.apply(points[start : start + ROWS_AT_ONCE])) for start in starts]
        if isinstance(parts[0], tuple):
            return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))
        return np.concatenate(parts)


def slice_rows(data: Any, start: int, stop: int) -> Any:
    """Consecutive rows of an array or a pandas table, without a copy."""
    return data[start:stop] if isinstance(data, np.ndarray) else data.iloc[start:stop]


def random_keys(rows: np.ndarray, seed: int) -> np.ndarray:
    """Independent uniform keys (n,), uint64, of row numbers (n,): the finalizer of SplitMix64."""
    with np.errstate(over="ignore"):
        keys = rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64)
        keys *= np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(30)
        keys *= np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(27)
        keys *= np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return keys


def max_key(max_rows: int, n: int) -> int:
    """A threshold that a few more than ``max_rows`` of n keys are below."""
    share = (max_rows + SPARE * np.sqrt(max_rows) + SPARE) / max(n, 1)
    return 2**64 - 1 if share >= 1 else int(share * 2**64)


@dataclass(frozen=True)
class Chosen:
    """Rows with their numbers and keys."""

    data: Any  # (m, d) or a table, as the source has them
    rows: np.ndarray  # (m,)
    keys: np.ndarray  # (m,)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: np.ndarray) -> Chosen:
        """Some of the rows, by their places."""
        return Chosen(_take(self.data, places), self.rows[places], self.keys[places])


def choose_rows(batch: Batch, places: np.ndarray, keys: np.ndarray) -> Chosen:
    """Rows at ``places`` (m,) of a batch, with their keys (m,)."""
    return Chosen(_take(batch.data, places), batch.start + places, keys)


def stack(parts: Sequence[Chosen]) -> Chosen:
    """All of these rows, one part below the other."""
    parts = [part for part in parts if len(part) > 0] or list(parts[:1])
    return Chosen(
        _stack_data([part.data for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.keys for part in parts]),
    )


def lowest(parts: Sequence[Chosen], max_rows: int) -> Chosen:
    """Of all rows those with the lowest keys, at most this many, in their order."""
    both = stack(parts)
    if len(both) <= max_rows:
        return both
    return both.take(np.sort(np.argsort(both.keys, kind="stable")[:max_rows]))


def _take(data: Any, rows: np.ndarray) -> Any:
    """Rows (m,) of an array or a table."""
    if isinstance(data, np.ndarray):
        return data[rows]
    return data.take(rows) if hasattr(data, "column_names") else data.iloc[rows]


def _stack_data(parts: Sequence[Any]) -> Any:
    """Parts of an array or a table below each other."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(list(parts))
    if hasattr(first, "column_names"):
        import pyarrow

        return pyarrow.concat_tables(parts)
    import pandas

    return pandas.concat(list(parts), ignore_index=True)
