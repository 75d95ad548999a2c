"""The plane that points are drawn on, its axes, and the colours of clusters: the same in all pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from clusterwise._extras import import_extra
from clusterwise.exceptions import InvalidDataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BASE",
    "QUIET",
    "cluster_colour",
    "cluster_colours",
    "cluster_marker",
    "import_matplotlib",
    "open_axes",
    "points_of_fit",
    "project",
    "subsample",
]

# -- colours ----------------------------------------------------------------------------------------

# Okabe & Ito's colours without black and yellow, which are lost among axes and on white.
BASE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = ("o", "^", "s", "D")
QUIET = "#C8CCD0"  # what is there but not the subject


def _mix(colour: str, other: str, share: float) -> str:
    """Mix ``share`` of another colour in; both as #RRGGBB."""
    channels = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in channels)


# Colour-blind readers see lightness best: the base colours come again darker, then lighter.
PALETTE = (
    *BASE,
    *(_mix(colour, "#000000", 0.45) for colour in BASE),
    *(_mix(colour, "#FFFFFF", 0.4) for colour in BASE),
)


def cluster_colour(label: int) -> str:
    """The colour of one cluster; after 18 they come again, with another marker."""
    return PALETTE[label % len(PALETTE)]


def cluster_marker(label: int) -> str:
    """The marker of one cluster: circles first, other shapes when the colours come again."""
    return MARKERS[label // len(PALETTE) % len(MARKERS)]


def cluster_colours(n_clusters: int) -> list[str]:
    """A colour #RRGGBB for each of ``n_clusters`` clusters."""
    return [cluster_colour(label) for label in range(n_clusters)]


# -- axes and points --------------------------------------------------------------------------------

# A column whose values differ by less than this share of them is constant: the rest is rounding.
ROUNDING = 1e-12


def import_matplotlib(module: str) -> Any:
    """A module of matplotlib, such as "ticker"."""
    return import_extra(f"matplotlib.{module}", "pictures")


def open_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure; without a frame above and to the right."""
    if ax is None:
        pyplot = import_matplotlib("pyplot")
        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    assert ax is not None
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def project(
    points: np.ndarray, column_names: Sequence[str] | None = None, *, per_feature: bool = False
) -> tuple[np.ndarray, tuple[str, str]]:
    """Points (n, 2) and names of both axes: points (n, d) themselves if d is 2, else principal components.

    With one feature the second coordinate is zero everywhere. ``per_feature`` brings the features to one
    scale before their principal components are taken.
    """
    d = points.shape[1]
    if d <= 2:
        names = list(column_names) if column_names is not None else [f"feature {j}" for j in range(d)]
        return points @ np.eye(d, 2), (names[0], names[1] if d == 2 else "")
    centred = points - (points / len(points)).sum(axis=0)
    centred[:, np.abs(centred).max(axis=0) <= ROUNDING * np.abs(points).max(axis=0)] = 0.0
    unit = np.abs(centred).max() or 1.0  # squares of huge values would overflow
    centred /= unit
    if per_feature:
        spreads = centred.std(axis=0)
        centred, unit = centred / np.where(spreads > 0, spreads, 1.0), 1.0
    axes, shares = np.zeros((2, d)), np.zeros(2)
    if centred.any():
        found = PCA(2, random_state=0).fit(centred)
        axes, shares = found.components_, found.explained_variance_ratio_
    first, second = (f"principal component {i + 1} ({100 * shares[i]:.0f} % of the variance)" for i in (0, 1))
    return unit * (centred @ axes.T), (first, second)


def subsample(labels: np.ndarray, max_points: int, min_points: int = 20) -> np.ndarray:
    """Rows to draw, sorted: all, or about ``max_points`` at random with a few of every cluster."""
    if len(labels) <= max_points:
        return np.arange(len(labels))
    order = np.random.default_rng(0).permutation(len(labels))
    # The rank of a row within its cluster, in random order: the first few are always kept.
    by_cluster = np.argsort(labels[order], kind="stable")
    starts = np.searchsorted(labels[order][by_cluster], labels[order][by_cluster])
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_cluster] = np.arange(len(labels)) - starts
    keep = rank < min_points
    keep[np.flatnonzero(~keep)[: max(0, max_points - int(keep.sum()))]] = True
    return np.sort(order[keep])


def points_of_fit(estimator: Any, X: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """The points that an estimator clustered, (n, f), with names if there are any.

    They are X, or the features made of it; an array of numbers without gaps is taken for what was clustered.
    """
    preparation, columns = getattr(estimator, "preparation_", None), getattr(X, "columns", None)
    names = None if columns is None else tuple(str(name) for name in columns)
    numbers = isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and bool(np.isfinite(X).all())
    if preparation is not None and not numbers:
        X = preparation.transform(X)
        names = tuple(f"{name} (scaled)" for name in preparation.get_feature_names_out())
    points, n_rows = np.asarray(X, dtype=np.float64), len(estimator.labels_)
    if points.ndim != 2 or len(points) != n_rows:
        raise InvalidDataError(
            f"X has shape {points.shape} and the estimator was fitted to {n_rows} rows; pass the data of fit."
        )
    return points, names
