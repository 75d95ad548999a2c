"""The one list of amortized methods: a name for each, and how a network is built from its config."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from clusterwise.exceptions import RecipeError

if TYPE_CHECKING:
    from clusterwise.models.base import AmortizedModel

__all__ = ["MODELS", "make_model", "model_class"]

# Where the network of each method is; its module is loaded when the method is asked for.
MODELS: dict[str, tuple[str, str]] = {
    "amcp": ("clusterwise.models.amcp", "AMCP"),
    "chigac": ("clusterwise.models.chigac", "CHiGac"),
    "dac": ("clusterwise.models.dac", "DAC"),
    "act-st": ("clusterwise.models.act_st", "ACTST"),
    "ncp": ("clusterwise.models.ncp", "NCP"),
}


def model_class(method: str) -> type[AmortizedModel]:
    """Load the class of a method's network."""
    if method not in MODELS:
        raise RecipeError(f"There is no method {method!r}; the methods are {', '.join(sorted(MODELS))}.")
    module, name = MODELS[method]
    model: type[AmortizedModel] = getattr(import_module(module), name)
    return model


def make_model(method: str, options: Mapping[str, Any]) -> AmortizedModel:
    """Build an untrained network from the name of its method and the options of its config."""
    model = model_class(method)
    known = [f.name for f in dataclasses.fields(model.config_class)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise RecipeError(f"{method} has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    config = model.config_class(**options)
    _check_config(method, config)
    try:
        return model(config)
    except ValueError as error:  # options that do not go together
        raise RecipeError(f"{method} cannot be built: {error}.") from error


def _check_config(method: str, config: Any) -> None:
    """Raise a RecipeError that names the first option outside its domain."""
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, hint = getattr(config, field.name), hints[field.name]
        if get_origin(hint) is Literal:
            is_legal, domain = value in get_args(hint), f"one of {', '.join(map(repr, get_args(hint)))}"
        elif hint is bool:
            is_legal, domain = isinstance(value, bool), "true or false"
        elif hint is float:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            is_legal, domain = is_number and 0 < value < math.inf, "a positive number"
        else:
            least = field.metadata.get("least", 1)
            is_legal = isinstance(value, int) and not isinstance(value, bool) and value >= least
            domain = f"a whole number of at least {least}"
        if not is_legal:
            raise RecipeError(f"{field.name} of {method} must be {domain}, got {value!r}.")
