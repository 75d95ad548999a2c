"""One column as features of about unit spread: numbers on a scale, categories, dates.

Numbers that span orders of magnitude are easier to describe by logarithms or cube roots (``Transform``).

Values that repeat exactly are poison for mixtures of densities: every value becomes a cluster of its own.
Each level of a category, and of a number with few values, therefore becomes a small Gaussian cloud around
its place. That of one or two such columns is wide enough that levels that have nothing to do with the
clusters look like one cloud: neighbours lie ``GAP`` standard deviations apart. Two equal parts so close
differ from one Gaussian by about 0.001 nats a row (excess kurtosis squared / 48). Many columns share this
noise. What is added to a row is a function of that row alone: equal rows stay equal, and can be shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import ndtri

from clusterwise.tables.columns import Column

__all__ = [
    "Cycles",
    "Encoding",
    "Jitter",
    "Levels",
    "Number",
    "Transform",
    "choose_transform",
    "fit_encoding",
    "fit_encodings",
    "spread_of",
]

# -- the scale of a number --------------------------------------------------------------------------

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
class Transform:
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
    deviation = _deviation(values)
    return deviation if deviation > 0 else 1.0


def _deviation(values: np.ndarray) -> float:
    """Standard deviation of values (n,), however large they are."""
    top = np.abs(values).max()
    return float(top * np.std(values / top)) if top > 0 else 0.0


def choose_transform(values: np.ndarray) -> tuple[Transform, float]:
    """The scale on which a mixture of few Gaussians describes values (n,) best, and by how many nats.

    Only columns without negative values that reach farther up than down are looked at. A mixture, not one
    Gaussian: clusters make a column skewed that is well described as it is.
    """
    if values.min() < 0 or values.max() <= 0:
        return Transform(), 0.0
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    if high < MIN_RATIO * low or (high + low - 2 * middle) < MIN_SKEW * (high - low) or high <= low:
        return Transform(), 0.0
    positive = values[values > 0]
    if len(positive) < (1 - MAX_ZEROS) * len(values):
        return Transform(), 0.0
    least = float(positive.min())
    n, m = len(values), min(len(values), N_QUANTILES)
    points = np.maximum(np.quantile(values, (np.arange(m) + 0.5) / m), least)
    scales = (Transform(), Transform("log", least if len(positive) < n else 0.0), Transform("root"))
    scores = [n * scale.log_slope(points).mean() + _best_score(scale.apply(points), n) for scale in scales]
    scores[2] -= MIN_GAIN_OF_ROOTS
    best = int(np.argmax(scores))
    return scales[best], float(scores[best] - scores[0])


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


# -- categories, and what spreads their levels ------------------------------------------------------

GAP = 1.5
# Columns that have all of this noise; more of them share it.
NOISY_COLUMNS = 2
# A number with no more different values than this, each in ten rows on average, counts as levels.
MAX_STEPS = 12
ROWS_PER_LEVEL = 10
# Categories keep their most frequent levels; the others are one level together.
MAX_KEPT = 8
# One unit of a feature goes this often around the circle that the noise is read from.
TURNS = (1000.0, 2000.0)
ROWS_AT_ONCE = 1024  # their noise fits into a processor's cache
# Of more values than this few angles are made first.
MAX_INPUTS, N_ANGLES = 32, 4


@dataclass(frozen=True)
class Jitter:
    """Standard normal numbers that are functions of a row's own values."""

    turns: np.ndarray  # (m, q); of many values (m, r), and (r, q) for what these make
    more_turns: np.ndarray | None = None

    @classmethod
    def of(cls, n_inputs: int, n_outputs: int) -> Jitter:
        """For rows of ``n_inputs`` values, ``n_outputs`` numbers each."""
        rng = np.random.default_rng(0)
        if n_inputs <= MAX_INPUTS:
            return cls(rng.uniform(*TURNS, (n_inputs, n_outputs)))
        # By way of a few angles: the cost is that of the columns, not of their square.
        return cls(rng.uniform(*TURNS, (n_inputs, N_ANGLES)), rng.uniform(*TURNS, (N_ANGLES, n_outputs)))

    @property
    def n_outputs(self) -> int:
        """Number q of numbers for each row."""
        return (self.turns if self.more_turns is None else self.more_turns).shape[1]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Numbers (n, q) for rows (n, m); missing values count as zero."""
        angles = _angles(np.nan_to_num(rows), self.turns)
        if self.more_turns is not None:
            angles = _angles(angles, self.more_turns)
        return np.asarray(ndtri(np.clip(angles, 1e-9, 1 - 1e-9)))


def _angles(rows: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Where on the circle rows (n, m) come to by their turns (m, q), (n, q) in [0, 1)."""
    angles = np.zeros((len(rows), turns.shape[1]))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        # One column after the other, no matrix product: a row's numbers must not depend on the others.
        for column, of_column in zip(rows[part].T, turns, strict=True):
            angles[part] += column[:, None] * of_column
    angles -= np.floor(angles)
    return angles


def _step(values: np.ndarray) -> float | None:
    """Smallest distance between different values if there are few of them, else None; values (n,)."""
    if len(np.unique(values[: 4 * MAX_STEPS])) > MAX_STEPS:
        return None
    distinct = np.unique(values)
    if len(distinct) > MAX_STEPS or len(distinct) < 2 or len(values) < ROWS_PER_LEVEL * len(distinct):
        return None
    return float(np.diff(distinct).min())


@dataclass(frozen=True)
class Levels:
    """A category: places of its levels at equal distances, scaled to weigh like one numeric column."""

    kept: tuple[str, ...]  # levels with a place of their own
    has_others: bool  # whether a further place is for all other levels
    shift: np.ndarray  # (f,)
    scale: float
    noise: float = 1.0  # standard deviation of what is added, in units of that of the places

    @property
    def n_places(self) -> int:
        """Number of places k."""
        return len(self.kept) + self.has_others

    @property
    def names(self) -> tuple[str, ...]:
        """Endings of the names of the features."""
        if self.n_places == 2:
            return ("",)
        return (*(f"={name}" for name in self.kept), *(["=other"] * self.has_others))

    @property
    def n_noise(self) -> int:
        """Numbers of noise that each row needs, one for each feature f: one for two places, else k."""
        return len(self.names)

    def clean(self, column: Column) -> np.ndarray:
        """Place of each word, (n, 1); NaN for missing, and for unknown words without a place for others."""
        code_of: dict[str | None, float] = {name: float(code) for code, name in enumerate(self.kept)}
        code_of[None] = np.nan
        other = float(len(self.kept)) if self.has_others else np.nan
        return np.array([[code_of.get(word, other)] for word in _words_of(column)])

    def finish(self, clean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Features (n, f) of places (n, 1) with standard normal noise (n, f)."""
        if self.n_places == 2:
            corners = GAP * clean
        else:  # of a simplex whose edges have length GAP
            corners = GAP / np.sqrt(2) * (clean == np.arange(self.n_places))
            corners[np.isnan(clean[:, 0])] = np.nan
        return np.asarray((corners + self.noise * noise - self.shift) / self.scale)

    def with_noise(self, share: float) -> Levels:
        """The same with this share of its noise."""
        variance = self.scale**2 + (share**2 - 1) * self.noise**2 * self.n_noise
        return replace(self, scale=float(np.sqrt(variance)), noise=share * self.noise)


def _words_of(column: Column) -> np.ndarray | list[str | None]:
    if column.kind == "words":
        return column.values
    return [None if np.isnan(value) else f"{value:g}" for value in column.values]


def _fit_levels(words: np.ndarray) -> Levels:
    """Find the levels of words (n,), the most frequent first; at least two must occur."""
    present, counts = np.unique([word for word in words if word is not None], return_counts=True)
    order = np.lexsort((present, -counts))
    has_others = len(present) > MAX_KEPT
    kept = order[: MAX_KEPT - 1] if has_others else order
    shares = counts[kept] / counts.sum()
    if has_others:
        shares = np.append(shares, 1 - shares.sum())
    k = len(shares)
    if k == 2:
        shift, variance = np.array([GAP * shares[1]]), GAP**2 * shares[0] * shares[1] + 1
    else:
        # Noise has k directions, of which the places use k - 1; the variance of all together is to be one.
        shift, variance = GAP / np.sqrt(2) * shares, GAP**2 / 2 * (1 - np.square(shares).sum()) + k
    return Levels(tuple(present[kept].tolist()), has_others, shift, float(np.sqrt(variance)))


# -- a column of any kind ---------------------------------------------------------------------------

DAYS_PER_YEAR = 365.2425
CYCLES = {"time of day": 1.0, "day of week": 7.0, "day of year": DAYS_PER_YEAR}


@dataclass(frozen=True)
class Number:
    """A numeric column: on its scale, without its median, in units of its spread."""

    transform: Transform
    shift: float
    scale: float
    noise: float  # standard deviation of what is added, in the same units; 0 for columns of many values

    names: tuple[str, ...] = ("",)

    @property
    def n_noise(self) -> int:
        """Numbers of noise that each row needs."""
        return int(self.noise > 0)

    def clean(self, column: Column) -> np.ndarray:
        """The value (n, 1) without noise."""
        return ((self.transform.apply(column.values) - self.shift) / self.scale)[:, None]

    def finish(self, clean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Features (n, 1) from clean values and standard normal noise (n, n_noise)."""
        return clean + self.noise * noise if self.noise else clean

    def with_noise(self, share: float) -> Number:
        """The same with this share of its noise."""
        widened = float(np.sqrt(1 + (share**2 - 1) * self.noise**2))  # 1 is the variance with the noise
        return replace(self, scale=self.scale * widened, noise=share * self.noise / widened)


@dataclass(frozen=True)
class Cycles:
    """A date as points on circles; all circles together weigh like one numeric column."""

    periods: tuple[str, ...]
    n_noise: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Two for each circle."""
        return tuple(f", {part} of {period}" for period in self.periods for part in ("cosine", "sine"))

    def clean(self, column: Column) -> np.ndarray:
        """Features (n, 2 circles)."""
        angles = [2 * np.pi * column.values / CYCLES[period] for period in self.periods]
        waves = [wave(angle) for angle in angles for wave in (np.cos, np.sin)]
        return np.column_stack(waves) / np.sqrt(len(self.periods))

    def finish(self, clean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """The same."""
        return clean

    def with_noise(self, share: float) -> Cycles:
        """The same: there is none."""
        return self


Encoding = Number | Levels | Cycles


def fit_encodings(columns: Sequence[Column], dates: Literal["number", "cycle"]) -> tuple[Encoding, ...]:
    """The encodings of columns that are not constant.

    In a column of few values many rows are the same, and each heap of them would be a cluster: noise spreads
    them. In many such columns heaps are rare, and as much noise in each would hide what they have in common,
    so they share the noise of two.
    """
    found = [fit_encoding(column, dates) for column in columns]
    n_noisy = sum(encoding.n_noise > 0 for encoding in found)
    return tuple(encoding.with_noise(min(1.0, NOISY_COLUMNS / max(n_noisy, 1))) for encoding in found)


def fit_encoding(column: Column, dates: Literal["number", "cycle"]) -> Encoding:
    """The encoding of a column that is not constant."""
    if column.kind == "words":
        return _fit_levels(column.values)
    values = column.values[~column.missing]
    if column.kind == "date" and dates == "cycle":
        has_hours = bool((values != np.floor(values)).any())
        return Cycles(tuple(CYCLES)[0 if has_hours else 1 :])
    step = _step(values)
    if step is None:
        transform = Transform() if column.kind == "date" else choose_transform(values)[0]
        on_scale = transform.apply(values)
        return Number(transform, float(np.median(on_scale)), spread_of(on_scale), 0.0)
    noise = step / GAP
    # In units of the spread with the noise in it; quantiles of few values jump from one to the next.
    total = float(np.hypot(_deviation(values), noise))
    return Number(Transform(), float(values.mean()), total, noise / total)
