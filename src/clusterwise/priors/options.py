"""The legal domain of a prior's options, checked in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from clusterwise.exceptions import RecipeError

__all__ = ["check_options"]


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_options(
    prior: object,
    *,
    counts: Iterable[str] = (),
    positive: Iterable[str] = (),
    non_negative: Iterable[str] = (),
    optional: Iterable[str] = (),
) -> None:
    """Raise a RecipeError if a named field of ``prior`` is outside its domain.

    Each of the first three arguments names fields: whole numbers from 1, finite numbers above 0,
    finite numbers from 0. Fields that are also in ``optional`` may be None.
    """
    domains = (
        (counts, _is_count, "a whole number of at least 1"),
        (positive, lambda value: _is_finite(value) and value > 0, "a finite number above 0"),
        (non_negative, lambda value: _is_finite(value) and value >= 0, "a finite number of at least 0"),
    )
    optional = set(optional)
    for names, is_legal, domain in domains:
        for name in names:
            value = getattr(prior, name)
            if not is_legal(value) and not (value is None and name in optional):
                raise RecipeError(f"{name} of {type(prior).__name__} must be {domain}, but it is {value!r}.")
