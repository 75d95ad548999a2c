"""One weights format: safetensors, with the recipe, the config and the figures in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import make_model
from clusterwise.papers.model import TrainedModel
from clusterwise.pretrained.lookup import (
    DIGEST,
    FORMAT,
    Weights,
    digest_of,
    fits_this_version,
    read_arrays,
    read_parameters,
)

__all__ = ["in_half_precision", "load_weights", "read_tensors", "save_weights", "write_tensors"]


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a JSON header, whole or not at all; a digest of the tensors goes with them."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    digest = digest_of({name: tensor.numpy() for name, tensor in contiguous.items()})
    metadata = {key: json.dumps(value, sort_keys=True) for key, value in {**header, DIGEST: digest}.items()}
    with whole_or_nothing(path) as temporary:
        save_file(contiguous, temporary, metadata)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their JSON header; anything but an intact file gives one clear error."""
    header, arrays = read_arrays(path)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, header


def in_half_precision(tensor: Tensor) -> Tensor:
    """A float32 tensor rounded to half precision; as it is if one of its numbers is too large for that."""
    rounded = tensor.half().float()
    return rounded if tensor.dtype == torch.float32 and rounded.isfinite().all() else tensor


def save_weights(path: str | Path, weights: Weights) -> None:
    """Write a network with its recipe and facts; tensors take half the space where that loses nothing."""
    header = {"format": FORMAT, "name": weights.name, "recipe": weights.recipe, "facts": weights.facts}
    tensors = weights.model.state_dict()
    halves = {name: tensor.half() for name, tensor in tensors.items() if tensor.dtype == torch.float32}
    exact = {name: half for name, half in halves.items() if torch.equal(half.float(), tensors[name])}
    write_tensors(path, tensors | exact, header)


def _build(recipe: Mapping[str, Any], tensors: Mapping[str, Tensor], seed: int = 0) -> TrainedModel:
    """The network of a recipe, ready for inference; the user's random numbers stay as they are.

    What a header says may be wrong: no more memory is taken than the tensors need.
    """
    n_numbers = sum(tensor.numel() for tensor in tensors.values())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make_model(
            recipe["method"], recipe["model"], recipe.get("encoder"), 2 * n_numbers + 1_000_000
        )
    expected, found = ({k: tuple(v.shape) for k, v in of.items()} for of in (model.state_dict(), tensors))
    for name in sorted(expected.keys() | found.keys()):
        if found.get(name) != expected.get(name):
            raise RecipeError(f"{name} has the shape {found.get(name)}, not {expected.get(name)}")
    return model.eval().requires_grad_(False)


def load_weights(path: str | Path, untrained_seed: int | None = None) -> Weights:
    """Read a network from its file, ready for inference; with a seed, freshly drawn instead of trained.

    Scales that were learned from a training table are never drawn: without them nothing could be compared.
    """
    header, arrays = read_parameters(path)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    name, recipe = header["name"], header["recipe"]
    with fits_this_version(path):
        model = _build(recipe, tensors, untrained_seed or 0)
    if untrained_seed is not None:
        name = f"{name}, untrained, seed {untrained_seed}"
        learned = [buffer for buffer, _ in model.named_buffers()] if "encoder" in recipe else []
        tensors = {buffer: tensors[buffer] for buffer in learned if buffer in tensors}
    model.load_state_dict(tensors, strict=False)
    return Weights(name, model, recipe, header["facts"])
