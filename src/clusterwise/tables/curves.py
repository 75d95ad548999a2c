"""Columns on a scale on which they are easier to describe: as they are, their cube roots, or logarithms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

__all__ = ["Curve", "choose_curve", "deviation_of", "spread_of"]

# Quantiles that stand for a column: the same whatever the order of the rows, and few.
N_QUANTILES = 256
# Columns whose upper part is not longer than the lower one by this much are left as they are.
MIN_SKEW = 0.2
# A column with more zeros than this is a mixture of something and nothing, not a skewed one.
MAX_ZEROS = 0.2
# Where values differ by less than this factor (95th to 5th percentile), all scales are nearly the same.
MIN_RATIO = 3.0
# Cube roots must be better than logarithms by this many nats: quantities that span orders of magnitude mostly
# grow and shrink by factors.
MIN_GAIN_OF_ROOTS = 5.0
MAX_COMPONENTS = 4
EM_STEPS = 40
# Ranges between quantiles, in standard deviations of a Gaussian.
RANGES = ((0.25, 0.75, 1.3490), (0.10, 0.90, 2.5631), (0.05, 0.95, 3.2897))


@dataclass(frozen=True)
class Curve:
    """x -> x, the cube root of x, or log(x + offset), for x >= 0; all follow the units of x."""

    shape: Literal["line", "root", "log"] = "line"
    offset: float = 0.0

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Values (n,) on the new scale; new values below the range of ``fit`` count as its end."""
        if self.shape == "line":
            return values
        if self.shape == "root":
            return np.cbrt(values)
        floor = np.finfo(np.float64).tiny
        return np.log(np.maximum(values + self.offset, floor))

    def log_slope(self, values: np.ndarray) -> np.ndarray:
        """Log of the derivative at values (n,) > 0."""
        if self.shape == "line":
            return np.zeros(len(values))
        if self.shape == "root":
            return -np.log(3.0) - 2 / 3 * np.log(values)
        return -np.log(values + self.offset)


def spread_of(values: np.ndarray) -> float:
    """Spread of values (n,) that a few outlying ones do not move: that of a Gaussian is its deviation.

    The mean of three ranges between quantiles; where nearly all values are the same it is their standard
    deviation, and for a constant one.
    """
    edges = np.quantile(values, [edge for lower, upper, _ in RANGES for edge in (lower, upper)])
    spread = float(np.mean((edges[1::2] - edges[::2]) / [unit for *_, unit in RANGES]))
    if spread > 0:
        return spread
    deviation = deviation_of(values)
    return deviation if deviation > 0 else 1.0


def deviation_of(values: np.ndarray) -> float:
    """Standard deviation of values (n,), however large they are."""
    top = np.abs(values).max()
    return float(top * np.std(values / top)) if top > 0 else 0.0


def choose_curve(values: np.ndarray) -> tuple[Curve, float]:
    """The scale on which a mixture of few Gaussians describes values (n,) best, and by how many nats.

    Only columns without negative values that reach farther up than down are looked at. A mixture, not one
    Gaussian: clusters make a column skewed that is well described as it is.
    """
    if values.min() < 0 or values.max() <= 0:
        return Curve(), 0.0
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    if high < MIN_RATIO * low or (high + low - 2 * middle) < MIN_SKEW * (high - low) or high <= low:
        return Curve(), 0.0
    positive = values[values > 0]
    if len(positive) < (1 - MAX_ZEROS) * len(values):
        return Curve(), 0.0
    least = float(positive.min())
    n, m = len(values), min(len(values), N_QUANTILES)
    points = np.maximum(np.quantile(values, (np.arange(m) + 0.5) / m), least)
    curves = (Curve(), Curve("log", least if len(positive) < n else 0.0), Curve("root"))
    scores = [n * curve.log_slope(points).mean() + _best_score(curve.apply(points), n) for curve in curves]
    scores[2] -= MIN_GAIN_OF_ROOTS
    best = int(np.argmax(scores))
    return curves[best], float(scores[best] - scores[0])


def _best_score(points: np.ndarray, n: int) -> float:
    """Largest BIC in nats of mixtures of 1 to 4 Gaussians, for n values with quantiles ``points`` (m,)."""
    return max(_score(points, n, k) for k in range(1, MAX_COMPONENTS + 1) if 4 * k <= len(points) or k == 1)


def _score(points: np.ndarray, n: int, k: int) -> float:
    m = len(points)
    floor = max(1e-6 * points.var(), np.finfo(np.float64).tiny)  # components may not shrink to a point
    labels = np.minimum(np.arange(m) * k // m, k - 1)  # points are sorted
    weights = (labels == np.arange(k)[:, None]).astype(np.float64)  # (k, m)
    mean_log = -np.inf
    for _ in range(1 if k == 1 else EM_STEPS):
        counts = weights.sum(axis=1) + 1e-9
        means = weights @ points / counts
        squares = np.square(points - means[:, None])
        variances = (weights * squares).sum(axis=1) / counts + floor
        logs = np.log(counts / m)[:, None] - 0.5 * (
            np.log(2 * np.pi * variances)[:, None] + squares / variances[:, None]
        )
        top = logs.max(axis=0)
        weights = np.exp(logs - top)
        total = weights.sum(axis=0)
        weights /= total
        mean_log = float((np.log(total) + top).mean())
    return n * mean_log - 0.5 * (3 * k - 1) * float(np.log(n))
