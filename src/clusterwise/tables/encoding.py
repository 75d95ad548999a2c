"""One column as features of about unit spread: numbers, categories, dates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.tables.columns import Column
from clusterwise.tables.curves import Curve, choose_curve, deviation_of, spread_of
from clusterwise.tables.levels import GAP, Levels, fit_levels, step_of

__all__ = ["Cycles", "Encoding", "Number", "fit_encoding"]

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


Encoding = Number | Levels | Cycles


def fit_encoding(column: Column, dates: Literal["number", "cycle"]) -> Encoding:
    """How a column that is not constant becomes features."""
    if column.kind == "words":
        return fit_levels(column.values)
    values = column.values[~column.missing]
    if column.kind == "date" and dates == "cycle":
        has_hours = bool((values != np.floor(values)).any())
        return Cycles(tuple(CYCLES)[0 if has_hours else 1 :])
    step = step_of(values)
    if step is None:
        curve = Curve() if column.kind == "date" else choose_curve(values)[0]
        on_scale = curve.apply(values)
        return Number(curve, float(np.median(on_scale)), spread_of(on_scale), 0.0)
    noise = step / GAP
    # In units of the spread with the noise in it; quantiles of few values jump from one to the next.
    total = float(np.hypot(deviation_of(values), noise))
    return Number(Curve(), float(values.mean()), total, noise / total)
