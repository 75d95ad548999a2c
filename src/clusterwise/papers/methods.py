"""The one list of amortized methods: a name for each, and how a network is built from its config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from clusterwise.exceptions import RecipeError
from clusterwise.priors.prior import check_options

if TYPE_CHECKING:
    from clusterwise.papers.model import TrainedModel

__all__ = ["JUDGES", "MODELS", "make_model", "model_class"]

# Where the network of each method is; its module is loaded when the method is asked for.
MODELS: dict[str, tuple[str, str]] = {
    "amcp": ("clusterwise.papers.amcp.network", "AMCPNetwork"),
    "chigac": ("clusterwise.papers.chigac.chigac", "CHiGacNetwork"),
    "dac": ("clusterwise.papers.dac.dac", "DACNetwork"),
    "act-st": ("clusterwise.papers.act_st", "ACTSTNetwork"),
    "ncp": ("clusterwise.papers.ncp", "NCPNetwork"),
    "node-judge": ("clusterwise.training.node_judge", "NodeJudge"),
    "partition-judge": ("clusterwise.training.partition_judge", "PartitionJudge"),
}

# Nothing that an option counts is more, and no network has more parameters.
MAX_OPTION = 10_000
MAX_NUMBERS = 2**27

# Networks that judge proposals, whatever the number of features; they propose nothing themselves.
JUDGES = ("node-judge", "partition-judge")


def model_class(method: str) -> type[TrainedModel]:
    """Load the class of a method's network."""
    if method not in MODELS:
        raise RecipeError(f"There is no method {method!r}; the methods are {', '.join(sorted(MODELS))}.")
    module, name = MODELS[method]
    model: type[TrainedModel] = getattr(import_module(module), name)
    return model


def make_model(
    method: str,
    options: Mapping[str, Any],
    encoder: Mapping[str, Any] | None = None,
    max_numbers: int = MAX_NUMBERS,
) -> TrainedModel:
    """Build an untrained network from the name of its method and the options of its config.

    With options of an ``encoder`` it stands behind one, and takes as many features as come out of that.
    What asks for more than ``max_numbers`` parameters is an error before there are any.
    """
    from clusterwise.papers.model import BoundedNumbers

    with BoundedNumbers(max_numbers):
        return _make_network(method, options) if encoder is None else _make_encoded(method, options, encoder)


def _make_network(method: str, options: Mapping[str, Any]) -> TrainedModel:
    model = model_class(method)
    return cast("TrainedModel", _built(model, model.config_class, options, method))


def _make_encoded(method: str, options: Mapping[str, Any], encoder: Mapping[str, Any]) -> TrainedModel:
    from clusterwise.nn.feature_encoder import EncoderConfig, FeatureEncoder
    from clusterwise.papers.encoded import EncodedModel
    from clusterwise.papers.model import AmortizedModel

    before: FeatureEncoder = _built(FeatureEncoder, EncoderConfig, encoder, "[encoder]")
    network = _make_network(method, {**options, "n_features": before.config.n_out})
    if not isinstance(network, AmortizedModel):
        raise RecipeError(f"{method} takes no [encoder]; it judges the proposals of others.")
    return EncodedModel(before, network)


def _require_modest(config: Any, name: str) -> None:
    """Raise an error if an option counts more than a network has of anything: it would be built for hours."""
    for field in dataclasses.fields(config):
        values = getattr(config, field.name) if field.name != "n_features" else ()  # pixels of an image
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, int) and value > MAX_OPTION:
                raise RecipeError(f"{field.name} of {name} must be at most {MAX_OPTION:,}, got {value!r}.")


def _built(kind: Any, config_class: Any, options: Mapping[str, Any], name: str) -> Any:
    """Check options against the fields of a config, and build what it is of."""
    known = [f.name for f in dataclasses.fields(config_class)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise RecipeError(f"{name} has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    try:
        config = config_class(**{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()})
        check_options(config, f"of {name}")
        _require_modest(config, name)
        return kind(config)
    except RecipeError:
        raise
    except ValueError as error:  # options that do not go together
        raise RecipeError(f"{name} cannot be built: {error}.") from error
