"""One weights format: safetensors, with the recipe, the config and the figures in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import RecipeError, WeightsFileError
from clusterwise.models.base import AmortizedModel
from clusterwise.models.registry import make_model

__all__ = ["FORMAT", "Weights", "load_weights", "read_tensors", "save_weights", "write_tensors"]

FORMAT = "clusterwise-weights-1"


@dataclass(frozen=True)
class Weights:
    """A trained network and what its file says about it."""

    name: str
    model: AmortizedModel
    recipe: dict[str, Any]
    facts: dict[str, Any]  # steps done, seconds, validation figures, the range of the training data


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a JSON header, whole or not at all."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {key: json.dumps(value, sort_keys=True) for key, value in header.items()}
    with whole_or_nothing(path) as temporary:
        save_file(contiguous, temporary, metadata)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their JSON header; anything but an intact file gives one clear error."""
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except OSError as error:
        raise WeightsFileError(f"Cannot read {path}: {error.strerror or error}.") from error
    except SafetensorError as error:
        raise WeightsFileError(
            f"{path} is truncated or not a safetensors file ({error}); copy or train it again."
        ) from error
    try:
        return tensors, {key: json.loads(value) for key, value in metadata.items()}
    except json.JSONDecodeError:
        return tensors, {}  # the header of another program


def save_weights(path: str | Path, weights: Weights) -> None:
    """Write a network with its recipe and facts."""
    header = {"format": FORMAT, "name": weights.name, "recipe": weights.recipe, "facts": weights.facts}
    write_tensors(path, weights.model.state_dict(), header)


def load_weights(path: str | Path) -> Weights:
    """Read a network from its file, ready for inference."""
    tensors, header = read_tensors(path)
    if header.get("format") != FORMAT:
        raise WeightsFileError(
            f"{path} is not a clusterwise weights file; `clusterwise train` makes one from a recipe."
        )
    try:
        name, recipe, facts = header["name"], header["recipe"], header["facts"]
        with torch.random.fork_rng(devices=[]):  # building a network draws random numbers
            model = make_model(recipe["method"], recipe["model"])
        model.load_state_dict(tensors)
    except (RecipeError, RuntimeError, KeyError, TypeError) as error:
        raise WeightsFileError(
            f"{path} does not fit this version of clusterwise ({str(error).splitlines()[0]}); train it again."
        ) from error
    model.eval().requires_grad_(False)
    return Weights(name, model, recipe, facts)
