"""The columns of whatever holds a table (data frame, array, lists), and which of them take part."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import narwhals.stable.v2 as nw
import numpy as np
import scipy.sparse

from clusterwise.exceptions import InvalidDataError, UnknownColumnError
from clusterwise.tables.cells import distinct_names, find_header, is_missing, parse_dates, parse_numbers

__all__ = [
    "Column",
    "Kind",
    "Reason",
    "TableColumns",
    "read_columns",
    "require_table",
    "select_columns",
    "set_aside_notes",
    "with_plain_names",
]

Kind = Literal["number", "words", "date", "other"]

UNITS_PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
# What pandas calls columns without a name: there are many where a title stands above the header.
UNNAMED = re.compile(r"Unnamed: \d+")
ROWS_BELOW_TITLES = 20
# A column without values in more than this share of the rows says more about who filled it in.
MAX_MISSING = 0.6
# Words with more different values than this, or than this share of the rows, are names or texts.
MAX_LEVELS = 50
MAX_LEVELS_SHARE = 0.25
FEW_LEVELS = 12  # this many are a category however few the rows are
# Nearly every row has a value of its own; such values are texts if they have this many words on average.
UNIQUE = 0.95
WORDS_OF_TEXT = 2.5
# Below this many rows nothing can be said from how often values occur.
MIN_ROWS = 10
ID_NAME = re.compile(r"(^|[\W_])(id|ids|uuid|guid|key|index|idx|rownames?|unnamed: \d+|nr|no)$", re.I)
CAMEL_ID_NAME = re.compile(r"[a-z](Id|ID|Key|Uuid|UUID)$")


@dataclass(frozen=True)
class Column:
    """One column: its values are float64 (n,) with NaN where missing (dates in days), or strings and None."""

    name: str
    kind: Kind
    values: np.ndarray
    declared: bool = False  # whether the type itself says what the column is: a category, not a text
    stray: tuple[tuple[int, str], ...] = ()  # row and word of cells that are no numbers, and count as missing
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

    Cells that are texts may be numbers, with signs of money and thousands, dates or words for missing values.
    ``styles`` says for columns by their name how numbers are written, where that is known from other rows.
    """
    require_table(X, name)
    styles = styles or {}
    frame = nw.from_native(with_plain_names(X), pass_through=True)
    if isinstance(frame, nw.DataFrame):
        columns, n_rows, named = _frame_columns(frame, styles), len(frame), True
    elif isinstance(X, np.ndarray) and X.dtype.names is not None:
        columns = [_array_column(label, X[label], styles.get(label)) for label in X.dtype.names]
        n_rows, named = len(X), True
    else:
        array = _as_array(X, name)
        cells = {f"x{place}": values for place, values in enumerate(array.T)}
        columns = [_array_column(label, values, styles.get(label)) for label, values in cells.items()]
        n_rows, named = len(array), False
    if n_rows == 0 or not columns:
        what = "sample" if n_rows == 0 else "feature"
        raise InvalidDataError(
            f"Found array with 0 {what}(s) (shape={(n_rows, len(columns))}) while a minimum of 1 is required "
            "by TablePreparation."
        )
    return TableColumns(tuple(columns), n_rows, named)


def _frame_columns(frame: Any, styles: Mapping[str, str]) -> list[Column]:
    """Columns of a data frame; cells of a title above the header of a file count as missing.

    It gives pandas columns without names, and the header as a row.
    """
    labels = [None if UNNAMED.fullmatch(label) else label for label in frame.columns]
    names, n_above = frame.columns, 0
    if None in labels:
        header = find_header([labels, *frame[:ROWS_BELOW_TITLES].rows()])
        if header.n_above:
            names, n_above = header.names, header.n_above
    return [
        _frame_column(name, frame[label], styles.get(name), n_above)
        for name, label in zip(names, frame.columns, strict=True)
    ]


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


# -- one column ------------------------------------------------------------------------------------


def _frame_column(name: str, series: Any, style: str | None, n_above: int) -> Column:
    kind = series.dtype
    if kind.is_numeric() or kind == nw.Boolean:
        return Column(name, "number", _floats(series))
    if kind in (nw.Date, nw.Datetime):
        if getattr(kind, "time_zone", None) is not None:
            with contextlib.suppress(Exception):  # a zone that this machine does not know: hours are of UTC
                series = series.dt.replace_time_zone(None)  # hours and weekdays are those of the place
        return Column(name, "date", _days(np.asarray(series.to_numpy(), dtype="datetime64")))
    if kind == nw.Duration:
        return Column(name, "number", _floats(series.dt.total_microseconds()) / 1e6)
    if kind in (nw.Categorical, nw.Enum):
        words = [None if cell is None or cell != cell else str(cell) for cell in series.to_list()]
        return Column(name, "words", np.array(words, dtype=object), declared=True)
    if kind in (nw.String, nw.Object, nw.Unknown):
        return _object_column(name, [None] * n_above + series.to_list()[n_above:], style)
    return Column(name, "other", np.full(len(series), None, dtype=object))


def _floats(series: Any) -> np.ndarray:
    """Float64 values, NaN where missing; pandas, polars and arrow have words of their own for them."""
    missing = series.is_null().to_numpy()
    numbers = series.to_numpy() if not missing.any() else series.cast(nw.Float64).to_numpy()
    values = np.array(numbers, dtype=np.float64, copy=True)
    values[missing] = np.nan
    return values


def _days(stamps: np.ndarray) -> np.ndarray:
    """Days since 1970 (n,) of datetime64 (n,) in any unit, NaN for NaT."""
    unit = np.datetime_data(stamps.dtype)[0]
    if unit not in UNITS_PER_DAY:
        unit = "us"
        stamps = stamps.astype("datetime64[us]")
    days = stamps.astype(np.int64) / UNITS_PER_DAY[unit]
    return np.where(np.isnat(stamps), np.nan, days)


def _array_column(name: str, values: np.ndarray, style: str | None) -> Column:
    if values.ndim != 1:
        return Column(name, "other", np.full(len(values), None, dtype=object))
    if values.dtype.kind in "biuf":
        return Column(name, "number", values.astype(np.float64, copy=False))
    if values.dtype.kind == "M":
        return Column(name, "date", _days(values))
    if values.dtype.kind == "m":
        seconds = values.astype("timedelta64[us]").astype(np.float64) / 1e6
        return Column(name, "number", np.where(np.isnat(values), np.nan, seconds))
    return _object_column(name, values.tolist(), style)


def _object_column(name: str, cells: list[Any], style: str | None) -> Column:
    """Numbers, dates and words told apart by the cells (n) themselves."""
    if any(isinstance(cell, (list, tuple, set, dict, bytes, np.ndarray)) for cell in cells):
        return Column(name, "other", np.full(len(cells), None, dtype=object))
    present = [place for place, cell in enumerate(cells) if not is_missing(cell)]
    words = [str(int(cell) if isinstance(cell, bool) else cell) for cell in map(cells.__getitem__, present)]
    values = np.full(len(cells), np.nan)
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
    texts[present] = [str(cells[place]) for place in present]
    return Column(name, "words", texts)


# -- which columns take part -------------------------------------------------------------------------

ReasonKind = Literal[
    "not selected", "empty", "gaps", "constant", "id", "dates", "text", "words", "mixed", "other"
]
# No wish makes these take part; and numbers among words would not become numbers by it.
FINAL = ("empty", "constant", "other")
NO_REMEDY = (*FINAL, "mixed")


class Reason(str):
    """Why a column is set aside: what follows its name in a sentence, and of what kind that is."""

    kind: ReasonKind

    def __new__(cls, text: str, kind: ReasonKind) -> Self:
        reason = super().__new__(cls, text)
        reason.kind = kind
        return reason

    def __reduce__(self) -> tuple[Any, ...]:
        return Reason, (str(self), self.kind)


def _looks_like_id(column: Column, named: bool) -> bool:
    values = column.values[~column.missing]
    if not named or len(values) < MIN_ROWS or not np.array_equal(values, np.round(values)):
        return False
    distinct = np.unique(values)
    if len(distinct) < UNIQUE * len(values):
        return False
    is_range = len(distinct) == len(values) and distinct[-1] - distinct[0] == len(distinct) - 1
    called_so = column.name.strip() == "" or ID_NAME.search(column.name) or CAMEL_ID_NAME.search(column.name)
    return is_range or bool(called_so)


def _reason(column: Column, named: bool) -> Reason | None:
    """Why a column does not take part unless asked for; None if it does."""
    missing = column.missing
    present = column.values[~missing]
    if column.kind == "other":
        return Reason("holds neither numbers nor words", "other")
    if len(present) == 0:
        return Reason("is empty", "empty")
    if missing.mean() > MAX_MISSING:
        return Reason(f"is empty in {100 * missing.mean():.0f} % of the rows", "gaps")
    if column.kind == "date":
        return Reason("holds dates", "dates")
    if column.kind == "number":
        if present.min() == present.max():
            return Reason("has the same value in every row", "constant")
        return Reason("numbers the rows, like an id", "id") if _looks_like_id(column, named) else None
    return _reason_of_words(present, column.declared)


def _reason_of_words(words: np.ndarray, declared: bool) -> Reason | None:
    """The same for words (n,); ``declared`` says that their type is a category."""
    n_levels = len(set(words))
    if n_levels == 1:
        return Reason("has the same value in every row", "constant")
    is_category, is_unique = declared or n_levels <= FEW_LEVELS, n_levels > UNIQUE * len(words)
    if is_unique and not is_category and np.mean([len(word.split()) for word in words]) >= WORDS_OF_TEXT:
        return Reason("holds free text", "text")
    if is_unique and (not is_category or len(words) >= MIN_ROWS):
        return Reason("has a different value in nearly every row, like an id", "id")
    if is_category or n_levels <= min(MAX_LEVELS, MAX_LEVELS_SHARE * len(words)):
        return None
    others = [word for word in words if parse_numbers([word]) is None]
    if len(others) < len(words) / 2:
        return Reason(
            f"has {n_levels:,} different words, most of them numbers; to use these, empty the cells like "
            f"{others[0][:40]!r}",
            "mixed",
        )
    return Reason(f"has {n_levels:,} different words", "words")


def _places(table: TableColumns, wanted: Iterable[str], parameter: str) -> list[int]:
    """Places of columns by their names, or counted from 0."""
    names = [column.name for column in table.columns]
    place_of = {str(place): place for place in range(len(names))} | {
        name: place for place, name in reversed(list(enumerate(names)))
    }
    for name in map(str, wanted):
        if name not in place_of:
            raise UnknownColumnError(parameter=parameter, column=name, known=names)
    return [place_of[name] for name in map(str, wanted)]


def select_columns(
    table: TableColumns,
    columns: Sequence[str] | None = None,
    drop: Collection[str] = (),
    include: Collection[str] = (),
) -> tuple[list[int], dict[str, Reason]]:
    """Places of the columns that take part, and for each other one by its name why it does not.

    ``columns`` are all that may take part, and do whatever they look like; ``include`` only adds to
    those that take part by themselves.
    """
    allowed = list(range(len(table.columns))) if columns is None else _places(table, columns, "columns")
    selected = set(allowed) - set(_places(table, sorted(drop), "drop"))
    forced = selected & {*_places(table, sorted(include), "include"), *([] if columns is None else allowed)}
    used: set[int] = set()
    set_aside: dict[str, Reason] = {}
    for place, column in enumerate(table.columns):
        found = (
            _reason(column, table.named) if place in selected else Reason("was not selected", "not selected")
        )
        if found is None or (place in forced and found.kind not in FINAL):
            used.add(place)
        else:
            set_aside[column.name] = found
    return [place for place in allowed if place in used], set_aside  # in the order that was asked for


def set_aside_notes(
    set_aside: Mapping[str, Reason], include: Callable[[str], str] | None = "include=[{!r}]".format
) -> list[str]:
    """One line for each column that was set aside, with the way to ``include`` it where there is one."""
    lines = []
    for name, reason in set_aside.items():
        if reason.kind != "not selected":
            remedy = "" if include is None or reason.kind in NO_REMEDY else f"; use it with {include(name)}"
            lines.append(f"column {name!r} is set aside: it {reason}{remedy}.")
    return lines
