"""The one list of amortized methods: a name for each, and how a network is built from its config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from clusterwise.exceptions import RecipeError
from clusterwise.models.act_st import ACTST
from clusterwise.models.base import AmortizedModel
from clusterwise.models.dac import DAC

__all__ = ["MODELS", "make_model"]

MODELS: dict[str, type[AmortizedModel]] = {model.method: model for model in (DAC, ACTST)}


def make_model(method: str, options: Mapping[str, Any]) -> AmortizedModel:
    """Build an untrained network from the name of its method and the options of its config."""
    if method not in MODELS:
        raise RecipeError(f"There is no method {method!r}; the methods are {', '.join(sorted(MODELS))}.")
    model = MODELS[method]
    known = [f.name for f in dataclasses.fields(model.config_class)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise RecipeError(f"{method} has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    return model(model.config_class(**options))
