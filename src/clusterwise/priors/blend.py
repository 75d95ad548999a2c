"""Several priors as one: each data set comes from one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.base import Prior, TaskBatch

__all__ = ["Blend"]


class Blend(Prior):
    """Draws each data set from one of ``parts``, chosen with probabilities proportional to ``shares``."""

    def __init__(self, parts: Sequence[Prior], shares: Sequence[float]) -> None:
        if not parts or any(part.n_features != parts[0].n_features for part in parts):
            raise RecipeError("A blend needs at least one part, and all with the same n_features.")
        if len(shares) != len(parts) or not all(0 < share < float("inf") for share in shares):
            raise RecipeError(f"Each part of a blend needs a share above 0, got {list(shares)}.")
        self.parts = tuple(parts)
        self.shares = np.asarray(shares, dtype=float) / sum(shares)
        self.n_features = parts[0].n_features

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        counts = rng.multinomial(n_sets, self.shares)
        drawn = [part.draw(rng, n, n_points) for part, n in zip(self.parts, counts, strict=True) if n]
        return TaskBatch(
            np.concatenate([batch.points for batch in drawn]),
            np.concatenate([batch.labels for batch in drawn]),
            [components for batch in drawn for components in batch.components],
        )
