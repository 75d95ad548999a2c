"""What networks train on: distributions over labelled data sets that know their own truth.

Recipes name priors as ``PRIORS`` does, or blend several of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.mixtures import (
    ChineseRestaurantMixture,
    CorrelatedGaussians,
    GaussianComponents,
    MixtureOfGaussians,
)
from clusterwise.priors.prior import Components, LabelledSet, Prior, TaskBatch
from clusterwise.priors.warped import WarpedComponents, WarpedGaussians

__all__ = [
    "PRIORS",
    "Blend",
    "ChineseRestaurantMixture",
    "Components",
    "CorrelatedGaussians",
    "GaussianComponents",
    "LabelledSet",
    "MixtureOfGaussians",
    "Prior",
    "TaskBatch",
    "WarpedComponents",
    "WarpedGaussians",
    "make_prior",
]

PRIORS: dict[str, type[Prior]] = {
    "mixture-of-gaussians": MixtureOfGaussians,
    "crp-mixture": ChineseRestaurantMixture,
    "correlated-gaussians": CorrelatedGaussians,
    "warped-gaussians": WarpedGaussians,
}


class Blend(Prior):
    """Draws each data set from one of ``parts``, chosen with probabilities proportional to ``shares``."""

    def __init__(self, parts: Sequence[Prior], shares: Sequence[float]) -> None:
        if not parts or any(part.n_features != parts[0].n_features for part in parts):
            raise RecipeError("A blend needs at least one part, and all with the same n_features.")
        if not all(isinstance(share, int | float) and 0 < share < float("inf") for share in shares):
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


def _make_blend(n_features: int = 2, parts: Any = ()) -> Blend:
    """Build a blend from tables that each name a prior, its ``share`` and its options."""
    if not isinstance(parts, list | tuple) or not all(isinstance(p, dict) and "name" in p for p in parts):
        raise RecipeError("parts of a blend must be a list of tables, each with the name of a prior.")
    own = [{"n_features": n_features, **part} for part in parts]
    shares = [part.pop("share", 1.0) for part in own]
    return Blend([make_prior(**part) for part in own], shares)


def make_prior(name: str, **options: Any) -> Prior:
    """Build the prior ``name``; ``options`` are fields of its class.

    The name "blend" takes ``parts``, a list of tables with a name, options and a ``share`` each.

    >>> make_prior("mixture-of-gaussians", k_max=6).k_max
    6
    """
    if name != "blend" and name not in PRIORS:
        names = ", ".join(sorted([*PRIORS, "blend"]))
        raise RecipeError(f"There is no prior {name!r}: choose one of {names}.")
    known = {"n_features", "parts"} if name == "blend" else {f.name for f in fields(PRIORS[name])}  # type: ignore[arg-type]
    unknown = options.keys() - known
    if unknown:
        raise RecipeError(
            f"The prior {name!r} has no option {', '.join(sorted(unknown))}: "
            f"it takes {', '.join(sorted(known))}."
        )
    return _make_blend(**options) if name == "blend" else PRIORS[name](**options)
