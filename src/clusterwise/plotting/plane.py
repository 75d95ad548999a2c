"""Bring points of any dimension to the plane that is drawn, and thin out what would not be seen."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterwise.exceptions import InvalidDataError, MissingDependencyError

__all__ = [
    "Plane",
    "find_plane",
    "import_matplotlib",
    "plane_of",
    "points_of",
    "points_of_fit",
    "principal_directions",
    "thin_out",
]


def import_matplotlib(module: str) -> Any:
    """Import a module of matplotlib, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            "pictures need matplotlib, which is not installed; run: pip install 'clusterwise[plot]'"
        ) from error


@dataclass(frozen=True)
class Plane:
    """x -> (x - centre) @ axes with ``centre`` (d,) and ``axes`` (d, 2), and the names of both axes."""

    centre: np.ndarray
    axes: np.ndarray
    names: tuple[str, str]

    def project(self, points: np.ndarray) -> np.ndarray:
        """Return the points (n, d) on the plane, (n, 2)."""
        return np.asarray((points - self.centre) @ self.axes)


def principal_directions(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return variances (d,) and directions (d, d) of centred points (n, d), the largest first."""
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    order = np.argsort(variances)[::-1]
    variances, directions = np.maximum(variances[order], 0.0), directions[:, order]
    # Either sign is an eigenvector: make the largest entry positive, so that pictures do not flip.
    largest = np.abs(directions).argmax(axis=0)
    signs = np.where(directions[largest, np.arange(len(largest))] < 0, -1.0, 1.0)
    return variances, directions * signs


def find_plane(
    points: np.ndarray, column_names: Sequence[str] | None = None, *, per_feature: bool = False
) -> Plane:
    """Return the plane to draw points (n, d) on: themselves if d is 2, else two principal components.

    With one feature the second axis is zero everywhere. ``per_feature`` brings the features to one
    scale before their principal components are taken.
    """
    d = points.shape[1]
    if d <= 2:
        names = list(column_names) if column_names is not None else [f"feature {j}" for j in range(d)]
        return Plane(np.zeros(d), np.eye(d, 2), (names[0], names[1] if d == 2 else ""))
    centre = (points / len(points)).sum(axis=0)
    centred = points - centre
    largest = np.abs(centred).max()  # squares of huge values would overflow
    scales = np.full(d, largest if largest > 0 else 1.0)
    if per_feature:
        spreads = scales * (centred / scales).std(axis=0)
        scales = np.where(spreads > 0, spreads, 1.0)
    variances, directions = principal_directions(centred / scales)
    shares = variances / variances.sum() if variances.sum() > 0 else variances
    first, second = (f"principal component {i + 1} ({100 * shares[i]:.0f} % of the variance)" for i in (0, 1))
    axes = directions[:, :2] / scales[:, None] if per_feature else directions[:, :2]
    return Plane(centre, axes, (first, second))


def plane_of(estimator: Any, points: np.ndarray, column_names: Sequence[str] | None = None) -> Plane:
    """Return the plane for the data of an estimator, with the features scaled as it scales them."""
    return find_plane(points, column_names, per_feature=estimator.per_feature_)


def thin_out(labels: np.ndarray, max_points: int, at_least: int = 20) -> np.ndarray:
    """Return the rows to draw, sorted: all, or about ``max_points`` at random with a few of every cluster."""
    if len(labels) <= max_points:
        return np.arange(len(labels))
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    # The rank of a row within its cluster, in random order: the first few are always kept.
    by_cluster = np.argsort(labels[order], kind="stable")
    starts = np.searchsorted(labels[order][by_cluster], labels[order][by_cluster])
    rank = np.empty(len(labels), dtype=np.int64)
    rank[by_cluster] = np.arange(len(labels)) - starts
    keep = rank < at_least
    keep[np.flatnonzero(~keep)[: max(0, max_points - int(keep.sum()))]] = True
    return np.sort(order[keep])


def points_of_fit(estimator: Any, X: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """What an estimator clustered, (n, f), with names: X, or the features that it has made of it by itself.

    An array of numbers without gaps is taken for what was clustered, in any case.
    """
    n_rows, preparation = len(estimator.labels_), getattr(estimator, "preparation_", None)
    numbers = isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and bool(np.isfinite(X).all())
    if preparation is None or numbers:
        return points_of(X, n_rows)
    names = tuple(f"{name} (scaled)" for name in preparation.get_feature_names_out())
    return points_of(preparation.transform(X), n_rows)[0], names


def points_of(X: Any, n_rows: int) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return the values (n, d) of an array or data frame and its column names, if it has any."""
    columns = getattr(X, "columns", None)
    names = None if columns is None else tuple(str(name) for name in columns)
    points = np.asarray(X, dtype=np.float64)
    if points.ndim != 2 or len(points) != n_rows:
        raise InvalidDataError(
            f"X has shape {points.shape} and the estimator was fitted to {n_rows} rows; pass the data of fit."
        )
    return points, names
