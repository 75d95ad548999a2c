"""Points of any dimension on the plane that is drawn, and axes to draw them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from clusterwise._extras import import_extra
from clusterwise.exceptions import InvalidDataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["open_axes", "points_of_fit", "project", "thin_out"]


def open_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """The given axes, or those of a new figure; without a frame above and to the right."""
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "pictures")
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


def thin_out(labels: np.ndarray, max_points: int, at_least: int = 20) -> np.ndarray:
    """Rows to draw, sorted: all, or about ``max_points`` at random with a few of every cluster."""
    if len(labels) <= max_points:
        return np.arange(len(labels))
    order = np.random.default_rng(0).permutation(len(labels))
    # The rank of a row within its cluster, in random order: the first few are always kept.
    by_cluster = np.argsort(labels[order], kind="stable")
    starts = np.searchsorted(labels[order][by_cluster], labels[order][by_cluster])
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_cluster] = np.arange(len(labels)) - starts
    keep = rank < at_least
    keep[np.flatnonzero(~keep)[: max(0, max_points - int(keep.sum()))]] = True
    return np.sort(order[keep])


def points_of_fit(estimator: Any, X: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """What an estimator clustered, (n, f), with names if there are any: X, or the features made of it.

    An array of numbers without gaps is taken for what was clustered, in any case.
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
