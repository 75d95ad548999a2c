"""Scaling of the user's arrays, and checks of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.exceptions import InvalidDataError

__all__ = ["Scaling", "fit_scaling", "require_finite", "scale_sets"]


@dataclass(frozen=True)
class Scaling:
    """x -> (x - shift) / scale, with ``shift`` (d,) and ``scale`` (d,), both finite and scale > 0."""

    shift: np.ndarray
    scale: np.ndarray

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Scale points (n, d) to the units of the network."""
        # Halving first keeps the difference of two huge numbers of opposite sign finite. One new array and
        # no more: where memory is given back to the system at once, as by dask's workers, each costs time.
        result = np.divide(points, 2, dtype=np.float64, order="C")
        result -= self.shift / 2
        result /= self.scale / 2
        return result

    def undo(self, points: np.ndarray) -> np.ndarray:
        """Bring points (n, d) from the units of the network back to those of the data."""
        return points * self.scale + self.shift

    @property
    def log_volume(self) -> float:
        """Log of the volume element: a log density in data units is the scaled one minus this."""
        return float(np.log(self.scale).sum())


def fit_scaling(points: np.ndarray, per_feature: bool = False) -> Scaling:
    """Centre the points and bring their root mean square to one.

    One scale for all features keeps the shape of the data; with ``per_feature`` each has its own.
    Constant data (or features) keep their scale. Works from 1e-150 to 1e150 without overflow.
    """
    # Each feature in a row: sums along long rows are several times quicker than along many short ones. In
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
    return Scaling((shift + left_over) * unit, scale)


def scale_sets(points: np.ndarray) -> np.ndarray:
    """Scale each of B data sets (B, N, d) as ``fit_scaling`` does, all at once."""
    centred = points - points.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(centred).mean(axis=(1, 2), keepdims=True))
    return centred / np.where(spread > 0, spread, 1.0)


def require_finite(points: np.ndarray, name: str = "X") -> None:
    """Raise an error that names rows and columns if there is a NaN or an infinity."""
    finite = np.isfinite(points)
    if finite.all():
        return
    bad = ~finite
    rows, columns = np.nonzero(bad)
    kind = "NaN" if np.isnan(points[bad]).any() else "infinity"
    places = ", ".join(f"row {r} column {c}" for r, c in list(zip(rows, columns, strict=True))[:5])
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    raise InvalidDataError(
        f"Input {name} contains {kind} at {places}{more}; drop these rows or fill the values in first."
    )
