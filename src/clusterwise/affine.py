"""The one map between the user's columns and features: z = ((x - shift) / scale) axes, and back.

=============  ===================================================================================
column map     the columns that vary, each in units of its own spread or all in one unit
feature map    at most w features for a network: scaled columns, or their first principal components
=============  ===================================================================================

Each row is mapped on its own: how it is rounded does not depend on the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from sklearn.utils.extmath import randomized_svd

__all__ = [
    "AffineMap",
    "FeatureSpace",
    "fit_column_map",
    "fit_feature_map",
    "fit_scaling",
    "principal_axes",
    "scale_sets",
    "scatter_axes",
]

# Points farther out than this count as lying there: their squared distances must not overflow.
FARTHEST = 1e140
# Exact principal axes cost the cube of the number of features; beyond this many they are approximated.
MAX_FEATURES_FOR_EXACT_AXES = 500
# Eigenvalues below this share of the largest one are rounding.
REACHED = 1e-12
# Rows of a mapped file that are read at a time.
ROWS_AT_ONCE = 65_536


class FeatureSpace(Protocol):
    """Where clusters are: features (n, f) of about unit spread, with the way there and back."""

    @property
    def log_volume(self) -> float:
        """A log density in the units of the data is that of the features minus this."""

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d), each row on its own."""

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, d, d) in the units of the data, from those of features (K, f, f)."""


@dataclass(frozen=True)
class AffineMap:
    """z = ((x[columns] - shift) / scale) axes for points x (n, d), and back."""

    shift: np.ndarray  # (c,)
    scale: np.ndarray  # (c,) positive
    axes: np.ndarray | None = None  # (c, f) orthonormal columns; None: features are the scaled columns
    columns: np.ndarray | None = None  # (c,) numbers of the columns in use; None: all
    constants: np.ndarray | None = None  # (d,) what the other columns hold

    @property
    def n_columns(self) -> int:
        """Number of columns d of the data."""
        return len(self.shift) if self.constants is None else len(self.constants)

    @property
    def n_features(self) -> int:
        """Number of features f."""
        return len(self.shift) if self.axes is None else self.axes.shape[1]

    @property
    def log_volume(self) -> float:
        """Log of the volume element of the inverse; of a projection it is the one on its plane."""
        # A common scale acts on the plane, too; scales of single columns have no single effect there.
        return float(np.log(self.scale).mean() * self.n_features)

    def of_columns(self, values: np.ndarray) -> np.ndarray:
        """Values (..., c) of the columns in use, from those of all columns (..., d)."""
        return values if self.columns is None else values[..., self.columns]

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Features (n, f) of points (n, d)."""
        # Halving first keeps the difference of two huge numbers of opposite sign finite. One new array and
        # no more: where memory is given back to the system at once, as by dask's workers, each costs time.
        features: np.ndarray = np.divide(self.of_columns(points), 2, dtype=np.float64, order="C")
        features -= self.shift / 2
        with np.errstate(over="ignore"):  # a new point may lie as far out as it likes
            features /= self.scale / 2
        np.minimum(np.maximum(features, -FARTHEST, out=features), FARTHEST, out=features)
        if self.axes is None:
            return features
        # No matrix product: it may round a row differently next to other rows.
        return np.stack([(features * axis).sum(axis=1) for axis in self.axes.T], axis=1)

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) with the given features (n, f)."""
        scaled = features if self.axes is None else features @ self.axes.T
        used = scaled * self.scale + self.shift
        if self.constants is None:
            return used
        points = np.repeat(self.constants[None], len(features), axis=0)
        points[:, self.columns] = used
        return points

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, d, d) in the units of the data; zero for columns that are not in use."""
        scaled = of_features if self.axes is None else self.axes @ of_features @ self.axes.T
        # One factor at a time: the square of a scale beyond 1e154 would overflow before its turn.
        used = scaled * self.scale[:, None] * self.scale
        if self.columns is None:
            return used
        result = np.zeros((len(used), self.n_columns, self.n_columns))
        result[:, self.columns[:, None], self.columns] = used
        return result

    def variances(self, given: np.ndarray) -> np.ndarray:
        """Variances (c,) of the scaled columns, from those of all columns (d,) in the units of the data."""
        return np.square(np.sqrt(self.of_columns(given)) / self.scale)

    def centred_at(self, centre: np.ndarray) -> AffineMap:
        """The same map with zero at ``centre`` (d,)."""
        return replace(self, shift=self.of_columns(centre))

    def stretched(self, factors: np.ndarray) -> AffineMap:
        """The same map with each scaled column (c,) multiplied by a factor."""
        return replace(self, scale=self.scale / factors)


def fit_scaling(points: np.ndarray, per_feature: bool = False) -> AffineMap:
    """Map that centres the points (n, d) and brings their root mean square to one.

    One scale for all columns keeps the shape of the data; with ``per_feature`` each has its own.
    Constant data (or columns) keep their scale. Works from 1e-150 to 1e150 without overflow.
    """
    # Each column in a row: sums along long rows are several times quicker than along many short ones. In
    # units of a power of two, which rounds nothing and keeps squares from overflowing.
    columns = np.ascontiguousarray(points.T)  # (d, n)
    reach = np.maximum(columns.max(axis=1), -columns.min(axis=1))
    unit = np.ldexp(1.0, np.minimum(np.maximum(np.frexp(reach)[1], -1000), 1000))  # (d,)
    centred = columns / unit[:, None]
    shift = centred.sum(axis=1) / len(points)
    centred -= shift[:, None]
    # The sum of many values is off by more than the last digit; what is left over corrects it, so
    # that the mean of a constant is that constant.
    left_over = centred.sum(axis=1) / len(points)
    centred -= left_over[:, None]
    # Rounding noise around a constant is not spread: it must not be blown up to unit scale.
    largest = np.maximum(centred.max(axis=1), -centred.min(axis=1))
    varies = largest > 4 * np.finfo(points.dtype).eps * (reach / unit)
    squares = np.square(centred, out=centred).sum(axis=1) / len(points)
    if per_feature:
        scale = np.where(varies, unit * np.sqrt(squares), 1.0)
    else:
        top = unit.max()
        spread = top * np.sqrt((np.square(unit / top) * squares).mean())
        scale = np.full(len(unit), spread if varies.any() else 1.0)
    return AffineMap((shift + left_over) * unit, scale)


def fit_column_map(points: np.ndarray, joint: bool) -> AffineMap:
    """Map to the columns of points (n, d) that vary, at least one; in one unit if ``joint``."""
    if isinstance(points, np.memmap):
        return _fit_column_map_of_file(points, joint)
    each = fit_scaling(points, per_feature=True)
    noise = 4 * np.finfo(points.dtype).eps * np.abs(points).max(axis=0)
    varies = np.abs(points / 2 - each.shift / 2).max(axis=0) > noise / 2
    if varies.all():
        return fit_scaling(points) if joint else each
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    scaling = fit_scaling(points[:, used], per_feature=not joint)
    return replace(scaling, columns=used, constants=points[0].copy())


def _fit_column_map_of_file(points: np.memmap, joint: bool) -> AffineMap:
    """The same from two passes over mapped points (n, d), for more rows than memory."""
    n, d = points.shape
    mean, largest, smallest = np.zeros(d), np.full(d, -np.inf), np.full(d, np.inf)
    for start in range(0, n, ROWS_AT_ONCE):
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        mean += chunk.sum(axis=0) / n
        largest, smallest = np.maximum(largest, chunk.max(axis=0)), np.minimum(smallest, chunk.min(axis=0))
    varies = largest > smallest
    used = np.flatnonzero(varies) if varies.any() else np.zeros(1, dtype=np.int64)
    squares = np.zeros(d)
    for start in range(0, n, ROWS_AT_ONCE):
        chunk = np.asarray(points[start : start + ROWS_AT_ONCE], dtype=np.float64)
        with np.errstate(invalid="ignore"):  # of files with infinities nothing is made
            squares += np.square(chunk - mean).sum(axis=0) / n
    spread = squares[used].mean() if joint else squares[used]
    scale = np.broadcast_to(np.sqrt(np.where(spread > 0, spread, 1.0)), used.shape).copy()
    if varies.all():
        return AffineMap(mean, scale)
    return AffineMap(mean[used], scale, columns=used, constants=np.asarray(points[0], dtype=np.float64))


def fit_feature_map(
    points: np.ndarray, n_features: int, scaling: Literal["joint", "feature"] = "joint"
) -> AffineMap:
    """Map to at most ``n_features`` features, as many as a network takes.

    More columns are projected on their first principal components. Fewer stay what they are; the network sees
    zeros next to them, and with these zeros their root mean square is one.
    """
    d = points.shape[1]
    outer = fit_scaling(points, per_feature=scaling == "feature")
    if d <= n_features:
        return replace(outer, scale=outer.scale * np.sqrt(d / n_features))
    rotated = replace(outer, axes=principal_axes(outer.apply(points), n_features))
    return replace(rotated, scale=outer.scale * fit_scaling(rotated.apply(points)).scale[0])


def scatter_axes(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (r,), ascending, and axes (d, r) of the scatter X' X of centred points X (n, d).

    Of more features than points only the axes that some point reaches, which X X' has, too: n^3 in place of
    d^3 steps.
    """
    n, d = centred.shape
    if d <= n:
        values, axes = np.linalg.eigh(centred.T @ centred)
        return values, axes
    values, vectors = np.linalg.eigh(centred @ centred.T)
    reached = values > REACHED * max(values[-1], 0.0)
    values = values[reached]
    return values, np.asarray(centred.T @ vectors[:, reached] / np.sqrt(values))


def principal_axes(points: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of centred points (n, d), as columns (d, n_axes), with fixed signs.

    Where n < n_axes the axes that no point reaches are zero.
    """
    d = points.shape[1]
    if d <= MAX_FEATURES_FOR_EXACT_AXES:
        _, axes = np.linalg.eigh(points.T @ points / len(points))
        axes = axes[:, ::-1][:, :n_axes]
    else:
        axes = randomized_svd(points, n_axes, n_iter=7, random_state=0)[2].T
        axes = np.pad(axes, ((0, 0), (0, n_axes - axes.shape[1])))
    # Of entries that are equal up to rounding the first decides, not the rounding.
    sizes = np.abs(axes)
    largest = (sizes > (1 - 1e-6) * sizes.max(axis=0)).argmax(axis=0)
    return axes * np.where(axes[largest, np.arange(n_axes)] < 0, -1.0, 1.0)


def scale_sets(points: np.ndarray) -> np.ndarray:
    """Each of B data sets (B, N, d), scaled as ``fit_scaling`` does, all at once."""
    centred = points - points.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=(1, 2), keepdims=True))
    return centred / np.where(spread > 0, spread, 1.0)
