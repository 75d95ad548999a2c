"""Labelled rows: arrays or data frames with their labels, a table with a column of labels, or an npz."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise.exceptions import InvalidDataError
from clusterwise.fitting.validation import require_finite
from clusterwise.tables.arrays import arrays_in
from clusterwise.tables.columns import read_columns, select_columns, set_aside_notes
from clusterwise.tables.readers import read_table

__all__ = ["LabelledData", "labelled_data", "read_labelled"]

# Squares of numbers beyond this overflow in single precision.
LARGEST = 1e15


@dataclass(frozen=True)
class LabelledData:
    """Rows of numbers with their labels."""

    rows: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    groups: np.ndarray | None = None  # (n,)
    columns: tuple[str, ...] = ()  # names of the d columns, where they have any
    notes: tuple[str, ...] = ()  # what was left out, and why
    image_shape: tuple[int, ...] | None = None  # of rows that are images


def labelled_data(X: Any, y: Any, groups: Any = None) -> LabelledData:
    """Rows of an array, a data frame or images X with labels ``y`` and ``groups``, checked."""
    if hasattr(X, "toarray"):
        raise InvalidDataError(
            "X is a sparse matrix; pass X.toarray(), or fewer columns that were made of it, by a truncated "
            "SVD for example."
        )
    if np.ma.is_masked(X):
        raise InvalidDataError(f"X has {np.ma.getmaskarray(X).sum()} masked entries; fill them in.")
    shape: tuple[int, ...] | None = None
    names: tuple[str, ...] = ()
    if isinstance(X, np.ndarray) and X.ndim in (2, 3, 4) and X.dtype.kind in "biuf":
        shape = X.shape[1:] if X.ndim > 2 else None
        rows = X.reshape(len(X), math.prod(X.shape[1:]))
    else:
        rows, names = _columns_of(X)
    if rows.size == 0:
        raise InvalidDataError("X is empty; it must hold labelled rows.")
    if rows.dtype.kind == "f":
        require_finite(rows)
        if float(np.abs(rows).max()) > LARGEST:
            raise InvalidDataError(
                f"X has numbers beyond {LARGEST:g}, which networks cannot compute with; use larger units."
            )
    grouping = None if groups is None else _of_each_row(groups, len(rows), "groups")
    return LabelledData(rows, _of_each_row(y, len(rows), "y"), grouping, names, image_shape=shape)


def _columns_of(X: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """The numbers (n, d) of a data frame or a list of rows, and the names of its columns, if there are."""
    table = read_columns(X)
    for column in table.columns:
        if column.kind != "number":
            raise InvalidDataError(
                f"Column {column.name!r} of X holds no numbers; drop it or turn it into numbers."
            )
    names = tuple(column.name for column in table.columns) if table.named else ()
    return np.column_stack([column.values for column in table.columns]), names


def _of_each_row(values: Any, n_rows: int, name: str) -> np.ndarray:
    """Values (n,), one of each row; what is masked is missing."""
    if np.ma.is_masked(values):
        masked, values = np.ma.getmaskarray(values), np.ma.getdata(values).astype(object)
        values[masked] = None
    array = np.asarray(values)
    if array.ndim != 1 or len(array) != n_rows:
        raise InvalidDataError(
            f"{name} must have one entry for each of the {n_rows} rows of X; it has shape {array.shape}."
        )
    return array


def read_labelled(
    path: str | Path,
    label_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
) -> LabelledData:
    """Read labelled rows from a table, or from an npz with arrays X and y; "columns" are arrays there."""
    if Path(path).suffix.lower() == ".npz":
        return _from_archive(Path(path), label_column or "y", group_column)
    if label_column is None:
        raise InvalidDataError(f"{path} is a table; say which of its columns has the labels.")
    table = read_table(path)
    if not hasattr(table, "column_names"):
        raise InvalidDataError(f"{path} is a sparse matrix; labelled rows must be a table of numbers.")
    return table_with_labels(table, label_column, group_column, drop)


def table_with_labels(
    table: Any, label_column: str, group_column: str | None = None, drop: Sequence[str] = ()
) -> LabelledData:
    """Take labels, groups and the columns of numbers from a pyarrow table or a data frame.

    Columns that look like ids, dates and words are left out, and the notes say so.
    """
    columns = read_columns(table)
    by_name = {column.name: column for column in columns.columns}
    known = ", ".join(map(repr, list(by_name)[:20]))
    for what, name in (("labels", label_column), ("groups", group_column), *(("dropped", d) for d in drop)):
        if name is not None and name not in by_name:
            raise InvalidDataError(f"there is no column {name!r} for the {what}; there are {known}.")
    special = {label_column, group_column, *drop}
    used, aside = select_columns(columns, drop=[name for name in special if name is not None])
    words = [place for place in used if columns.columns[place].kind != "number"]
    numbers = [columns.columns[place] for place in used if place not in words]
    notes = set_aside_notes(aside, include=None)
    notes += [
        f"column {columns.columns[place].name!r} is set aside: it holds no numbers; turn it into numbers to "
        "use it."
        for place in words
    ]
    if not numbers:
        raise InvalidDataError("no column but the labels holds numbers; training needs at least one.")
    for column in numbers:
        if column.missing.any():
            row = int(np.flatnonzero(column.missing)[0])
            raise InvalidDataError(
                f"column {column.name!r} has no number in {column.missing.sum()} of {columns.n_rows} rows "
                f"(row {row} is the first); fill the gaps in, or drop the rows or the column."
            )
    return LabelledData(
        np.column_stack([column.values for column in numbers]),
        _labels_of(by_name[label_column].values),
        None if group_column is None else _labels_of(by_name[group_column].values),
        tuple(column.name for column in numbers),
        tuple(notes),
    )


def _labels_of(values: np.ndarray) -> np.ndarray:
    """Labels of one kind; gaps stay gaps."""
    return values if values.dtype.kind == "f" else values.astype(object)


def _from_archive(path: Path, label_name: str, group_name: str | None) -> LabelledData:
    arrays = arrays_in(path)
    for name in ("X", label_name, *([] if group_name is None else [group_name])):
        if name not in arrays:
            raise InvalidDataError(f"{path} has no array {name!r}; it has {', '.join(arrays)}.")
    groups = None if group_name is None else arrays[group_name]
    rows = arrays["X"]
    if rows.ndim < 2 or rows.dtype.kind not in "biuf" or len(rows) != len(arrays[label_name]):
        raise InvalidDataError(
            f"X in {path} has shape {rows.shape} and {label_name} {arrays[label_name].shape}; they need one "
            "row of numbers and one label for each."
        )
    shape = rows.shape[1:] if rows.ndim > 2 else None
    return LabelledData(rows.reshape(len(rows), -1), arrays[label_name], groups, image_shape=shape)
