"""Rows chosen at random by their number alone: batches of any size give the same choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clusterwise.rows.base import Batch
from clusterwise.rows.rows import stack_rows, take_rows

__all__ = ["Chosen", "choose_rows", "largest_key", "lowest", "random_keys", "stack"]

# More rows pass the first threshold than are wanted, by this many standard deviations.
SPARE = 8.0


def random_keys(rows: np.ndarray, seed: int) -> np.ndarray:
    """Independent uniform keys (n,), uint64, of row numbers (n,): the finalizer of SplitMix64."""
    with np.errstate(over="ignore"):
        keys = rows.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64)
        keys *= np.uint64(0x9E3779B97F4A7C15)
        keys ^= keys >> np.uint64(30)
        keys *= np.uint64(0xBF58476D1CE4E5B9)
        keys ^= keys >> np.uint64(27)
        keys *= np.uint64(0x94D049BB133111EB)
        keys ^= keys >> np.uint64(31)
    return keys


def largest_key(most: int, n: int) -> int:
    """A threshold that a few more than ``most`` of n keys are below."""
    share = (most + SPARE * np.sqrt(most) + SPARE) / max(n, 1)
    return 2**64 - 1 if share >= 1 else int(share * 2**64)


@dataclass(frozen=True)
class Chosen:
    """Rows with their numbers and keys."""

    data: Any  # (m, d) or a table, as the source has them
    rows: np.ndarray  # (m,)
    keys: np.ndarray  # (m,)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: np.ndarray) -> Chosen:
        """Some of the rows, by their places."""
        return Chosen(take_rows(self.data, places), self.rows[places], self.keys[places])


def choose_rows(batch: Batch, places: np.ndarray, keys: np.ndarray) -> Chosen:
    """Rows at ``places`` (m,) of a batch, with their keys (m,)."""
    return Chosen(take_rows(batch.data, places), batch.start + places, keys)


def stack(parts: Sequence[Chosen]) -> Chosen:
    """All of these rows, one part below the other."""
    parts = [part for part in parts if len(part) > 0] or list(parts[:1])
    return Chosen(
        stack_rows([part.data for part in parts]),
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.keys for part in parts]),
    )


def lowest(parts: Sequence[Chosen], most: int) -> Chosen:
    """Of all rows those with the lowest keys, at most this many, in their order."""
    both = stack(parts)
    if len(both) <= most:
        return both
    return both.take(np.sort(np.argsort(both.keys, kind="stable")[:most]))
