"""The one training loop: Adam, warm-up and cosine decay, clipping, an average of the weights."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import RecipeError
from clusterwise.models.base import AmortizedModel, TrainingTask
from clusterwise.models.registry import make_model
from clusterwise.pretrained.header import Weights
from clusterwise.pretrained.weights_file import save_weights
from clusterwise.priors import Prior, make_prior
from clusterwise.training.callbacks import Callback, Checkpoint, Progress, TimeLimit, Validation
from clusterwise.training.card import card_text
from clusterwise.training.checkpoint import TrainingState, load_checkpoint
from clusterwise.training.recipe import OptimizerOptions, Recipe, read_recipe
from clusterwise.training.sources import Source, source_of_tables
from clusterwise.training.tasks import LOSS, VALIDATION, draw_task, rng_of_step, task_of_step

__all__ = ["PriorSource", "learning_rate_at", "train", "train_steps"]


def learning_rate_at(step: int, options: OptimizerOptions) -> float:
    """Linear warm-up from zero, then half a cosine down to zero at the last step."""
    warm_up = min(1.0, (step + 1) / options.warm_up)
    return options.learning_rate * warm_up * 0.5 * (1 + math.cos(math.pi * step / options.steps))


class PriorSource:
    """Data sets drawn from a prior, anew for each step; see ``Source``."""

    def __init__(self, recipe: Recipe, prior: Prior) -> None:
        self.recipe, self.prior = recipe, prior

    def start(self, model: nn.Module) -> None:
        """Nothing: data sets come with unit spread."""

    def task(self, step: int) -> TrainingTask:
        return task_of_step(self.prior, self.recipe.sizes, self.recipe.seed, step)

    def validation(self) -> Callback:
        return Validation(self.recipe, self.prior)

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """How far from the centre training data reach: the 99.9th percentile over data sets of max |x|."""
        rng = rng_of_step(self.recipe.seed, VALIDATION, 1)
        task = draw_task(self.prior, rng, 2000, max(self.recipe.sizes.n_points))
        return {"largest_coordinate": float(np.quantile(task.points.abs().amax(dim=(1, 2)).numpy(), 0.999))}


def train_steps(recipe: Recipe, state: TrainingState, source: Source, callbacks: Sequence[Callback]) -> None:
    """Run the steps that are left, calling every callback after each."""
    options = recipe.optimizer
    parameters, averaged = tuple(state.model.parameters()), tuple(state.averaged.parameters())
    loss_generator = torch.Generator()
    while state.step < options.steps:
        started = time.monotonic()
        for group in state.optimizer.param_groups:
            group["lr"] = learning_rate_at(state.step, options)
        task = source.task(state.step)
        loss_seed = rng_of_step(recipe.seed, LOSS, state.step).integers(2**63)
        loss = state.model.loss(task, loss_generator.manual_seed(int(loss_seed)))  # type: ignore[operator]
        value = loss.item()
        if not math.isfinite(value):
            raise RecipeError(
                f"The loss is {value} at step {state.step}; lower learning_rate in [optimizer]."
            )
        state.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, options.clip)
        state.optimizer.step()
        # The average decays faster at first, so that early weights are forgotten soon.
        decay = min(options.average_decay, (1 + state.step) / (10 + state.step))
        with torch.no_grad():
            torch._foreach_lerp_(averaged, parameters, 1 - decay)
        state.running_loss = value if state.step == 0 else 0.98 * state.running_loss + 0.02 * value
        state.step += 1
        state.seconds += time.monotonic() - started
        if any([callback.after_step(state) for callback in callbacks]):
            return


def _source(
    recipe: Recipe, model: nn.Module, directory: Path, verbose: bool, is_over: Callable[[], bool]
) -> Source | None:
    """Where the data come from; None if they are made beforehand, and time was up before they were."""
    if not isinstance(model, AmortizedModel):
        return source_of_tables(recipe, directory / f"{recipe.name}-tables", verbose, is_over)
    prior = make_prior(**recipe.prior)
    if prior.n_features != model.n_features:
        raise RecipeError(
            f"[prior] draws {prior.n_features} features and [model] takes {model.n_features}; "
            "give both the same n_features."
        )
    return PriorSource(recipe, prior)


def train(
    recipe: Recipe | str | Path,
    directory: str | Path = "trained",
    *,
    resume: bool = False,
    minutes: float | None = None,
    checkpoint_every: int = 500,
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
) -> Path | None:
    """Train a network and write ``<directory>/<name>.safetensors`` and its card; return the path.

    A checkpoint next to it lets ``resume=True`` go on after a crash or after ``minutes`` have passed
    (then None is returned). Killed and resumed, a training ends with the weights of an
    uninterrupted run.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    directory = Path(directory)
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = make_model(recipe.method, recipe.model)

    def is_over() -> bool:
        late = deadline is not None and time.monotonic() > deadline
        return late or any([callback.is_over() for callback in callbacks])

    source = _source(recipe, model, directory, verbose, is_over)
    if source is None:
        return None
    source.start(model)
    averaged = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=recipe.optimizer.weight_decay)
    state = TrainingState(model, averaged, optimizer)
    checkpoint = directory / f"{recipe.name}.checkpoint.safetensors"
    if resume and checkpoint.exists():
        load_checkpoint(checkpoint, recipe, state)
    everything: list[Callback] = [source.validation()]
    if verbose:
        everything.append(Progress(recipe.optimizer.steps))
    if deadline is not None:
        everything.append(TimeLimit(max(0.0, (deadline - time.monotonic()) / 60)))
    everything += [*callbacks, Checkpoint(checkpoint, recipe, checkpoint_every)]
    train_steps(recipe, state, source, everything)
    # Not after an error or Ctrl-C: a step cut in half must not become the checkpoint.
    for callback in everything:
        callback.at_end(state)
    if state.step < recipe.optimizer.steps:
        return None
    facts = {
        "steps": state.step,
        "seconds": round(state.seconds, 1),
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "history": state.history,
    } | source.finish(averaged)
    path = directory / f"{recipe.name}.safetensors"
    weights = Weights(recipe.name, averaged, recipe.to_dict(), facts)
    save_weights(path, weights)
    with whole_or_nothing(path.with_suffix(".md")) as card:
        card.write_text(card_text(weights), encoding="utf-8")
    return path
