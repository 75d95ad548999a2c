"""Where the data of training steps come from: drawn anew for each step, or made once and kept on disk."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from torch import nn

from clusterwise._files import whole_or_nothing
from clusterwise.affine import scale_sets
from clusterwise.exceptions import RecipeError
from clusterwise.papers.model import AmortizedModel, TrainingTask
from clusterwise.priors import Prior, make_prior
from clusterwise.training.callbacks import Callback, Measured
from clusterwise.training.recipe import Recipe

__all__ = [
    "PriorSource",
    "Source",
    "draw_task",
    "make_shards",
    "prior_of",
    "read_shard",
    "rng_of_step",
    "source_of_recipe",
]

# Streams of random numbers: the step number alone decides what is drawn, so a resumed training
# sees exactly the data that an uninterrupted one would have seen.
TRAINING, LOSS, VALIDATION = 1, 2, 3
TABLES_PER_SHARD = 200
# Data sets that say how far the training data reach.
SETS_TO_MEASURE = 2000


class Source(Protocol):
    """What the training loop asks for data."""

    def start(self, model: nn.Module) -> None:
        """Look at some data before the first step, for networks that standardize what they see."""

    def task(self, step: int) -> Any:
        """What the loss of a step is taken of; the step's number alone decides what it is."""

    def validation(self) -> Callback:
        """Measures the network from time to time."""

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """Calibrate the trained network where that is needed; return what else a weights file should say."""


def rng_of_step(seed: int, stream: int, step: int) -> np.random.Generator:
    """The generator of one step of one stream."""
    return np.random.default_rng([seed, stream, step])


# -- data sets drawn from a prior --------------------------------------------------------------------


def draw_task(prior: Prior, rng: np.random.Generator, n_sets: int, n_points: int) -> TrainingTask:
    """Data sets of a prior, each scaled to unit spread, with the labels in use numbered 0 .. K-1."""
    batch = prior.draw(rng, n_sets, n_points)
    in_use = np.zeros((n_sets, int(batch.labels.max()) + 1), dtype=bool)
    in_use[np.arange(n_sets)[:, None], batch.labels] = True
    new_label = in_use.cumsum(axis=1) - 1
    labels = np.take_along_axis(new_label, batch.labels, axis=1)
    return TrainingTask(
        torch.from_numpy(scale_sets(batch.points).astype(np.float32)),
        torch.from_numpy(labels),
        torch.from_numpy(in_use.sum(axis=1)),
    )


class PriorSource:
    """Data sets drawn from a prior, anew for each step; see ``Source``."""

    def __init__(self, recipe: Recipe, prior: Prior) -> None:
        self.recipe, self.prior = recipe, prior

    def start(self, model: nn.Module) -> None:
        """Nothing: data sets come with unit spread."""

    def task(self, step: int) -> TrainingTask:
        sizes, rng = self.recipe.sizes, rng_of_step(self.recipe.seed, TRAINING, step)
        n_points = int(rng.choice(sizes.n_points))
        return draw_task(self.prior, rng, max(1, sizes.points_per_batch // n_points), n_points)

    def validation(self) -> Callback:
        """Mean ARI and mean absolute error on k, on the same fresh data sets every time."""
        options, rng = self.recipe.validation, rng_of_step(self.recipe.seed, VALIDATION, 0)
        task = draw_task(self.prior, rng, options.n_sets, options.n_points)
        truth, present = task.labels.numpy(), torch.ones(task.points.shape[:2], dtype=torch.bool)

        def measure(model: nn.Module) -> dict[str, float]:
            if not isinstance(model, AmortizedModel):
                raise TypeError(f"{type(model).__name__} cannot infer partitions")
            found = [inference.labels.numpy() for inference in model.infer(task.points, present)]
            aris = [adjusted_rand_score(y, labels) for y, labels in zip(truth, found, strict=True)]
            errors = [abs(len(set(y)) - len(set(labels))) for y, labels in zip(truth, found, strict=True)]
            return {"ari": float(np.mean(aris)), "k_mae": float(np.mean(errors))}

        return Measured(self.recipe, measure)

    def finish(self, model: nn.Module) -> dict[str, Any]:
        """How far training data reach from zero: the 99.9th percentile over data sets of ``max |x|``."""
        rng = rng_of_step(self.recipe.seed, VALIDATION, 1)
        task = draw_task(self.prior, rng, SETS_TO_MEASURE, max(self.recipe.sizes.n_points))
        return {"largest_coordinate": float(np.quantile(task.points.abs().amax(dim=(1, 2)).numpy(), 0.999))}


def prior_of(recipe: Recipe, model: AmortizedModel) -> Prior:
    """The prior of a recipe, which must draw what the network takes."""
    if recipe.encoder is not None:
        raise RecipeError("an [encoder] goes with [prior] name = 'labelled'; leave it out.")
    prior = make_prior(**recipe.prior)
    if prior.n_features != model.n_features:
        raise RecipeError(
            f"[prior] draws {prior.n_features} features and [model] takes {model.n_features}; "
            "give both the same n_features."
        )
    return prior


# -- tables that take long to make: made once, some to a file ----------------------------------------


def make_shards(
    directory: Path,
    n_tables: int,
    make: Callable[[range], Mapping[str, np.ndarray]],
    verbose: bool,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Path] | None:
    """Files of all tables; those that are there already are left alone, so that an interrupted run goes on.

    ``make`` turns numbers of tables to arrays. None if it ``is_over`` before all are there.
    """
    firsts = range(0, n_tables, TABLES_PER_SHARD)
    paths = [directory / f"{first // TABLES_PER_SHARD:05d}.npz" for first in firsts]
    missing = [(path, first) for path, first in zip(paths, firsts, strict=True) if not path.exists()]
    started = time.monotonic()
    for done, (path, first) in enumerate(missing, 1):
        if is_over():
            return None
        last = min(first + TABLES_PER_SHARD, n_tables)
        arrays = make(range(first, last))
        with whole_or_nothing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        if verbose:
            left = (time.monotonic() - started) / done * (len(missing) - done) / 60
            print(f"tables: {last:,} of {n_tables:,}  {left:.1f} min left", file=sys.stderr, flush=True)
    return paths


def read_shard(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    with np.load(path) as arrays:
        return dict(arrays)


def source_of_recipe(
    recipe: Recipe,
    model: nn.Module,
    is_over: Callable[[], bool] = lambda: False,
    *,
    directory: Path,
    verbose: bool = False,
) -> Source | None:
    """Where the data of a recipe come from; None if tables are made beforehand, and it ``is_over`` first."""
    if isinstance(model, AmortizedModel):
        return PriorSource(recipe, prior_of(recipe, model))
    # Tables of another prior or another seed, left by an earlier run, are not taken for these.
    drawn_from = json.dumps([recipe.prior, recipe.seed, recipe.tables.node_judge], sort_keys=True)
    folder = directory / f"{recipe.method}-tables-{hashlib.sha256(drawn_from.encode()).hexdigest()[:8]}"
    if recipe.method == "node-judge":
        from clusterwise.training.node_judge import node_source

        return node_source(recipe, folder, verbose, is_over)
    from clusterwise.training.partition_tasks import partition_source

    return partition_source(recipe, folder, verbose, is_over)
