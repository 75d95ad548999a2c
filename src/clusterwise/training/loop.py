"""The one training loop: Adam, warm-up and cosine decay, clipping, an average of the weights."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clusterwise._files import whole_or_nothing
from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import make_model
from clusterwise.papers.model import AmortizedModel, TrainedModel
from clusterwise.pretrained import Weights, weights_path
from clusterwise.pretrained.weights_file import in_half_precision, read_tensors, save_weights
from clusterwise.training.callbacks import (
    Callback,
    Checkpoint,
    Progress,
    TrainingState,
    load_checkpoint,
    restore,
    save_checkpoint,
)
from clusterwise.training.card import card_text, versions
from clusterwise.training.recipe import LABELLED, OptimizerOptions, Recipe, read_recipe
from clusterwise.training.sources import LOSS, Source, prior_of, rng_of_step, source_of_recipe

__all__ = [
    "check_recipe",
    "checkpoint_path",
    "fresh_network",
    "learning_rate_at",
    "train",
    "train_steps",
    "train_weights",
]

# Finds the data of a phase for its network; None if there was no time to make them.
SourceOf = Callable[[Recipe, nn.Module, Callable[[], bool]], Source | None]
Saved = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and progress of a checkpoint


def never() -> bool:
    """False: nobody asks to stop."""
    return False


def train(
    recipe: Recipe | str | Path,
    directory: str | Path = "trained",
    *,
    resume: bool = False,
    minutes: float | None = None,
    checkpoint_every: int = 500,
    stop: Callable[[], bool] = never,
    verbose: bool = True,
) -> Path | None:
    """Train a network and write ``<directory>/<name>.safetensors`` and its card; return the path.

    A checkpoint next to it lets ``resume=True`` go on after a crash, after ``minutes`` have passed, or when
    ``stop()`` was true after a step (then None is returned). Killed and resumed, a training ends with the
    weights of an uninterrupted run.
    """
    if not isinstance(recipe, Recipe):
        recipe = read_recipe(recipe)
    directory = Path(directory)
    source_of: SourceOf = partial(source_of_recipe, directory=directory, verbose=verbose)
    if recipe.prior["name"] == LABELLED:
        from clusterwise.training.labelled import source_of_file  # which trains small networks itself

        recipe, source = source_of_file(recipe)
        source_of = lambda phase, *_: source.with_recipe(phase)  # noqa: E731
    check_recipe(recipe, directory)
    deadline = math.inf if minutes is None else time.monotonic() + 60 * minutes
    weights = train_weights(
        recipe,
        source_of,
        directory,
        resume=resume,
        checkpoint_every=checkpoint_every,
        stop=lambda: time.monotonic() > deadline or stop(),
        verbose=verbose,
    )
    if weights is None:
        return None
    path = directory / f"{recipe.name}.safetensors"
    save_weights(path, weights)
    with whole_or_nothing(path.with_suffix(".md")) as card:
        card.write_text(card_text(weights), encoding="utf-8")
    return path


def check_recipe(recipe: Recipe, directory: Path | None = None) -> None:
    """Raise a RecipeError if a network or a prior of the recipe cannot be built, or if phases do not fit.

    With labelled rows the network depends on their file: what is wrong shows when that has been read.
    """
    is_labelled = recipe.prior["name"] == LABELLED
    if is_labelled and "n_features" not in (recipe.encoder or {}):
        return
    before = _start_of(recipe, directory)
    for phase in recipe.phases():
        model = fresh_network(phase)
        if isinstance(model, AmortizedModel) and not is_labelled:
            prior_of(phase, model)
        if before is not None:
            _begin_with(model, before, phase)
        before = model.state_dict()


def checkpoint_path(recipe: Recipe, directory: Path) -> Path:
    """Where the state of an unfinished training is."""
    return directory / f"{recipe.name}.checkpoint.safetensors"


def train_weights(
    recipe: Recipe,
    source_of: SourceOf,
    directory: Path | None = None,
    *,
    resume: bool = False,
    checkpoint_every: int = 500,
    stop: Callable[[], bool] = never,
    verbose: bool = True,
) -> Weights | None:
    """Train a network on what ``source_of`` gives, phase after phase; None if it was told to ``stop``.

    Checkpoints go to the ``directory``, if there is one.
    """
    before, saved, callbacks = _start_of(recipe, directory), None, []
    path = None if directory is None else checkpoint_path(recipe, directory)
    if path is not None:
        callbacks.append(Checkpoint(path, recipe, checkpoint_every))
        saved = load_checkpoint(path, recipe) if resume and path.exists() else None
    finished: list[dict[str, Any]] = [] if saved is None else saved[1]["finished"]
    for phase in recipe.phases()[len(finished) :]:
        begun = _begin(phase, source_of, before, saved, stop)
        if begun is None:
            return None
        (state, source), saved = begun, None
        state.finished = finished
        shown = [Progress(phase.optimizer.steps)] if verbose else []
        train_steps(phase, state, source, [source.validation(), *shown, lambda state: stop(), *callbacks])
        # Not after an error or Ctrl-C: a step cut in half must not become the checkpoint.
        if path is not None:
            save_checkpoint(path, recipe, state)
        if state.step < phase.optimizer.steps:
            return None
        _keep(state, phase.optimizer.kept)
        # As they will be stored, so that figures, and a next phase, are those of the file.
        for parameter in state.averaged.parameters():
            parameter.copy_(in_half_precision(parameter))
        before = state.averaged.state_dict()
        finished = [*finished, {"steps": state.step, "seconds": round(state.seconds, 1)}]
    facts = {
        "steps": sum(one["steps"] for one in finished),
        "seconds": round(sum(one["seconds"] for one in finished), 1),
        "n_parameters": sum(p.numel() for p in state.model.parameters()),
        "history": state.history,
        "versions": versions(),
        **({"phases": finished} if recipe.phase else {}),
    } | source.finish(state.averaged)
    return Weights(recipe.name, state.averaged, recipe.to_dict(), facts)  # type: ignore[arg-type]


def _begin(
    phase: Recipe,
    source_of: SourceOf,
    before: Mapping[str, Tensor] | None,
    saved: Saved | None,
    stop: Callable[[], bool],
) -> tuple[TrainingState, Source] | None:
    """The state before the first step of a phase, or that of a checkpoint, and the source of its data."""
    model = fresh_network(phase)
    if before is not None and saved is None:
        _begin_with(model, before, phase)
    source = source_of(phase, model, stop)
    if source is None:
        return None
    source.start(model)
    kept = tuple(p.detach().clone() for p in model.parameters()) if phase.optimizer.kept else ()
    averaged = copy.deepcopy(model).eval().requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=phase.optimizer.weight_decay)
    state = TrainingState(model, averaged, optimizer, beginning=kept)
    if saved is not None:
        restore(state, *saved)
    return state, source


def fresh_network(recipe: Recipe) -> TrainedModel:
    """The network of a recipe, freshly drawn; the user's random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        return make_model(recipe.method, recipe.model, recipe.encoder)


def _start_of(recipe: Recipe, directory: Path | None) -> dict[str, Tensor] | None:
    """Tensors of the weights that a training starts with, if it starts with any.

    ``start`` is a file in the directory of the training, a file by its path, or the name of shipped weights.
    """
    if not recipe.start:
        return None
    own = None if directory is None else directory / f"{recipe.start}.safetensors"
    return read_tensors(own if own is not None and own.is_file() else weights_path(recipe.start))[0]


def _begin_with(model: nn.Module, before: Mapping[str, Tensor], recipe: Recipe) -> None:
    """Give a network the parameters of other weights, as far as it has them; those in common must fit."""
    own = model.state_dict()
    common = {name: tensor for name, tensor in before.items() if name in own}
    if not common:
        raise RecipeError(
            f"{recipe.name} cannot start with {recipe.start}: it has no parameter of a network for "
            f"{recipe.method}; choose weights for this method, or leave start out."
        )
    for name, tensor in common.items():
        if own[name].shape != tensor.shape:
            raise RecipeError(
                f"{recipe.name} cannot start with {recipe.start}: {name} has the shape {tuple(tensor.shape)} "
                f"there and {tuple(own[name].shape)} in the network of [model]; give [model] the options of "
                "those weights, or leave start out."
            )
    model.load_state_dict(common, strict=False)


@torch.no_grad()
def _keep(state: TrainingState, share: float) -> None:
    """Bring the averaged weights back by a share of the way to those that the phase began with."""
    if share:
        torch._foreach_lerp_(tuple(state.averaged.parameters()), state.beginning, share)


def learning_rate_at(step: int, options: OptimizerOptions) -> float:
    """Linear warm-up from zero, then half a cosine down to zero at the last step."""
    warm_up = min(1.0, (step + 1) / options.warm_up)
    return options.learning_rate * warm_up * 0.5 * (1 + math.cos(math.pi * step / options.steps))


def train_steps(
    recipe: Recipe, state: TrainingState, source: Source, callbacks: Sequence[Callback] = ()
) -> None:
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
        if any([callback(state) for callback in callbacks]):
            return
