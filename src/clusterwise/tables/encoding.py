"""One column as features of about unit spread: numbers, categories, dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.tables.columns import Column
from clusterwise.tables.levels import GAP, Levels, fit_levels, step_of
from clusterwise.tables.symmetry import Curve, choose_curve, spread_of

__all__ = ["Cycles", "Encoding", "Number", "Words", "fit_encoding"]

DAYS_PER_YEAR = 365.2425
CYCLES = {"time of day": 1.0, "day of week": 7.0, "day of year": DAYS_PER_YEAR}


@dataclass(frozen=True)
class Number:
    """A numeric column: on its scale, without its median, in units of its spread."""

    curve: Curve
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
        return ((self.curve.apply(column.values) - self.shift) / self.scale)[:, None]

    def finish(self, clean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Features (n, 1) from clean values and standard normal noise (n, n_noise)."""
        return clean + self.noise * noise if self.noise else clean


@dataclass(frozen=True)
class Words:
    """A category."""

    levels: Levels

    @property
    def names(self) -> tuple[str, ...]:
        """What tells the features of the column apart."""
        if self.levels.n_features == 1:
            return ("",)
        return (*(f"={name}" for name in self.levels.names), *(["=other"] * self.levels.has_others))

    @property
    def n_noise(self) -> int:
        """Numbers of noise that each row needs."""
        return self.levels.n_features

    def clean(self, column: Column) -> np.ndarray:
        """The number of the level, (n, 1)."""
        words = column.values if column.kind == "words" else _as_words(column.values)
        return self.levels.codes(words)[:, None]

    def finish(self, clean: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Features (n, f) from level numbers and standard normal noise (n, f)."""
        return self.levels.apply(clean[:, 0], noise)


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


Encoding = Number | Words | Cycles


def _as_words(values: np.ndarray) -> np.ndarray:
    words = np.empty(len(values), dtype=object)
    words[:] = [None if np.isnan(value) else f"{value:g}" for value in values]
    return words


def fit_encoding(column: Column, dates: Literal["number", "cycle"]) -> Encoding:
    """Learn how a column that is not constant becomes features."""
    if column.kind == "words":
        return Words(fit_levels(column.values))
    values = column.values[~column.missing]
    if column.kind == "date" and dates == "cycle":
        has_hours = bool((values != np.floor(values)).any())
        return Cycles(tuple(CYCLES)[0 if has_hours else 1 :])
    step = step_of(values)
    curve = Curve() if step is not None or column.kind == "date" else choose_curve(values)
    on_scale = curve.apply(values)
    shift, scale = float(np.median(on_scale)), spread_of(on_scale)
    if step is None:
        return Number(curve, shift, scale, 0.0)
    noise = step / GAP
    # In units of the spread with the noise in it; quantiles of few values jump from one to the next.
    total = float(np.hypot(_deviation(values), noise))
    return Number(curve, float(values.mean()), total, noise / total)


def _deviation(values: np.ndarray) -> float:
    top = np.abs(values).max()
    return float(top * np.std(values / top)) if top > 0 else 0.0
