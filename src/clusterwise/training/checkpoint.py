"""A training's whole state in one safetensors file, so that a killed run goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from clusterwise.exceptions import RecipeError
from clusterwise.pretrained.weights_file import read_tensors, write_tensors
from clusterwise.training.recipe import Recipe

__all__ = ["TrainingState", "load_checkpoint", "save_checkpoint"]

CHECKPOINT_FORMAT = "clusterwise-checkpoint-1"


@dataclass
class TrainingState:
    """What changes while a network trains."""

    model: nn.Module
    averaged: nn.Module
    optimizer: torch.optim.Optimizer
    step: int = 0
    seconds: float = 0.0
    running_loss: float = float("nan")
    history: list[dict[str, float]] = field(default_factory=list)  # one entry per validation


# Fields of a state that are no tensors.
PROGRESS = ("step", "seconds", "running_loss", "history")


def save_checkpoint(path: Path, recipe: Recipe, state: TrainingState) -> None:
    """Write the state, whole or not at all."""
    tensors = {f"model/{k}": v for k, v in state.model.state_dict().items()}
    tensors |= {f"averaged/{k}": v for k, v in state.averaged.state_dict().items()}
    for name, parameter in state.model.named_parameters():  # Adam's moments; none before the first step
        moments = state.optimizer.state.get(parameter, {})
        tensors |= {f"optimizer/{name}/{key}": value for key, value in moments.items()}
    progress = {name: getattr(state, name) for name in PROGRESS}
    header = {"format": CHECKPOINT_FORMAT, "recipe": recipe.to_dict(), "progress": progress}
    write_tensors(path, tensors, header)


def load_checkpoint(path: Path, recipe: Recipe, state: TrainingState) -> None:
    """Bring ``state`` to what was saved; the recipe must be the one that the checkpoint was made with."""
    tensors, header = read_tensors(path)
    own = json.loads(json.dumps(recipe.to_dict()))  # as the file has it: tuples are lists there
    if header.get("format") != CHECKPOINT_FORMAT or header.get("recipe") != own:
        raise RecipeError(
            f"{path} belongs to another recipe; resume with the one that it was made with, or move it away."
        )
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "averaged": {}, "optimizer": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    state.model.load_state_dict(parts["model"])
    state.averaged.load_state_dict(parts["averaged"])
    for name, parameter in state.model.named_parameters():
        moments = {
            key.rpartition("/")[2]: value
            for key, value in parts["optimizer"].items()
            if key.rpartition("/")[0] == name
        }
        if moments:
            state.optimizer.state[parameter] = moments
    for name in PROGRESS:
        setattr(state, name, header["progress"][name])
