"""The arrangements of few clusters that no mixture of blobs describes, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clusterwise.priors.broad import nested, side_by_side

__all__ = ["ARRANGEMENTS", "Arrangement", "draw_arrangement"]


class Arrangement(NamedTuple):
    """How to draw an arrangement, of how many clusters, how often, and how clear it must be."""

    draw: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
    fewest: int
    most: int
    weight: float
    least_clarity: float  # with less it cannot be seen


ARRANGEMENTS: dict[str, Arrangement] = {
    "rings": Arrangement(nested.rings, 2, 5, 1.5, 0.75),
    "shells": Arrangement(nested.shells, 2, 3, 2.0, 0.75),
    "frames": Arrangement(nested.frames, 2, 4, 0.8, 0.75),
    "halo": Arrangement(nested.halo, 2, 6, 1.0, 0.55),
    "target": Arrangement(nested.target, 2, 6, 1.0, 0.65),
    "links": Arrangement(nested.links, 2, 4, 1.0, 0.75),
    "circles": Arrangement(nested.circles, 2, 6, 0.6, 0.65),
    "moons": Arrangement(side_by_side.moons, 2, 5, 1.2, 0.75),
    "spirals": Arrangement(side_by_side.spirals, 2, 5, 1.2, 0.75),
    "stripes": Arrangement(side_by_side.stripes, 2, 8, 1.0, 0.75),
    "chain": Arrangement(side_by_side.chain, 2, 8, 0.8, 0.55),
    "cross": Arrangement(side_by_side.cross, 2, 3, 0.8, 0.65),
    "corners": Arrangement(side_by_side.corners, 2, 4, 0.8, 0.75),
    "letters": Arrangement(side_by_side.letters, 2, 30, 1.0, 0.75),
    "lobes": Arrangement(side_by_side.lobes, 2, 8, 0.6, 0.75),
    "worms": Arrangement(side_by_side.worms, 2, 30, 0.8, 0.75),
}


def draw_arrangement(rng: np.random.Generator, k: int, d: int) -> str | None:
    """Draw the name of an arrangement of k clusters in at least 2 and up to d dimensions, if there is one."""
    flat = {"shells", "links"} if d < 3 else set()
    able = [name for name, what in ARRANGEMENTS.items() if what.fewest <= k <= what.most and name not in flat]
    if not able:
        return None
    ends = np.cumsum([ARRANGEMENTS[name].weight for name in able])
    return able[min(int(np.searchsorted(ends, rng.random() * ends[-1], side="right")), len(able) - 1)]
