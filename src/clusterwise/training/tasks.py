"""From a prior to the tensors of one training step."""

from __future__ import annotations

import numpy as np
import torch

from clusterwise.affine import scale_sets
from clusterwise.papers.model import TrainingTask
from clusterwise.priors import Prior
from clusterwise.training.recipe import SizeOptions

__all__ = ["draw_task", "rng_of_step", "task_of_step"]

# Streams of random numbers: the step number alone decides what is drawn, so a resumed training
# sees exactly the data that an uninterrupted one would have seen.
TRAINING, LOSS, VALIDATION = 1, 2, 3


def rng_of_step(seed: int, stream: int, step: int) -> np.random.Generator:
    """Return the generator of one step of one stream."""
    return np.random.default_rng([seed, stream, step])


def draw_task(prior: Prior, rng: np.random.Generator, n_sets: int, n_points: int) -> TrainingTask:
    """Draw data sets, scale each to unit spread, and number the labels in use 0 .. K-1."""
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


def task_of_step(prior: Prior, sizes: SizeOptions, seed: int, step: int) -> TrainingTask:
    """Draw the data of one training step."""
    rng = rng_of_step(seed, TRAINING, step)
    n_points = int(rng.choice(sizes.n_points))
    return draw_task(prior, rng, max(1, sizes.points_per_batch // n_points), n_points)
