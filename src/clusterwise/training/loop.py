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
from clusterwise.papers.model import AmortizedModel, TrainingTask
from clusterwise.papers.registry import make_model
from clusterwise.pretrained.header import Weights
from clusterwise.pretrained.weights_file import save_weights
from clusterwise.priors import Prior, make_prior
from clusterwise.training.callbacks import Callback, Checkpoint, Progress, TimeLimit, Validation
from clusterwise.training.card import card_text
from clusterwise.training.checkpoint import TrainingState, load_checkpoint
from clusterwise.training.labelled_files import LABELLED, source_of_file
from clusterwise.training.provenance import begin_with, versions
from clusterwise.training.recipe import OptimizerOptions, Recipe, read_recipe
from clusterwise.training.sources import Source, source_of_tables
from clusterwise.training.tasks import LOSS, VALIDATION, draw_task, rng_of_step, task_of_step

__all__ = ["PriorSource", "learning_rate_at", "train", "train_steps", "train_weights"]


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
        """How far training data reach from zero: the 99.9th percentile over data sets of ``max |x|``."""
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
    if recipe.encoder is not None:
        raise RecipeError("an [encoder] goes with [prior] name = 'labelled'; leave it out.")
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
    labelled = None
    if recipe.prior["name"] == LABELLED:
        recipe, labelled = source_of_file(recipe)
    weights = train_weights(
        recipe,
        directory,
        lambda model, is_over: labelled or _source(recipe, model, directory, verbose, is_over),
        resume=resume,
        minutes=minutes,
        checkpoint_every=checkpoint_every,
        callbacks=callbacks,
        verbose=verbose,
    )
    if weights is None:
        return None
    path = directory / f"{recipe.name}.safetensors"
    save_weights(path, weights)
    with whole_or_nothing(path.with_suffix(".md")) as card:
        card.write_text(card_text(weights), encoding="utf-8")
    return path


def train_weights(
    recipe: Recipe,
    directory: Path | None,
    find_source: Callable[[nn.Module, Callable[[], bool]], Source | None],
    *,
    resume: bool = False,
    minutes: float | None = None,
    checkpoint_every: int = 500,
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
) -> Weights | None:
    """Train a network on what ``find_source`` gives; None if time was up before the last step.

    Checkpoints go to the ``directory``, if there is one.
    """
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = make_model(recipe.method, recipe.model, recipe.encoder)
    origin: dict[str, Any] = {"versions": versions()}
    if recipe.start:
        origin["start"] = begin_with(model, recipe.start, directory)

    def is_over() -> bool:
        late = deadline is not None and time.monotonic() > deadline
        return late or any([callback.is_over() for callback in callbacks])

    source = find_source(model, is_over)
    if source is None:
        return None
    source.start(model)
    beginning = tuple(parameter.detach().clone() for parameter in model.parameters())
    averaged = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=recipe.optimizer.weight_decay)
    state = TrainingState(model, averaged, optimizer)
    checkpoint = None if directory is None else directory / f"{recipe.name}.checkpoint.safetensors"
    if resume and checkpoint is not None and checkpoint.exists():
        load_checkpoint(checkpoint, recipe, state)
    everything: list[Callback] = [source.validation()]
    if verbose:
        everything.append(Progress(recipe.optimizer.steps))
    if deadline is not None:
        everything.append(TimeLimit(max(0.0, (deadline - time.monotonic()) / 60)))
    everything += callbacks
    if checkpoint is not None:
        everything.append(Checkpoint(checkpoint, recipe, checkpoint_every))
    train_steps(recipe, state, source, everything)
    # Not after an error or Ctrl-C: a step cut in half must not become the checkpoint.
    for callback in everything:
        callback.at_end(state)
    if state.step < recipe.optimizer.steps:
        return None
    if recipe.optimizer.kept:
        with torch.no_grad():
            torch._foreach_lerp_(tuple(averaged.parameters()), beginning, recipe.optimizer.kept)
    facts = {
        "steps": state.step,
        "seconds": round(state.seconds, 1),
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "history": state.history,
        **origin,
    } | source.finish(averaged)
    return Weights(recipe.name, averaged, recipe.to_dict(), facts)
