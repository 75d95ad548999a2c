"""The table of a file on the command line: which columns are clustered, which one names the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from clusterwise.cli.messages import include_option
from clusterwise.exceptions import InvalidDataError, UnknownColumnError

if TYPE_CHECKING:
    from clusterwise.tables import TablePreparation

__all__ = ["Choice", "Chosen", "choose_features", "features_as_trained", "id_and_notes", "preparation_for"]


@dataclass(frozen=True)
class Choice:
    """What was asked for about columns."""

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    include: Sequence[str] = ()
    id: str | None = None
    dates: str = "number"
    raw: bool = False  # numbers as they are


@dataclass(frozen=True)
class Chosen:
    """Features of a table, (n, f), and what was done to its columns."""

    features: np.ndarray
    names: tuple[str, ...]  # of the features
    notes: tuple[str, ...]
    id_name: str | None  # the column that names the rows
    table: Any  # the columns in use, as they were; None for a matrix
    transform: Callable[[Any], np.ndarray]  # features of other rows of the same table


def preparation_for(names: Sequence[str] | None, choice: Choice) -> TablePreparation:
    """The preparation that the options ask for, of a table with these columns or a matrix without names."""
    from clusterwise.tables import TablePreparation

    if choice.id is not None and choice.id not in (names or ()):
        raise UnknownColumnError(parameter="--id", column=choice.id, known=names or ())
    return TablePreparation(
        columns=None if choice.columns is None else list(choice.columns),
        drop=(*choice.drop, *(() if choice.id is None else (choice.id,))),
        include=tuple(choice.include),
        dates=choice.dates,  # type: ignore[arg-type]
    )


def id_and_notes(preparation: TablePreparation, choice: Choice) -> tuple[str | None, tuple[str, ...]]:
    """The column that names the rows, and what a fitted preparation did, in words of the command line."""
    from clusterwise.tables.columns import set_aside_notes

    # The first column that looks like an id, if none was named.
    like = [name for name, reason in preparation.set_aside_.items() if reason.kind == "id"]
    notes = (*set_aside_notes(preparation.set_aside_, include_option), *preparation.remarks_)
    return choice.id or next(iter(like), None), notes


def choose_features(table: Any, choice: Choice) -> Chosen:
    """Turn a pyarrow table, or a sparse matrix, into features."""
    sparse = scipy.sparse.issparse(table)
    preparation = preparation_for(None if sparse else table.column_names, choice)
    features = preparation.fit_transform(table)
    names = tuple(map(str, preparation.get_feature_names_out()))
    id_name, notes = id_and_notes(preparation, choice)
    transform: Callable[[Any], np.ndarray] = preparation.transform
    if choice.raw:
        features, names = _as_they_are(table, preparation.used_)
        transform = partial(_numbers_as_they_are, used=preparation.used_)
        notes = tuple(note for note in notes if "set aside" in note)
    in_use = None if sparse else table.select(preparation.used_)
    return Chosen(features, names, notes, id_name, in_use, transform)


def features_as_trained(table: Any, choice: Choice, columns: Sequence[str]) -> Chosen:
    """The columns that weights were trained on, in their own units; nothing is scaled or filled in."""
    from clusterwise.tables.columns import read_columns, select_columns

    if scipy.sparse.issparse(table):
        raise InvalidDataError("these weights take a table with named columns, not a sparse matrix.")
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise InvalidDataError(
            f"the weights were trained on a column {missing[0]!r}, which is not there; there are "
            f"{', '.join(map(repr, table.column_names[:20]))}."
        )
    id_name = choice.id
    if id_name is None:
        aside = select_columns(read_columns(table))[1]
        like = [name for name, reason in aside.items() if reason.kind == "id" and name not in columns]
        id_name = like[0] if like else None
    others = [name for name in table.column_names if name not in columns and name != id_name]
    notes = [f"not used, as in training: {', '.join(map(repr, others))}."] if others else []
    transform = partial(_numbers_as_they_are, used=tuple(columns))
    return Chosen(
        transform(table), tuple(columns), tuple(notes), id_name, table.select(list(columns)), transform
    )


def _numbers_as_they_are(table: Any, used: Sequence[str]) -> np.ndarray:
    return _as_they_are(table, used)[0]


def _as_they_are(table: Any, used: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    from clusterwise.tables.columns import read_columns

    if scipy.sparse.issparse(table):
        raise InvalidDataError("a sparse matrix cannot be clustered as it is; leave out --raw.")
    by_name = {column.name: column for column in read_columns(table).columns}
    for name in used:
        if by_name[name].kind != "number":
            raise InvalidDataError(
                f"column {name!r} holds no numbers; leave it out with --drop, or leave out --raw."
            )
    return np.column_stack([by_name[name].values for name in used]), tuple(used)
