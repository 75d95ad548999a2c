"""The one list of amortized methods: a name for each, and how a network is built from its config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from clusterwise.exceptions import RecipeError
from clusterwise.priors.options import check_options

if TYPE_CHECKING:
    from clusterwise.models.base import TrainedModel

__all__ = ["JUDGES", "MODELS", "make_model", "model_class"]

# Where the network of each method is; its module is loaded when the method is asked for.
MODELS: dict[str, tuple[str, str]] = {
    "amcp": ("clusterwise.models.amcp", "AMCP"),
    "chigac": ("clusterwise.models.chigac", "CHiGac"),
    "dac": ("clusterwise.models.dac", "DAC"),
    "act-st": ("clusterwise.models.act_st", "ACTST"),
    "ncp": ("clusterwise.models.ncp", "NCP"),
    "node-judge": ("clusterwise.models.node_judge", "NodeJudge"),
    "partition-judge": ("clusterwise.models.partition_judge", "PartitionJudge"),
}

# Networks that judge proposals, whatever the number of features; they propose nothing themselves.
JUDGES = ("node-judge", "partition-judge")


def model_class(method: str) -> type[TrainedModel]:
    """Load the class of a method's network."""
    if method not in MODELS:
        raise RecipeError(f"There is no method {method!r}; the methods are {', '.join(sorted(MODELS))}.")
    module, name = MODELS[method]
    model: type[TrainedModel] = getattr(import_module(module), name)
    return model


def make_model(method: str, options: Mapping[str, Any]) -> TrainedModel:
    """Build an untrained network from the name of its method and the options of its config."""
    model = model_class(method)
    known = [f.name for f in dataclasses.fields(model.config_class)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise RecipeError(f"{method} has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    config = model.config_class(**options)
    check_options(config, f"of {method}")
    try:
        return model(config)
    except ValueError as error:  # options that do not go together
        raise RecipeError(f"{method} cannot be built: {error}.") from error
