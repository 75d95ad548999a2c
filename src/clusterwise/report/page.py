"""Put words and pictures into one HTML page, written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from clusterwise._extras import import_extra
from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import InvalidDataError
from clusterwise.plotting.plane import points_of_fit
from clusterwise.report import contents, pictures
from clusterwise.report.differences import HEIGHT, compared, differences, telling
from clusterwise.tables import TablePreparation
from clusterwise.tables.columns import TableColumns, read_columns

__all__ = ["in_use_line", "write_report"]

MOST_NAMED = 30  # columns in use


def _template() -> Any:
    jinja2 = import_extra("jinja2", "reports")
    text = (resources.files("clusterwise.report") / "report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


def _prepared(
    preparation: TablePreparation, X: Any, notes: Sequence[str]
) -> tuple[TableColumns | None, np.ndarray, tuple[str, ...], list[str]]:
    """The columns in use of what was clustered, its features (n, f) with their names, and what was done."""
    features = preparation.transform(X)
    names = tuple(map(str, preparation.get_feature_names_out()))
    notes = notes or preparation.notes_
    if scipy.sparse.issparse(X):
        return None, features, names, [*notes]
    known = read_columns(X)
    in_use = set(preparation.used_)
    columns = tuple(column for column in known.columns if column.name in in_use)
    named = in_use_line(preparation.used_) if known.named else []
    return replace(known, columns=columns), features, names, [*named, *notes]


def in_use_line(names: Sequence[str]) -> list[str]:
    """One line about the columns that were clustered; the first of very many."""
    shown = ", ".join(names[:MOST_NAMED])
    return [f"in use: {shown}{', ...' if len(names) > MOST_NAMED else '.'}"]


def _to_draw(
    points: np.ndarray,
    names: Sequence[str],
    values: np.ndarray,
    value_names: Sequence[str],
    has_ellipses: bool,
) -> tuple[np.ndarray, list[str]]:
    """Features (n, f) with names; in the units of the columns that they were made of where that is possible.

    It is if they are these columns, or one or two that differ in scale alone and have no ellipses.
    """
    if points.shape == values.shape and np.isfinite(values).all():
        if np.array_equal(points, values):
            return points, list(value_names)
        if points.shape[1] <= 2 and not has_ellipses:
            with np.errstate(all="ignore"):  # constant or huge columns
                pairs = zip(points.T, values.T, strict=True)
                alike = [np.abs(np.corrcoef(one, other)[0, 1]) > 1 - 1e-9 for one, other in pairs]
            if all(alike):
                return values, list(value_names)
    return points, [f"{name} (scaled)" for name in names]


def _settings(estimator: Any) -> list[tuple[str, str]]:
    settings = [(name, repr(value)) for name, value in estimator.get_params(deep=False).items()]
    weights = estimator.weights_name_
    return settings if weights is None else [*settings, ("weights in use", weights)]


def write_report(
    estimator: Any,
    X: Any,
    path: str | Path,
    *,
    title: str = "Clusters",
    column_names: Sequence[str] | None = None,
    y: Any = None,
    seconds: float | None = None,
    warned: Sequence[str] = (),
    table: Any = None,
    notes: Sequence[str] = (),
    row_names: Sequence[Any] | None = None,
    row_heading: str = "row",
) -> None:
    """Write one HTML page about a fitted estimator, with its pictures inside; it loads nothing else.

    Parameters
    ----------
    estimator : fitted clusterer
    X : array-like or data frame of shape (n, d)
        The data of ``fit``. What ``Clusterer`` prepared by itself is described in its own columns and units.
    path : str or Path
        Where to write it; the page appears whole or not at all.
    title : str
    column_names : sequence of d str, optional
        Default: the columns of the data frame, if X is one.
    y : array-like of shape (n,), optional
        Known classes to compare with.
    seconds : float, optional
        How long ``fit`` took.
    warned : sequence of str
        Warnings of ``fit`` that the reader should know of; those about misfits are shown in any case.
    table : data frame or array with n rows, optional
        What X was made of, if ``TablePreparation`` made it: clusters are described in its columns and units.
    notes : sequence of str
        What was done to the columns; by default what ``preparation_.notes_`` of the estimator says.
    row_names : sequence of n values, optional
        What rows are called, instead of their numbers.
    row_heading : str
        What ``row_names`` are.
    """
    labels = np.asarray(estimator.labels_)
    preparation = getattr(estimator, "preparation_", None)
    if preparation is not None and table is None:
        table, X, column_names, notes = _prepared(preparation, X, notes)
    points, names = points_of_fit(estimator, X)
    names = tuple(column_names) if column_names is not None else names
    if names is None:
        names = tuple(f"feature {place}" for place in range(points.shape[1]))
    if len(names) != points.shape[1]:
        raise InvalidDataError(
            f"there are {len(names)} column names for {points.shape[1]} columns; name each."
        )
    if y is not None and np.shape(y) != labels.shape:
        raise InvalidDataError(
            f"y must hold one class for each of the {len(labels)} rows; got {np.shape(y)}."
        )
    known = table if isinstance(table, TableColumns) else read_columns(points if table is None else table)
    if known.n_rows != len(labels):
        raise InvalidDataError(
            f"table has {known.n_rows} rows and the fit {len(labels)}; pass the same rows."
        )
    columns = list(known.columns)
    if table is None:
        columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
        values, value_names = points, names
    else:
        numeric = [column for column in columns if column.kind == "number"]
        value_names = tuple(column.name for column in numeric)
        values = np.column_stack([np.empty((len(labels), 0)), *(column.values for column in numeric)])
    misfits = [misfit.finding() for misfit in getattr(estimator, "misfits_", ())]
    warned = [
        *warned,
        *(f"{line}." for line in misfits if not any(line in other for other in warned)),
    ]
    has_ellipses = estimator.gaussian_ and points.shape[1] > 1
    drawn, axes = _to_draw(points, names, values, value_names, has_ellipses)
    steps, has_posterior = estimator.steps_, hasattr(estimator, "k_posterior_")  # one answer has no posterior
    k_posterior = estimator.k_posterior_ if has_posterior else None
    described = [column for column in columns if column.kind in ("number", "words")]
    found = compared(described, labels)
    shown = [described[place] for place in telling(found, len(described), contents.MAX_COLUMNS)]
    page: str = _template().render(
        title=title,
        headline=contents.headline(estimator, len(known.columns), seconds),
        summary=contents.summary(estimator, k_posterior),
        warned=warned,
        notes=notes,
        row_names=None if row_names is None else [str(name) for name in row_names],
        row_heading=row_heading,
        differences=differences(found),
        bar_height=HEIGHT,
        clusters=contents.cluster_rows(estimator, shown),
        shown_columns=shown,
        n_hidden_columns=len(described) - len(shown),
        projected=points.shape[1] > 2,
        uncertain=contents.uncertain_rows(estimator, shown),
        n_uncertain=int((np.asarray(estimator.probabilities_) < contents.CERTAIN).sum()),
        certain=contents.CERTAIN,
        outlying=contents.outlying_rows(estimator, shown),
        n_outlying=int((np.asarray(estimator.outlier_scores_) >= contents.OUTLYING).sum()),
        outlying_score=contents.OUTLYING,
        agreement=None if y is None else contents.agreement_with(y, labels),
        ellipses=has_ellipses,
        settings=_settings(estimator),
        clusters_picture=pictures.clusters_picture(estimator, drawn, axes),
        confidence_picture=pictures.confidence_picture(np.asarray(estimator.probabilities_)),
        k_posterior_picture=pictures.k_posterior_picture(estimator) if has_posterior else None,
        about_k=None if k_posterior is None else contents.about_k(estimator, k_posterior),
        other_k=contents.other_k(estimator, k_posterior) if hasattr(estimator, "labels_at") else None,
        steps_picture=pictures.steps_picture(estimator, points) if steps else None,
        n_steps=len(steps),
        n_rows=len(labels),
        call=re.sub(r"\b(TablePreparation\()", r"cw.\1", "cw." + " ".join(repr(estimator).split())),
    )
    with whole_or_nothing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
