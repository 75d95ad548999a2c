"""One HTML page about a fitted estimator: words and pictures, written whole or not at all."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from clusterwise._extras import import_extra
from clusterwise._files import whole_or_nothing
from clusterwise._safety import printable
from clusterwise.exceptions import InvalidDataError
from clusterwise.plotting import ClusterDisplay, KPosteriorDisplay, StepsDisplay
from clusterwise.plotting.course import MAX_PANELS, PANEL, panel_grid
from clusterwise.plotting.plane import BASE, import_matplotlib, points_of_fit
from clusterwise.report import contents
from clusterwise.tables.columns import Column, TableColumns, read_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["in_use_line", "write_report"]

MAX_NAMED = 30  # columns in use
DPI = 190  # of pictures


def _template() -> Any:
    jinja2 = import_extra("jinja2", "reports")
    text = (resources.files("clusterwise.report") / "report.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


def write_report(
    estimator: Any,
    X: Any,
    path: str | Path,
    *,
    title: str = "Clusters",
    column_names: Sequence[str] | None = None,
    y: Any = None,
    seconds: float | None = None,
    warned: Sequence[Warning | str] = (),
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
    warned : sequence of warnings or str
        Those of ``fit`` that the reader should know of; misfits are listed in any case.
    table : data frame or array with n rows, optional
        What ``TablePreparation`` made X of: clusters are described in its columns and units.
    notes : sequence of str
        What was done to the columns. Default: ``preparation_.notes_`` of the estimator.
    row_names : sequence of n values, optional
        Names of the rows instead of numbers, and in ``row_heading`` what they are.
    """
    labels = np.asarray(estimator.labels_)
    if y is not None and np.shape(y) != labels.shape:
        raise InvalidDataError(
            f"y must hold one class for each of the {len(labels)} rows; got {np.shape(y)}."
        )
    data = _clustered_data(estimator, X, table, column_names, notes)
    page = _template().render(
        title=title,
        limits=contents,
        n_rows=len(labels),
        n_steps=len(estimator.steps_),
        notes=data.notes,
        warned=_warned_lines(estimator, warned),
        row_names=None if row_names is None else [str(name) for name in row_names],
        row_heading=row_heading,
        headline=contents.headline(estimator, len(data.columns), seconds),
        agreement=None if y is None else contents.agreement_with(y, labels),
        settings=_settings(estimator),
        call=re.sub(r"\b(TablePreparation\()", r"cw.\1", "cw." + " ".join(repr(estimator).split())),
        **_about_columns(estimator, data.columns),
        **_about_k(estimator),
        **_pictures(estimator, data),
    )
    with whole_or_nothing(path) as temporary:
        temporary.write_text(printable(page, keep="\n\t"), encoding="utf-8")


# -- what was clustered -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    """What was clustered, and the columns that it was made of."""

    points: np.ndarray  # features (n, f)
    names: tuple[str, ...]  # of the features
    columns: list[Column]  # of numbers, words and dates, in the units of the table
    notes: list[str]


def _clustered_data(
    estimator: Any, X: Any, table: Any, column_names: Sequence[str] | None, notes: Sequence[str]
) -> _Data:
    preparation, notes = getattr(estimator, "preparation_", None), list(notes)
    if preparation is not None and table is None:
        notes = notes or preparation.notes_
        features = preparation.transform(X)
        column_names = tuple(map(str, preparation.get_feature_names_out()))
        if not scipy.sparse.issparse(X):
            table = read_columns(X)
            notes = [*in_use_line(preparation.used_), *notes] if table.named else notes
            in_use = set(preparation.used_)
            table = replace(table, columns=tuple(c for c in table.columns if c.name in in_use))
        X = features
    points, names = points_of_fit(estimator, X)
    names = names if column_names is None else tuple(column_names)
    if names is None:
        names = tuple(f"feature {place}" for place in range(points.shape[1]))
    if len(names) != points.shape[1]:
        raise InvalidDataError(
            f"there are {len(names)} column names for {points.shape[1]} columns; name each."
        )
    known = table if isinstance(table, TableColumns) else read_columns(points if table is None else table)
    if known.n_rows != len(points):
        raise InvalidDataError(
            f"table has {known.n_rows} rows and the fit {len(points)}; pass the same rows."
        )
    columns = list(known.columns)
    if table is None:
        columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
    return _Data(points, names, columns, notes)


def in_use_line(names: Sequence[str]) -> list[str]:
    """One line about the columns that were clustered; the first of very many."""
    return [f"in use: {', '.join(names[:MAX_NAMED])}{', ...' if len(names) > MAX_NAMED else '.'}"]


def _units_of_table(data: _Data, has_ellipses: bool) -> tuple[np.ndarray, list[str]]:
    """Features (n, f) with names; in the units of the columns that they were made of where that is possible.

    It is if they are these columns, or one or two that differ in scale alone and have no ellipses.
    """
    points, numeric = data.points, [column for column in data.columns if column.kind == "number"]
    value_names = [column.name for column in numeric]
    values = np.column_stack([np.empty((len(points), 0)), *(column.values for column in numeric)])
    if points.shape == values.shape and np.isfinite(values).all():
        if np.array_equal(points, values):
            return points, value_names
        if points.shape[1] <= 2 and not has_ellipses:
            with np.errstate(all="ignore"):  # constant or huge columns
                pairs = zip(points.T, values.T, strict=True)
                alike = [np.abs(np.corrcoef(one, other)[0, 1]) > 1 - 1e-9 for one, other in pairs]
            if all(alike):
                return values, value_names
    return points, [f"{name} (scaled)" for name in data.names]


# -- what the template prints -------------------------------------------------------------------------


def _warned_lines(estimator: Any, warned: Sequence[Warning | str]) -> list[str]:
    """Each warning once, in a line without a remedy for Python; misfits in any case."""
    found = [*warned, *getattr(estimator, "misfits_", ())]
    return list(dict.fromkeys(f"{w.finding()}." if hasattr(w, "finding") else str(w) for w in found))


def _settings(estimator: Any) -> list[tuple[str, str]]:
    settings = [(name, repr(value)) for name, value in estimator.get_params(deep=False).items()]
    weights = estimator.weights_name_
    return settings if weights is None else [*settings, ("weights in use", weights)]


def _about_columns(estimator: Any, columns: Sequence[Column]) -> dict[str, Any]:
    """The tables of clusters and of rows, in the columns that tell most, and what distinguishes clusters."""
    columns = [column for column in columns if column.kind in ("number", "words")]
    found = contents.compare_clusters(columns, np.asarray(estimator.labels_))
    places = contents.distinctive_columns(found, len(columns), contents.MAX_COLUMNS)
    shown = [columns[place] for place in places]
    return {
        "differences": contents.largest_differences(found),
        "clusters": contents.cluster_rows(estimator, shown),
        "shown_columns": shown,
        "n_hidden_columns": len(columns) - len(shown),
        "uncertain": contents.uncertain_rows(estimator, shown),
        "n_uncertain": int((np.asarray(estimator.probabilities_) < contents.CERTAIN).sum()),
        "outlying": contents.outlying_rows(estimator, shown),
        "n_outlying": int((np.asarray(estimator.outlier_scores_) >= contents.OUTLYING).sum()),
    }


def _about_k(estimator: Any) -> dict[str, Any]:
    k_posterior = getattr(estimator, "k_posterior_", None)  # a method with one answer has none
    return {
        "summary": contents.summary(estimator, k_posterior),
        "about_k": None if k_posterior is None else contents.about_k(estimator, k_posterior),
        "other_k": contents.other_k(estimator, k_posterior) if hasattr(estimator, "labels_at") else None,
    }


# -- pictures ---------------------------------------------------------------------------------------


def _pictures(estimator: Any, data: _Data) -> dict[str, Any]:
    """What is drawn of the partition, of P(K) and of the steps, where there are any."""
    has_ellipses = estimator.gaussian_ and data.points.shape[1] > 1
    drawn, names = _units_of_table(data, has_ellipses)
    found: dict[str, Any] = {
        "ellipses": has_ellipses,
        "projected": data.points.shape[1] > 2,
        "clusters_picture": _picture(
            6.8,
            4.6,
            lambda figure: ClusterDisplay.from_estimator(
                estimator, drawn, ax=figure.add_subplot(), column_names=names
            ),
        ),
        "confidence_picture": _picture(
            5.2, 3.0, lambda figure: _draw_confidence(figure.add_subplot(), estimator.probabilities_)
        ),
        "k_posterior_picture": None,
        "steps_picture": None,
    }
    if hasattr(estimator, "k_posterior_"):
        found["k_posterior_picture"] = _picture(
            5.2, 3.0, lambda figure: KPosteriorDisplay.from_estimator(estimator, ax=figure.add_subplot())
        )
    if estimator.steps_:
        n_rows, n_columns = panel_grid(min(len(estimator.steps_), MAX_PANELS))
        found["steps_picture"] = _picture(
            PANEL * n_columns,
            PANEL * n_rows,
            lambda figure: StepsDisplay.from_estimator(estimator, data.points, figure=figure),
        )
    return found


def _picture(width: float, height: float, draw: Callable[[Figure], Any]) -> str:
    """A PNG in a data address; its figure needs no closing and no backend, as pyplot does not know of it."""
    figure = import_matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
    draw(figure)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names of columns in letters that the font lacks become boxes; the page itself shows them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format="png", dpi=DPI)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _draw_confidence(ax: Axes, probabilities: np.ndarray) -> None:
    """Draw a histogram of the confidences (n,), counts on a log scale: most rows are usually certain."""
    ax.hist(probabilities, bins=np.linspace(0, 1, 26).tolist(), color=BASE[0])
    ax.set(yscale="log", xlim=(0, 1), xlabel="probability of the label", ylabel="rows (log scale)")
    ax.set_ylim(bottom=0.7)
    ticker = import_matplotlib("ticker")
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda count, _: f"{count:,.0f}"))
    ax.spines[["top", "right"]].set_visible(False)
