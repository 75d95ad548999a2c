"""Whatever holds a table (data frame, array, lists) as a list of columns of four kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse

from clusterwise._names import distinct_names
from clusterwise.exceptions import InvalidDataError
from clusterwise.tables.dates import days_of

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
# Words in a column of numbers ("unknown", "> 90") are gaps in it if they are no more than this share of it.
MOST_STRAY = 0.05


@dataclass(frozen=True)
class Column:
    """One column: its values are float64 (n,) with NaN for gaps (dates in days), or strings and None."""

    name: str
    kind: Kind
    values: np.ndarray
    # Booleans and categories with numbers as names are numbers or words by what their type says.
    declared: bool = False  # whether the type itself says what the column is: a category, not a text
    stray: tuple[tuple[int, str], ...] = ()  # row and word of cells that are gaps among numbers

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
            "clusterwise.tables.files.read_table(path)."
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


def read_columns(X: Any, name: str = "X") -> TableColumns:
    """Read a data frame (pandas, polars, pyarrow, ...), an array or a list of rows."""
    require_table(X, name)
    frame = nw.from_native(with_plain_names(X), pass_through=True)
    if isinstance(frame, nw.DataFrame):
        read = [_frame_column(label, frame[label]) for label in frame.columns]
        return _checked(TableColumns(tuple(read), len(frame), named=True), name)
    if isinstance(X, np.ndarray) and X.dtype.names is not None:
        read = [_array_column(label, X[label]) for label in X.dtype.names]
        return _checked(TableColumns(tuple(read), len(X), named=True), name)
    array = _as_array(X, name)
    read = [_array_column(f"x{place}", array[:, place]) for place in range(array.shape[1])]
    return _checked(TableColumns(tuple(read), len(array), named=False), name)


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


def _frame_column(name: str, series: Any) -> Column:
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
        return Column(name, "words", _words(series.to_list()), declared=True)
    if kind in (nw.String, nw.Object, nw.Unknown):
        return _object_column(name, series.to_list())
    return Column(name, "other", np.full(len(series), None, dtype=object))


def _floats(series: Any) -> np.ndarray:
    """Float64 values, gaps as NaN; pandas, polars and arrow have words of their own for them."""
    missing = series.is_null().to_numpy()
    filled = series.to_numpy() if not missing.any() else series.cast(nw.Float64).to_numpy()
    values = np.array(filled, dtype=np.float64, copy=True)
    values[missing] = np.nan
    return values


def _array_column(name: str, values: np.ndarray) -> Column:
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
    return _object_column(name, values.tolist())


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _words(values: list[Any]) -> np.ndarray:
    words = np.empty(len(values), dtype=object)
    words[:] = [None if _is_missing(value) else str(value) for value in values]
    return words


def _object_column(name: str, values: list[Any]) -> Column:
    """Tell numbers, dates and words apart by the values themselves."""
    if any(isinstance(value, (list, tuple, set, dict, bytes, np.ndarray)) for value in values):
        return Column(name, "other", np.full(len(values), None, dtype=object))
    words = _words(values)
    present = [word for word in words if word is not None]
    numbers = _parsed_numbers([v for v, word in zip(values, words, strict=True) if word is not None])
    if numbers is not None:
        floats = np.full(len(values), np.nan)
        floats[[word is not None for word in words]] = numbers
        return Column(name, "number", floats)
    days = days_of(present)
    if days is not None:
        dates = np.full(len(values), np.nan)
        dates[[word is not None for word in words]] = days
        return Column(name, "date", dates)
    return _with_stray_words(name, words) or Column(name, "words", words)


def _with_stray_words(name: str, words: np.ndarray) -> Column | None:
    """A column of numbers with a few words among them, which become gaps; None if it is no such column."""
    floats, stray = np.full(len(words), np.nan), []
    most = MOST_STRAY * sum(word is not None for word in words)
    for row, word in enumerate(words):
        if word is None:
            continue
        number = _parsed_numbers([word])
        if number is None:
            stray.append((row, word))
            if len(stray) > most:
                return None
        else:
            floats[row] = number[0]
    return Column(name, "number", floats, stray=tuple(stray))


def _parsed_numbers(values: list[Any]) -> np.ndarray | None:
    """The values as float64 if all of them are numbers or written so, else None."""
    if any(isinstance(value, str) and "_" in value for value in values):
        return None  # Python reads 12_34 as a number; in a table it is a name
    try:
        return np.array([float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        return None
