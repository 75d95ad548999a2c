"""Batches as numbers, with errors that name the place; rows of tables of any kind chosen and stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterwise.exceptions import FeatureCountError, InvalidDataError
from clusterwise.rows.base import Batch

__all__ = ["NumberReader", "slice_rows", "stack_rows", "take_rows"]


@dataclass(frozen=True)
class NumberReader:
    """Turns a batch into finite numbers (m, d) with the columns that all batches should have."""

    n_features: int
    names: tuple[str, ...] | None = None

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


def slice_rows(data: Any, start: int, stop: int) -> Any:
    """Consecutive rows of an array or a pandas table, without a copy."""
    return data[start:stop] if isinstance(data, np.ndarray) else data.iloc[start:stop]


def take_rows(data: Any, rows: np.ndarray) -> Any:
    """Rows (m,) of an array or a table."""
    if isinstance(data, np.ndarray):
        return data[rows]
    return data.take(rows) if hasattr(data, "column_names") else data.iloc[rows]


def stack_rows(parts: Sequence[Any]) -> Any:
    """Parts of an array or a table below each other."""
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(list(parts))
    if hasattr(first, "column_names"):
        import pyarrow

        return pyarrow.concat_tables(parts)
    import pandas

    return pandas.concat(list(parts), ignore_index=True)
