"""The data of a training step: scaled, numbered, and decided by the step alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clusterwise.priors import PRIORS, make_prior
from clusterwise.priors.prior import Prior, TaskBatch
from clusterwise.training.recipe import SizeOptions
from clusterwise.training.tasks import LOSS, TRAINING, VALIDATION, draw_task, rng_of_step, task_of_step


@pytest.mark.parametrize("name", PRIORS)
def test_a_task_is_the_draw_scaled_and_numbered(name: str) -> None:
    prior = make_prior(name)
    drawn = prior.draw(np.random.default_rng(4), 8, 15)
    task = draw_task(prior, np.random.default_rng(4), 8, 15)
    assert task.points.dtype == torch.float32
    assert task.labels.dtype == task.n_clusters.dtype == torch.int64
    for b in range(8):
        names, labels = np.unique(drawn.labels[b], return_inverse=True)
        np.testing.assert_array_equal(task.labels[b].numpy(), labels)
        assert int(task.n_clusters[b]) == len(names)
        centred = drawn.points[b] - drawn.points[b].mean(axis=0)
        np.testing.assert_allclose(
            task.points[b].numpy(), centred / np.sqrt(np.square(centred).mean()), rtol=1e-5, atol=1e-6
        )


class Gaps(Prior):
    """A prior whose labels leave numbers out."""

    n_features = 1

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        labels = np.array([[5, 2, 5, 7], [0, 0, 0, 0], [7, 6, 5, 4]])
        return TaskBatch(rng.normal(size=(3, 4, 1)), labels, [])


def test_labels_in_use_are_numbered_without_gaps() -> None:
    task = draw_task(Gaps(), np.random.default_rng(0), 3, 4)
    assert task.labels.tolist() == [[1, 0, 1, 2], [0, 0, 0, 0], [3, 2, 1, 0]]
    assert task.n_clusters.tolist() == [3, 1, 4]


def test_step_stream_and_seed_decide_the_draws() -> None:
    keys = [
        (seed, stream, step) for seed in (0, 1) for stream in (TRAINING, LOSS, VALIDATION) for step in (0, 1)
    ]
    draws = [rng_of_step(*key).random() for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws == [rng_of_step(*key).random() for key in keys]


def test_sizes_of_a_step() -> None:
    prior, sizes = make_prior("mixture-of-gaussians"), SizeOptions((8, 16, 100), points_per_batch=50)
    seen = set()
    for step in range(20):
        task, again = (task_of_step(prior, sizes, seed=1, step=step) for _ in range(2))
        assert torch.equal(task.points, again.points)
        assert torch.equal(task.labels, again.labels)
        n_sets, n_points = task.labels.shape
        assert n_sets == {8: 6, 16: 3, 100: 1}[n_points]  # one set at least, however large
        seen.add(n_points)
    assert seen == {8, 16, 100}
    other = task_of_step(prior, sizes, seed=2, step=0)
    assert not torch.isin(other.points, task_of_step(prior, sizes, seed=1, step=0).points).any()
