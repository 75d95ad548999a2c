"""Categories, and numbers with few values, as features that a density can describe.

Values that repeat exactly are poison for mixtures of densities: every value becomes a cluster of its own.
Each level therefore becomes a small Gaussian cloud around its place, wide enough that the levels of a column
that has nothing to do with the clusters look like one cloud: neighbours lie ``GAP`` standard deviations
apart. Two equal parts so close differ from one Gaussian by about 0.001 nats a row (excess kurtosis squared /
48). What is added to a row is a function of that row alone: equal rows stay equal, and can be shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from clusterwise.tables.columns import Column

__all__ = ["GAP", "Levels", "RowNoise", "fit_levels", "step_of"]

GAP = 1.5
# A number with no more different values than this, each in ten rows on average, counts as levels.
MAX_STEPS = 12
ROWS_PER_LEVEL = 10
# Categories keep their most frequent levels; the others are one level together.
MAX_KEPT = 8
# One unit of a feature goes this often around the circle that the noise is read from.
TURNS = (1000.0, 2000.0)
ROWS_AT_ONCE = 1024  # their noise fits into a processor's cache


@dataclass(frozen=True)
class RowNoise:
    """Standard normal numbers that are functions of a row's own values."""

    turns: np.ndarray  # (m, q)

    @classmethod
    def of(cls, n_inputs: int, n_outputs: int) -> RowNoise:
        """For rows of ``n_inputs`` values, ``n_outputs`` numbers each."""
        return cls(np.random.default_rng(0).uniform(*TURNS, (n_inputs, n_outputs)))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Numbers (n, q) for rows (n, m); gaps count as zero."""
        rows, angle = np.nan_to_num(rows), np.zeros((len(rows), self.turns.shape[1]))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            # One column after the other, no matrix product: a row's numbers must not depend on the others.
            for column, turns in zip(rows[part].T, self.turns, strict=True):
                angle[part] += column[:, None] * turns
        angle -= np.floor(angle)
        return np.asarray(ndtri(np.clip(angle, 1e-9, 1 - 1e-9)))


def step_of(values: np.ndarray) -> float | None:
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

    @property
    def n_places(self) -> int:
        """Number of places k."""
        return len(self.kept) + self.has_others

    @property
    def names(self) -> tuple[str, ...]:
        """What tells the features of the column apart."""
        if self.n_places == 2:
            return ("",)
        return (*(f"={name}" for name in self.kept), *(["=other"] * self.has_others))

    @property
    def n_noise(self) -> int:
        """Numbers of noise that each row needs, one for each feature f: one for two places, else k."""
        return len(self.names)

    def clean(self, column: Column) -> np.ndarray:
        """Place of each word, (n, 1); NaN for gaps, and for unknown words if there is no place for others."""
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
        return np.asarray((corners + noise - self.shift) / self.scale)


def _words_of(column: Column) -> np.ndarray | list[str | None]:
    if column.kind == "words":
        return column.values
    return [None if np.isnan(value) else f"{value:g}" for value in column.values]


def fit_levels(words: np.ndarray) -> Levels:
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
