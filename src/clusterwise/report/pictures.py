"""The pictures of a report, as PNG in data addresses, drawn without a screen or a global figure."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterwise._extras import import_extra
from clusterwise.plotting import ClusterDisplay, KPosteriorDisplay, StepsDisplay
from clusterwise.plotting.palette import BASE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["clusters_picture", "confidence_picture", "k_posterior_picture", "steps_picture"]

DPI = 190


def _new_figure(width: float, height: float) -> Figure:
    """Return a figure that pyplot does not know of, so that it needs no closing and no backend."""
    figure: Figure = import_extra("matplotlib.figure", "pictures").Figure(
        figsize=(width, height), layout="constrained"
    )
    return figure


def _as_address(figure: Figure) -> str:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names of columns in letters that the font lacks become boxes; the page itself shows them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format="png", dpi=DPI)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def clusters_picture(estimator: Any, points: np.ndarray, column_names: Sequence[str] | None) -> str:
    """Scatter plot of the partition."""
    figure = _new_figure(6.8, 4.6)
    ClusterDisplay.from_estimator(estimator, points, ax=figure.add_subplot(), column_names=column_names)
    return _as_address(figure)


def confidence_picture(probabilities: np.ndarray) -> str:
    """Histogram of the confidences (n,), counts on a log scale: most rows are usually certain."""
    figure = _new_figure(5.2, 3.0)
    ax = figure.add_subplot()
    ax.hist(probabilities, bins=np.linspace(0, 1, 26).tolist(), color=BASE[0])
    ax.set_yscale("log")
    ax.set_ylim(bottom=0.7)
    ticker = import_extra("matplotlib.ticker", "pictures")
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda count, _: f"{count:,.0f}"))
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the label")
    ax.set_ylabel("rows (log scale)")
    ax.spines[["top", "right"]].set_visible(False)
    return _as_address(figure)


def k_posterior_picture(estimator: Any) -> str:
    """Bars of P(K)."""
    figure = _new_figure(5.2, 3.0)
    KPosteriorDisplay.from_estimator(estimator, ax=figure.add_subplot())
    return _as_address(figure)


def steps_picture(estimator: Any, points: np.ndarray) -> str:
    """Small multiples of the path."""
    n_panels = min(len(estimator.steps_), 24)
    n_columns = min(n_panels, 6 if n_panels > 12 else 4)
    figure = _new_figure(2.1 * n_columns, 2.1 * math.ceil(n_panels / n_columns))
    StepsDisplay.from_estimator(estimator, points, figure=figure)
    return _as_address(figure)
