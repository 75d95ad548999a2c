"""Labelled rows in a file: a table with a column of labels, or the arrays of an npz."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.tables.columns import read_columns, select_columns, set_aside_notes
from clusterwise.tables.readers import read_table
from clusterwise.training.labelled import LabelledSource
from clusterwise.training.recipe import Recipe

__all__ = ["LABELLED", "LabelledTable", "read_labelled", "source_of_file"]

# The name of the prior in recipes.
LABELLED = "labelled"


@dataclass(frozen=True)
class LabelledTable:
    """Rows of numbers with their labels."""

    rows: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)
    groups: np.ndarray | None = None  # (n,)
    columns: tuple[str, ...] = ()  # names of the d columns, where they have any
    notes: tuple[str, ...] = ()  # what was left out, and why
    image_shape: tuple[int, ...] | None = None  # of rows that are images


def read_labelled(
    path: str | Path,
    label_column: str | None = None,
    group_column: str | None = None,
    drop: Sequence[str] = (),
) -> LabelledTable:
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
) -> LabelledTable:
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
    return LabelledTable(
        np.column_stack([column.values for column in numbers]),
        _labels_of(by_name[label_column].values),
        None if group_column is None else _labels_of(by_name[group_column].values),
        tuple(column.name for column in numbers),
        tuple(notes),
    )


def _labels_of(values: np.ndarray) -> np.ndarray:
    """Labels of one kind; gaps stay gaps."""
    return values if values.dtype.kind == "f" else values.astype(object)


def _from_archive(path: Path, label_name: str, group_name: str | None) -> LabelledTable:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidDataError(
            f"{path} cannot be read ({error}); save arrays X and {label_name} with numpy.savez."
        ) from error
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
    return LabelledTable(rows.reshape(len(rows), -1), arrays[label_name], groups, image_shape=shape)


def source_of_file(recipe: Recipe) -> tuple[Recipe, LabelledSource]:
    """Read the file of ``[prior] name = "labelled"``; the recipe with what the file says about the encoder.

    ``file`` is a table with ``label_column`` (and ``group_column``), or an npz whose arrays have these names.
    With ``split = "train"`` only the rows count for which the array ``split`` is 0.
    """
    prior = recipe.prior
    if not isinstance(prior.get("file"), str):
        raise RecipeError("[prior] name = 'labelled' needs file, the path of a table or an npz.")
    table = read_labelled(prior["file"], prior.get("label_column"), prior.get("group_column"))
    if prior.get("split") is not None:
        with np.load(prior["file"], allow_pickle=False) as archive:
            if "split" not in archive.files:
                raise RecipeError(f"split in [prior] needs an array of that name in {prior['file']}.")
            kept = archive["split"] == 0
        groups = None if table.groups is None else table.groups[kept]
        table = dataclasses.replace(table, rows=table.rows[kept], y=table.y[kept], groups=groups)
    encoder = dict(recipe.encoder or {})
    if table.image_shape is not None:
        encoder = {"image_shape": list(table.image_shape), **encoder}
    encoder["n_features"] = table.rows.shape[1]
    recipe = dataclasses.replace(recipe, encoder=encoder)
    facts = {"columns": list(table.columns)} if table.columns else {}
    return recipe, LabelledSource(recipe, table.rows, table.y, table.groups, facts)
