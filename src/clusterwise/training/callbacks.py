"""What happens between the steps of a training: figures of validation, a line of progress, checkpoints."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clusterwise.exceptions import RecipeError
from clusterwise.pretrained.weights_file import read_tensors, write_tensors
from clusterwise.training.recipe import Recipe

__all__ = [
    "FIGURES",
    "Callback",
    "Checkpoint",
    "Measured",
    "Progress",
    "TrainingState",
    "load_checkpoint",
    "save_checkpoint",
]

CHECKPOINT_FORMAT = "clusterwise-checkpoint-2"
# How figures of a validation are called; the step and the loss are none.
FIGURES = {
    "nmi": "NMI",
    "ari": "ARI",
    "best_ari": "best ARI",
    "k_mae": "k-MAE",
    "right_k": "exact k",
    "calibration_error": "ECE",
    "cut": "cut",
    "best_cut": "best cut",
    "squared_error": "squared error",
}


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
    finished: list[dict[str, Any]] = field(default_factory=list)  # steps and seconds of each earlier phase
    beginning: tuple[Tensor, ...] = ()  # parameters before the first step


# Fields of a state that are no tensors.
PROGRESS = ("step", "seconds", "running_loss", "history", "finished")

# Called after every step; a true answer ends the training early.
Callback = Callable[[TrainingState], bool]


class Measured:
    """Figures of the averaged weights, every few steps and at the last."""

    def __init__(self, recipe: Recipe, measure: Callable[[nn.Module], dict[str, float]]) -> None:
        self.every = recipe.validation.every
        self.last_step = recipe.optimizer.steps
        self.measure = measure

    def __call__(self, state: TrainingState) -> bool:
        if state.step % self.every == 0 or state.step == self.last_step:
            entry = {"step": state.step, "loss": state.running_loss}
            state.history.append(entry | self.measure(state.averaged))
        return False


class Progress:
    """One line every few seconds: step, loss, figures of the last validation, time left."""

    def __init__(
        self, n_steps: int, interval: float = 10.0, write: Callable[[str], object] | None = None
    ) -> None:
        self.n_steps = n_steps
        self.interval = interval
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.last = -np.inf
        self.start: tuple[int, float] | None = None

    def __call__(self, state: TrainingState) -> bool:
        now = time.monotonic()
        if self.start is None:
            self.start = (state.step, now)
        if now - self.last < self.interval and state.step != self.n_steps:
            return False
        self.last = now
        done, since = state.step - self.start[0], now - self.start[1]
        validation = ""
        if state.history:
            latest = state.history[-1]
            figures = [f"{name} {latest[key]:.4f}" for key, name in FIGURES.items() if key in latest]
            validation = f"  {'  '.join(figures)} (step {latest['step']:.0f})"
        left = f"  {since / done * (self.n_steps - state.step) / 60:.1f} min left" if done else ""
        self.write(f"step {state.step}/{self.n_steps}  loss {state.running_loss:.4f}{validation}{left}")
        return False


class Checkpoint:
    """The whole state in a file, every ``every`` steps."""

    def __init__(self, path: Path, recipe: Recipe, every: int) -> None:
        self.path, self.recipe, self.every = path, recipe, every

    def __call__(self, state: TrainingState) -> bool:
        if state.step % self.every == 0:
            save_checkpoint(self.path, self.recipe, state)
        return False


def save_checkpoint(path: Path, recipe: Recipe, state: TrainingState) -> None:
    """Write the state, whole or not at all."""
    tensors = {f"model/{k}": v for k, v in state.model.state_dict().items()}
    tensors |= {f"averaged/{k}": v for k, v in state.averaged.state_dict().items()}
    tensors |= {f"beginning/{i}": v for i, v in enumerate(state.beginning)}
    for name, parameter in state.model.named_parameters():  # Adam's moments; none before the first step
        moments = state.optimizer.state.get(parameter, {})
        tensors |= {f"optimizer/{name}/{key}": value for key, value in moments.items()}
    progress = {name: getattr(state, name) for name in PROGRESS}
    write_tensors(
        path, tensors, {"format": CHECKPOINT_FORMAT, "recipe": recipe.to_dict(), "progress": progress}
    )


def load_checkpoint(path: Path, recipe: Recipe) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and progress that were saved; the recipe must be the one that the checkpoint was made with."""
    tensors, header = read_tensors(path)
    own = json.loads(json.dumps(recipe.to_dict()))  # as the file has it: tuples are lists there
    if header.get("format") != CHECKPOINT_FORMAT or header.get("recipe") != own:
        raise RecipeError(
            f"{path} belongs to another recipe; resume with the one that it was made with, or move it away."
        )
    return tensors, header["progress"]


def restore(state: TrainingState, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
    """Bring a fresh ``state`` to what a checkpoint holds."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "averaged": {}, "optimizer": {}, "beginning": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition("/")
        parts[part][key] = tensor
    state.model.load_state_dict(parts["model"])
    state.averaged.load_state_dict(parts["averaged"])
    for name, parameter in state.model.named_parameters():
        moments = {
            k.rpartition("/")[2]: v for k, v in parts["optimizer"].items() if k.rpartition("/")[0] == name
        }
        if moments:
            state.optimizer.state[parameter] = moments
    state.beginning = tuple(parts["beginning"][str(i)] for i in range(len(parts["beginning"])))
    for name in PROGRESS:
        setattr(state, name, progress[name])
