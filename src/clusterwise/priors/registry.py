"""The priors by the names that recipes use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from clusterwise.exceptions import RecipeError
from clusterwise.priors.base import Prior
from clusterwise.priors.crp import ChineseRestaurantMixture
from clusterwise.priors.gaussians import MixtureOfGaussians
from clusterwise.priors.warped import WarpedGaussians

__all__ = ["PRIORS", "make_prior"]

PRIORS: dict[str, type[Prior]] = {
    "mixture-of-gaussians": MixtureOfGaussians,
    "crp-mixture": ChineseRestaurantMixture,
    "warped-gaussians": WarpedGaussians,
}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def make_prior(name: str, **options: Any) -> Prior:
    """Build the prior ``name``; ``options`` are fields of its class.

    >>> make_prior("mixture-of-gaussians", k_max=6).k_max
    6
    """
    if name not in PRIORS:
        raise RecipeError(f"There is no prior {name!r}: choose one of {_listed(PRIORS)}.")
    prior_class = PRIORS[name]
    known = {field.name for field in fields(prior_class)}  # type: ignore[arg-type]
    unknown = options.keys() - known
    if unknown:
        raise RecipeError(f"The prior {name!r} has no option {_listed(unknown)}: it takes {_listed(known)}.")
    return prior_class(**options)
