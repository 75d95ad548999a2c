"""Whatever holds a table (data frame, array, lists) as a list of columns of four kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse

from clusterwise._names import distinct_names
from clusterwise.exceptions import InvalidDataError
from clusterwise.tables.cells import is_gap, parse_dates, parse_numbers, title_rows

__all__ = [
    "Column",
    "Kind",
    "TableColumns",
    "read_columns",
    "require_table",
    "with_plain_names",
]

Kind = Literal["number", "words", "date", "other"]

MICROSECONDS_PER_DAY = 86_400_000_000
# What pandas calls columns without a name: there are many where a title stands above the header.
UNNAMED = re.compile(r"Unnamed: \d+")
ROWS_BELOW_TITLES = 20


@dataclass(frozen=True)
class Column:
    """One column: its values are float64 (n,) with NaN for gaps (dates in days), or strings and None."""

    name: str
    kind: Kind
    values: np.ndarray
    declared: bool = False  # whether the type itself says what the column is: a category, not a text
    stray: tuple[tuple[int, str], ...] = ()  # row and word of cells that are gaps among numbers
    style: str | None = None  # how its numbers are written, if not as in Python; see ``cells``

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no value, (n,) bool."""
        if self.kind in ("number", "date"):
            return np.isnan(self.values)
        return np.array([value is None for value in self.values], dtype=bool)


@dataclass(frozen=True)
class TableColumns:
    """All columns of a table with n rows; ``named`` if the names are the user's."""

    columns: tuple[Column, ...]
    n_rows: int
    named: bool

    def numbers(self) -> np.ndarray | None:
        """All columns as one array (n, d) if all of them hold numbers, else None."""
        if not self.columns or any(column.kind != "number" for column in self.columns):
            return None
        return np.column_stack([column.values for column in self.columns])


def require_table(X: Any, name: str = "X") -> None:
    """Raise an error for what is no table but is often passed as one."""
    if X is None:
        raise InvalidDataError(f"{name} is None; pass an array or a data frame.")
    if isinstance(X, (str, Path)):
        raise InvalidDataError(
            f"{name} is the name of a file ({str(X)[:60]!r}); read it first: "
            "clusterwise.tables.read_table(path)."
        )
    if isinstance(X, (bytes, bytearray)):
        raise InvalidDataError(f"{name} is bytes, not a table; pass an array or a data frame.")
    if isinstance(X, Mapping) and not scipy.sparse.issparse(X):  # a dok matrix is a dict, too
        raise InvalidDataError(f"{name} is a dict; make a data frame of it first: pandas.DataFrame({name}).")
    if nw.dependencies.is_pandas_dataframe(X) or nw.dependencies.is_pyarrow_table(X):
        labels = list(X.columns if hasattr(X, "iloc") else X.column_names)
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InvalidDataError(
                f"{name} has several columns called {twice!r}; rename or drop all but one."
            )
    if isinstance(nw.from_native(with_plain_names(X), pass_through=True), nw.LazyFrame):
        raise InvalidDataError(f"{name} is a lazy frame without rows yet; pass {name}.collect().")


def read_columns(X: Any, name: str = "X", styles: Mapping[str, str] | None = None) -> TableColumns:
    """Columns of a data frame (pandas, polars, pyarrow, ...), an array or a list of rows.

    Cells that are texts may be numbers, with signs of money and thousands, dates or words for gaps.
    ``styles`` says for columns by their name how numbers are written, where that is known from other rows.
    """
    require_table(X, name)
    styles = styles or {}
    frame = nw.from_native(with_plain_names(X), pass_through=True)
    if isinstance(frame, nw.DataFrame):
        n_above, names = _titles(frame)
        below = frame[n_above:] if n_above else frame
        read = [
            _below_titles(_frame_column(label, below[real], styles.get(label)), n_above)
            for label, real in zip(names, frame.columns, strict=True)
        ]
        return _checked(TableColumns(tuple(read), len(frame), named=True), name)
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        read = [_array_column(label, X[label], styles.get(label)) for label in X.dtype.names]
        return _checked(TableColumns(tuple(read), len(X), named=True), name)
    array = _as_array(X, name)
    labels = [f"x{place}" for place in range(array.shape[1])]
    named = zip(labels, array.T, strict=True)
    read = [_array_column(label, cells, styles.get(label)) for label, cells in named]
    return _checked(TableColumns(tuple(read), len(array), named=False), name)


def _titles(frame: Any) -> tuple[int, list[str]]:
    """How many rows of a data frame are above its first row of values, and the names of its columns.

    A title above the header of a file gives pandas columns without names, and the header as a row.
    """
    names = frame.columns
    if not any(map(UNNAMED.fullmatch, names)):
        return 0, names
    labels = [None if UNNAMED.fullmatch(label) else label for label in names]
    rows = [labels, *frame[:ROWS_BELOW_TITLES].rows()]
    n_above = title_rows(rows)
    return n_above, distinct_names(
        "" if is_gap(cell) else str(cell) for cell in rows[n_above]
    ) if n_above else names


def _below_titles(column: Column, n_above: int) -> Column:
    """The column with gaps in the rows of titles."""
    if n_above == 0:
        return column
    gaps = np.full(n_above, np.nan if column.values.dtype.kind == "f" else None)
    stray = tuple((row + n_above, word) for row, word in column.stray)
    return replace(column, values=np.concatenate([gaps, column.values]), stray=stray)


def with_plain_names(X: Any) -> Any:
    """A data frame whose columns have strings as names, no two the same; anything else as it is."""
    if nw.dependencies.is_pandas_dataframe(X):
        names = distinct_names(X.columns)
        return X if names == list(X.columns) else X.set_axis(names, axis=1)
    if nw.dependencies.is_pyarrow_table(X):
        names = distinct_names(X.column_names)
        return X if names == X.column_names else X.rename_columns(names)
    return X


def _as_array(X: Any, name: str) -> np.ndarray:
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if hasattr(X, "__array__"):
        array = np.asarray(X)
    else:
        try:
            array = np.asarray(X)
        except ValueError as error:
            raise InvalidDataError(f"The rows of {name} differ in length; give each the same.") from error
        if array.dtype.kind in "US":  # numpy writes the numbers of mixed rows as text
            array = np.asarray(X, dtype=object)
    if array.ndim != 2:
        raise InvalidDataError(
            f"Expected 2D array, got {array.ndim}D array for {name}: one row per point is needed. "
            "Reshape your data either using array.reshape(-1, 1) if it has a single feature "
            "or array.reshape(1, -1) if it contains a single sample."
        )
    if array.dtype.kind == "c":
        raise InvalidDataError(
            f"Complex data not supported: {name} is complex; pass real and imaginary parts as columns."
        )
    return array


def _checked(table: TableColumns, name: str) -> TableColumns:
    if table.n_rows == 0 or not table.columns:
        shape = (table.n_rows, len(table.columns))
        what = "sample" if table.n_rows == 0 else "feature"
        raise InvalidDataError(
            f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required by "
            "TablePreparation."
        )
    return table


# -- one column ------------------------------------------------------------------------------------


def _frame_column(name: str, series: Any, style: str | None) -> Column:
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return Column(name, "number", _floats(series))
    if kind in (nw.Date, nw.Datetime):
        if getattr(kind, "time_zone", None) is not None:
            series = series.dt.replace_time_zone(None)  # hours and weekdays are those of the place
        days = _floats(series.cast(nw.Datetime("us")).dt.timestamp("us")) / MICROSECONDS_PER_DAY
        return Column(name, "date", days)
    if kind == nw.Duration:
        return Column(name, "number", _floats(series.dt.total_microseconds()) / 1e6)
    if kind in (nw.Categorical, nw.Enum):
        words = np.full(len(series), None, dtype=object)
        words[:] = [None if cell is None or cell != cell else str(cell) for cell in series.to_list()]
        return Column(name, "words", words, declared=True)
    if kind in (nw.String, nw.Object, nw.Unknown):
        return _object_column(name, series.to_list(), style)
    return Column(name, "other", np.full(len(series), None, dtype=object))


def _floats(series: Any) -> np.ndarray:
    """Float64 values, gaps as NaN; pandas, polars and arrow have words of their own for them."""
    missing = series.is_null().to_numpy()
    filled = series.to_numpy() if not missing.any() else series.cast(nw.Float64).to_numpy()
    values = np.array(filled, dtype=np.float64, copy=True)
    values[missing] = np.nan
    return values


def _array_column(name: str, values: np.ndarray, style: str | None) -> Column:
    if values.ndim != 1:
        return Column(name, "other", np.full(len(values), None, dtype=object))
    if values.dtype.kind in "biuf":
        return Column(name, "number", values.astype(np.float64, copy=False))
    if values.dtype.kind == "M":
        days = values.astype("datetime64[us]").astype(np.float64) / MICROSECONDS_PER_DAY
        return Column(name, "date", np.where(np.isnat(values), np.nan, days))
    if values.dtype.kind == "m":
        seconds = values.astype("timedelta64[us]").astype(np.float64) / 1e6
        return Column(name, "number", np.where(np.isnat(values), np.nan, seconds))
    return _object_column(name, values.tolist(), style)


def _object_column(name: str, cells: list[Any], style: str | None) -> Column:
    """Numbers, dates and words told apart by the cells (n) themselves."""
    if any(isinstance(cell, (list, tuple, set, dict, bytes, np.ndarray)) for cell in cells):
        return Column(name, "other", np.full(len(cells), None, dtype=object))
    present = [place for place, cell in enumerate(cells) if not is_gap(cell)]
    values = np.full(len(cells), np.nan)
    plain = _plain_numbers([cells[place] for place in present])
    if plain is not None:
        values[present] = plain
        return Column(name, "number", values)
    words = [str(cells[place]) for place in present]
    parsed = parse_numbers(words, style)
    if parsed is None or np.isnan(parsed[0]).any():
        days = parse_dates(words)
        if days is not None:
            values[present] = days
            return Column(name, "date", values)
    if parsed is not None:
        values[present], style = parsed
        stray = tuple((present[place], words[place]) for place in np.flatnonzero(np.isnan(parsed[0])))
        return Column(name, "number", values, stray=stray, style=style)
    texts = np.full(len(cells), None, dtype=object)
    texts[present] = words
    return Column(name, "words", texts)


def _plain_numbers(cells: list[Any]) -> np.ndarray | None:
    """Cells (m) that are all numbers, or written as Python writes them; else None."""
    if any(isinstance(cell, str) and "_" in cell for cell in cells):
        return None  # Python reads 12_34 as a number; in a table it is a name
    try:
        return np.array([float(cell) for cell in cells], dtype=np.float64)
    except (TypeError, ValueError):
        return None
