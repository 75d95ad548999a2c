"""The first stage of ``fit``: rows in an order of their own, scaled, and those that later stages see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.gaussian.sorted_rows import sorted_order

__all__ = ["MOST_CONTEXT", "Prepared", "prepare"]

# Rows that the clusters are fitted to; of more a random part, and all rows are labelled by these clusters.
MOST_CONTEXT = 10_000


@dataclass(frozen=True)
class Prepared:
    """A data set on its way through the stages, its rows in an order that does not depend on the input's."""

    order: np.ndarray  # (n,) rows of the input, sorted by value
    space: FeatureSpace
    features: np.ndarray  # (n, f) scaled features in sorted order
    context: np.ndarray  # (s,) sorted positions that refining sees
    shown: np.ndarray  # (m,) those among them that the proposer sees

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self.order)


def prepare(
    points: np.ndarray,
    fit_space: Callable[[np.ndarray], FeatureSpace],
    max_shown: int | None = None,
    seed: int = 0,
) -> Prepared:
    """Sort points (n, d), bring them to the space of the clusters, and choose the rows that stages see.

    ``fit_space`` gets the sorted points; at most ``max_shown`` of them are shown to the proposer, all of the
    context if None.
    """
    # Sorted rows make everything that follows, rounding included, independent of the input's order.
    order = sorted_order(points)
    points = points[order]
    space = fit_space(points)
    context = _context(len(points), max(MOST_CONTEXT, max_shown or 0), seed)
    shown = context
    if max_shown is not None and len(context) > max_shown:
        shown = context[_one_of_each_stretch(len(context), max_shown)]
    return Prepared(order, space, space.apply(points), context, shown)


def _context(n: int, most: int, seed: int) -> np.ndarray:
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


@lru_cache(maxsize=4)  # setting up a generator takes longer than the choice
def _one_of_each_stretch(n: int, m: int) -> np.ndarray:
    """Choose m < n positions, one in each of m stretches of equal length; the same for the same n."""
    edges = np.arange(m + 1) * n // m
    # At random within a stretch: a fixed step could fall in with a pattern of the sorted rows.
    within = np.random.default_rng(n).random(m)
    return edges[:-1] + (within * np.diff(edges)).astype(np.int64)
