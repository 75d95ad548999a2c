"""The legal domain of what a recipe may set, read from the fields of a dataclass and checked in one place."""

from __future__ import annotations

import dataclasses
import math
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from clusterwise.exceptions import RecipeError

__all__ = ["check_options"]


def check_options(options: Any, where: str) -> None:
    """Raise a RecipeError that names the first field outside its domain, and ``where`` it is.

    The type of a field is its domain: words, text, true or false, positive numbers, lists of them, or None
    where the type allows it. ``least`` in its metadata is another bound, which is in the domain itself.
    """
    hints = get_type_hints(type(options))
    for field in dataclasses.fields(options):
        value, kinds = getattr(options, field.name), [hints[field.name]]
        if NoneType in get_args(kinds[0]):
            kinds = list(get_args(kinds[0]))
        domain, is_legal = _judge(value, kinds[0], field.metadata.get("least"))
        if not is_legal and not (value is None and NoneType in kinds):
            raise RecipeError(f"{field.name} {where} must be {domain}, got {value!r}.")


def _judge(value: Any, kind: Any, least: int | None) -> tuple[str, bool]:
    """Say what a value of this kind must be, and whether it is."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}", value in get_args(kind)
    if get_origin(kind) is tuple:
        of_each = get_args(kind)[0]
        number = "whole number" if of_each is int else "number"
        several = isinstance(value, tuple) and len(value) > 0
        return f"a list of positive {number}s", several and all(_judge(v, of_each, least)[1] for v in value)
    if kind is str:
        return "text", isinstance(value, str) and value != ""
    if kind is bool:
        return "true or false", isinstance(value, bool)
    number = "whole number" if kind is int else "number"
    domain = f"a positive {number}" if least is None else f"a {number} of at least {least}"
    if isinstance(value, bool) or not isinstance(value, Integral if kind is int else Real):
        return domain, False
    size = float(value)
    return domain, math.isfinite(size) and (size > 0 if least is None else size >= least)
