"""One weights format: safetensors, with the recipe, the config and the figures in its header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import WeightsFileError
from clusterwise.papers.model import TrainedModel
from clusterwise.papers.registry import make_model
from clusterwise.pretrained.header import (
    FORMAT,
    Header,
    Weights,
    fits_this_version,
    parse_metadata,
    read_header,
    readable,
)

__all__ = ["load_untrained", "load_weights", "read_tensors", "save_weights", "write_tensors"]


DIGEST = "digest"  # the entry of the header that a file's tensors are checked by


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a JSON header, whole or not at all; a digest of the tensors goes with them."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    entries = {**header, DIGEST: _digest(contiguous)}
    metadata = {key: json.dumps(value, sort_keys=True) for key, value in entries.items()}
    with whole_or_nothing(path) as temporary:
        save_file(contiguous, temporary, metadata)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and their JSON header; anything but an intact file gives one clear error."""
    with readable(path), safe_open(str(path), framework="pt") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    header = parse_metadata(metadata)
    digest = header.pop(DIGEST, None)  # files of earlier versions have none
    if digest is not None and digest != _digest(tensors):
        raise WeightsFileError(
            f"{path} is damaged: its numbers are not those that were written; copy it again."
        )
    return tensors, header


def save_weights(path: str | Path, weights: Weights) -> None:
    """Write a network with its recipe and facts."""
    header = {"format": FORMAT, "name": weights.name, "recipe": weights.recipe, "facts": weights.facts}
    write_tensors(path, weights.model.state_dict(), header)


def _build(recipe: Mapping[str, Any], seed: int = 0) -> TrainedModel:
    """Build the network of a recipe, ready for inference; the user's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make_model(recipe["method"], recipe["model"], recipe.get("encoder"))
    return model.eval().requires_grad_(False)


def load_weights(path: str | Path) -> Weights:
    """Read a network from its file, ready for inference."""
    tensors, values = read_tensors(path)
    header = Header.from_dict(values, path)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise WeightsFileError(
            f"{path} holds NaN or infinity where weights should be; train or copy it again."
        )
    with fits_this_version(path):
        model = _build(header.recipe)
        model.load_state_dict(tensors)
    return Weights(header.name, model, header.recipe, header.facts)


def load_untrained(path: str | Path, seed: int) -> Weights:
    """Build the network of a file with freshly drawn parameters in place of the trained ones.

    Scales that were learned from the training table are not drawn; without them nothing could be compared.
    """
    header, _ = read_header(path)
    with fits_this_version(path):
        model = _build(header.recipe, seed)
        if "encoder" in header.recipe:
            tensors, _ = read_tensors(path)
            model.load_state_dict(
                {k: tensors[k] for k, _ in model.named_buffers() if k in tensors}, strict=False
            )
    return Weights(f"{header.name}, untrained, seed {seed}", model, header.recipe, header.facts)
