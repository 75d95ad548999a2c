"""What happens besides the optimization: progress, running validation, checkpoints, a time limit."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise.papers.model import AmortizedModel
from clusterwise.priors import Prior
from clusterwise.training.checkpoint import TrainingState, save_checkpoint
from clusterwise.training.recipe import Recipe
from clusterwise.training.tasks import VALIDATION, draw_task, rng_of_step

__all__ = ["FIGURES", "Callback", "Checkpoint", "Measured", "Progress", "TimeLimit", "Validation"]


# How figures of a validation are called; those that are none.
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
OTHERS = ("step", "loss")


class Callback(ABC):
    """Called after every step; a true answer ends the training early."""

    @abstractmethod
    def after_step(self, state: TrainingState) -> bool:
        """Look at the state; return True to stop."""

    def is_over(self) -> bool:
        """Say whether to stop before the first step, while data are still being made."""
        return False

    def at_end(self, state: TrainingState) -> None:  # noqa: B027 (most callbacks have nothing to do here)
        """Run once after the last step, or after the step that was told to be the last."""


class Validation(Callback):
    """ARI and error on k of the averaged weights, on the same fresh data sets every time."""

    def __init__(self, recipe: Recipe, prior: Prior) -> None:
        self.options = recipe.validation
        self.last_step = recipe.optimizer.steps
        self.task = draw_task(
            prior, rng_of_step(recipe.seed, VALIDATION, 0), self.options.n_sets, self.options.n_points
        )

    def after_step(self, state: TrainingState) -> bool:
        if state.step % self.options.every and state.step != self.last_step:
            return False
        state.history.append({"step": state.step, "loss": state.running_loss} | self.measure(state.averaged))
        return False

    def measure(self, model: torch.nn.Module) -> dict[str, float]:
        """Mean ARI and mean absolute error on k over the validation sets."""
        if not isinstance(model, AmortizedModel):
            raise TypeError(f"{type(model).__name__} cannot infer partitions")
        present = torch.ones(self.task.points.shape[:2], dtype=torch.bool)
        inferences = model.infer(self.task.points, present)
        truth = self.task.labels.numpy()
        found = [inference.labels.numpy() for inference in inferences]
        aris = [adjusted_rand_score(y, labels) for y, labels in zip(truth, found, strict=True)]
        errors = [abs(len(set(y)) - len(set(labels))) for y, labels in zip(truth, found, strict=True)]
        return {"ari": float(np.mean(aris)), "k_mae": float(np.mean(errors))}


class Measured(Callback):
    """Figures of the averaged weights, by a function of the network."""

    def __init__(self, recipe: Recipe, measure: Callable[[torch.nn.Module], dict[str, float]]) -> None:
        self.every = recipe.validation.every
        self.last_step = recipe.optimizer.steps
        self.measure = measure

    def after_step(self, state: TrainingState) -> bool:
        if state.step % self.every == 0 or state.step == self.last_step:
            entry = {"step": state.step, "loss": state.running_loss}
            state.history.append(entry | self.measure(state.averaged))
        return False


class Progress(Callback):
    """One line every few seconds: step, loss, running figures, time left."""

    def __init__(
        self, n_steps: int, interval: float = 10.0, write: Callable[[str], object] | None = None
    ) -> None:
        self.n_steps = n_steps
        self.interval = interval
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.last = -np.inf
        self.start: tuple[int, float] | None = None

    def after_step(self, state: TrainingState) -> bool:
        now = time.monotonic()
        if self.start is None:
            self.start = (state.step, now)
        if now - self.last < self.interval and state.step != self.n_steps:
            return False
        self.last = now
        done, since = state.step - self.start[0], now - self.start[1]
        pace = since / done if done else float("nan")
        validation = ""
        if state.history:
            latest = state.history[-1]
            figures = [f"{FIGURES.get(key, key)} {latest[key]:.4f}" for key in latest if key not in OTHERS]
            validation = f"  {'  '.join(figures)} (step {latest['step']:.0f})"
        left = f"  {pace * (self.n_steps - state.step) / 60:.1f} min left" if done else ""
        self.write(f"step {state.step}/{self.n_steps}  loss {state.running_loss:.4f}{validation}{left}")
        return False


class Checkpoint(Callback):
    """Save the whole state every ``every`` steps and at the end."""

    def __init__(self, path: Path, recipe: Recipe, every: int) -> None:
        self.path = path
        self.recipe = recipe
        self.every = every

    def after_step(self, state: TrainingState) -> bool:
        if state.step % self.every == 0:
            save_checkpoint(self.path, self.recipe, state)
        return False

    def at_end(self, state: TrainingState) -> None:
        save_checkpoint(self.path, self.recipe, state)


class TimeLimit(Callback):
    """Stop cleanly after some minutes; the checkpoint lets a later run go on."""

    def __init__(self, minutes: float) -> None:
        self.deadline = time.monotonic() + 60 * minutes

    def after_step(self, state: TrainingState) -> bool:
        return time.monotonic() > self.deadline
