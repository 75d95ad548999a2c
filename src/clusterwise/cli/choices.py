"""The choices that options of ``clusterwise cluster`` make: a method, its weights, columns of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import clusterwise
from clusterwise.cli.messages import include_option
from clusterwise.exceptions import ClusterwiseError, InvalidDataError, UnknownColumnError

if TYPE_CHECKING:
    import numpy as np

    from clusterwise.tables import TablePreparation

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "Columns",
    "Dates",
    "Features",
    "Filtering",
    "Projection",
    "Scaling",
    "WeightsFacts",
    "choose_features",
    "choose_method",
    "id_and_notes",
    "make_estimator",
    "preparation_for",
    "prepares",
    "require_method",
    "weights_facts",
]

# -- methods ----------------------------------------------------------------------------------------

# Names of estimators that are not those of their classes with hyphens between the words.
SPELLINGS = {"ACTST": "act-st", "CHiGac": "chigac"}


def _hyphenated(name: str) -> str:
    """A class name in lower case, such as deep-dpm for DeepDPM."""
    return "-".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", name)).lower()


# Each estimator as one writes it on a command line, and its class.
METHODS = {SPELLINGS.get(name) or _hyphenated(name): name for name in clusterwise.ESTIMATORS}
# What is used if no method is named, unless options call for another; see choose_method.
DEFAULT_METHOD = "clusterer"
# Options of the methods whose network takes two features.
NETWORK_OPTIONS = ("weights", "project")
# Options whose parameter has another name than they have.
PARAMETERS = {"project": "projection"}

# What options with few values may be.
Filtering = StrEnum("Filtering", {"MINIMUM_LOSS": "minimum-loss", "ANCHORED": "anchored"})
Projection = StrEnum("Projection", {"PCA": "pca"})
Scaling = StrEnum("Scaling", {"JOINT": "joint", "FEATURE": "feature"})
Dates = StrEnum("Dates", {"NUMBER": "number", "CYCLE": "cycle"})


def require_method(method: str) -> None:
    """Raise an error that lists the methods if this is none of them."""
    if method not in METHODS:
        raise ClusterwiseError(f"there is no method {method!r}; choose one of {', '.join(METHODS)}.")


def choose_method(method: str | None, options: Mapping[str, str | None]) -> str:
    """The method that was named, or the one that options call for, or the default."""
    if method is not None:
        return method
    if options.get("filtering") is not None:
        return "dac"
    about_networks = any(options.get(option) is not None for option in NETWORK_OPTIONS)
    return "amcp" if about_networks else DEFAULT_METHOD


def make_estimator(method: str, seed: int, options: Mapping[str, str | None]) -> Any:
    """The estimator of a method; options that are None were not given and keep their defaults."""
    estimator = _class_of(method)(random_state=seed)
    for option, text in options.items():
        if text is None:
            continue
        parameter, value = PARAMETERS.get(option, option), str(text)
        if not _takes(estimator, parameter, value):
            others = [other for other in METHODS if _takes(_class_of(other)(), parameter, value)]
            raise ClusterwiseError(
                f"--{option} is not an option of {method}; leave it out, or choose a --method that takes it: "
                f"{', '.join(others)}."
            )
        estimator.set_params(**{parameter: value})
    return estimator


def _class_of(method: str) -> Any:
    name = METHODS[method]
    return getattr(clusterwise, name)  # may load torch: only when it is needed


def _takes(estimator: Any, parameter: str, value: str | None) -> bool:
    """Whether an estimator has a parameter of that name that may have this value."""
    from sklearn.base import clone
    from sklearn.utils._param_validation import InvalidParameterError

    if parameter not in estimator.get_params(deep=False):
        return False
    try:
        clone(estimator).set_params(**{parameter: value})._validate_params()
    except InvalidParameterError:
        return False
    return True


def prepares(estimator: Any) -> bool:
    """Whether an estimator takes tables as they are, with a preparation of its own."""
    return "preparation" in estimator.get_params(deep=False)


# -- weights ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WeightsFacts:
    """Facts about weights that are known before anything is fitted; none if no weights were named."""

    method: str | None = None
    filtering: str | None = None  # of DAC
    from_labels: bool = False
    columns: tuple[str, ...] = ()  # that they were trained on, if they had names


def weights_facts(weights: str | None) -> WeightsFacts:
    """Facts from the header of a weights file; errors about it come when it is loaded."""
    if weights is None:
        return WeightsFacts()
    from clusterwise.pretrained.lookup import read_header, weights_path

    header, _ = read_header(weights_path(weights))
    method, model = header["recipe"]["method"], header["recipe"]["model"]
    return WeightsFacts(
        method=method if not method.endswith("-judge") else None,
        filtering=model.get("filtering", "minimum-loss") if method == "dac" else None,
        from_labels="encoder" in header["recipe"],
        columns=tuple(header["facts"].get("columns", ())),
    )


# -- columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Wishes about columns."""

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    include: Sequence[str] = ()
    id: str | None = None
    dates: str = "number"
    raw: bool = False  # numbers as they are


@dataclass(frozen=True)
class Features:
    """Features of a table, (n, f), and what was done to its columns."""

    values: np.ndarray
    names: tuple[str, ...]
    notes: tuple[str, ...]
    id_name: str | None  # the column that names the rows
    table: Any  # the columns in use, as they were; None for a matrix
    transform: Callable[[Any], np.ndarray]  # features of other rows of the same table


def preparation_for(names: Sequence[str] | None, asked: Columns) -> TablePreparation:
    """The preparation that the options ask for, of a table with these columns or a matrix without names."""
    from clusterwise.tables import TablePreparation

    if asked.id is not None and asked.id not in (names or ()):
        raise UnknownColumnError(parameter="--id", column=asked.id, known=names or ())
    return TablePreparation(
        columns=None if asked.columns is None else list(asked.columns),
        drop=(*asked.drop, *(() if asked.id is None else (asked.id,))),
        include=tuple(asked.include),
        dates=asked.dates,  # type: ignore[arg-type]
    )


def id_and_notes(preparation: TablePreparation, asked: Columns) -> tuple[str | None, tuple[str, ...]]:
    """The column that names the rows, and what a fitted preparation did, in words of the command line.

    It is the first column that looks like an id, if none was named.
    """
    from clusterwise.tables.columns import set_aside_notes

    ids = [name for name, reason in preparation.set_aside_.items() if reason.kind == "id"]
    notes = set_aside_notes(preparation.set_aside_, include_option)
    notes += [] if asked.raw else preparation.remarks_
    return asked.id or next(iter(ids), None), tuple(notes)


def choose_features(table: Any, asked: Columns, weights: WeightsFacts) -> Features:
    """Features of a pyarrow table or a sparse matrix: prepared, or numbers as they are.

    For weights trained on labels these are the columns of the training table, in their own units.
    """
    if weights.from_labels and weights.columns and asked.columns is None:
        return _features_as_trained(table, asked, weights.columns)
    sparse = _is_matrix(table)
    asked = replace(asked, raw=asked.raw or weights.from_labels)
    preparation = preparation_for(None if sparse else table.column_names, asked)
    features = preparation.fit_transform(table)
    id_name, notes = id_and_notes(preparation, asked)
    names, transform = list(preparation.get_feature_names_out()), preparation.transform
    if asked.raw:
        names, transform = preparation.used_, partial(_numbers_as_they_are, used=preparation.used_)
        features = transform(table)
    in_use = None if sparse else table.select(preparation.used_)
    return Features(features, tuple(map(str, names)), notes, id_name, in_use, transform)


def _features_as_trained(table: Any, asked: Columns, columns: Sequence[str]) -> Features:
    from clusterwise.tables.columns import read_columns, select_columns

    if _is_matrix(table):
        raise InvalidDataError("these weights take a table with named columns, not a sparse matrix.")
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise InvalidDataError(
            f"the weights were trained on a column {missing[0]!r}, which is not there; there are "
            f"{', '.join(map(repr, table.column_names[:20]))}."
        )
    id_name = asked.id
    if id_name is None:
        set_aside = select_columns(read_columns(table))[1].items()
        ids = [name for name, reason in set_aside if reason.kind == "id" and name not in columns]
        id_name = next(iter(ids), None)
    others = [name for name in table.column_names if name not in columns and name != id_name]
    notes = (f"not used, as in training: {', '.join(map(repr, others))}.",) if others else ()
    transform = partial(_numbers_as_they_are, used=columns)
    return Features(transform(table), tuple(columns), notes, id_name, table.select(list(columns)), transform)


def _is_matrix(table: Any) -> bool:
    """Whether a file held a sparse matrix, which has no columns with names."""
    return not hasattr(table, "column_names")


def _numbers_as_they_are(table: Any, used: Sequence[str]) -> np.ndarray:
    import numpy as np

    from clusterwise.tables.columns import read_columns

    if _is_matrix(table):
        raise InvalidDataError("a sparse matrix cannot be clustered as it is; leave out --raw.")
    by_name = {column.name: column for column in read_columns(table).columns}
    for name in used:
        if by_name[name].kind != "number":
            raise InvalidDataError(
                f"column {name!r} holds no numbers; leave it out with --drop, or leave out --raw."
            )
    return np.column_stack([by_name[name].values for name in used])
