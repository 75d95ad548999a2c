"""Data of a training step: decided by the step alone; validation; tables that are made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn

from clusterwise.papers.methods import make_model
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.pretrained import get_weights
from clusterwise.priors import PRIORS, make_prior
from clusterwise.priors.prior import Prior, TaskBatch
from clusterwise.training import train
from clusterwise.training.callbacks import Measured
from clusterwise.training.node_judge import NodeJudge
from clusterwise.training.partition_tasks import expected_calibration_error
from clusterwise.training.recipe import Recipe, recipe_from_dict
from clusterwise.training.sources import (
    LOSS,
    TRAINING,
    VALIDATION,
    PriorSource,
    draw_task,
    rng_of_step,
    source_of_recipe,
)

TinyRecipe = Callable[..., Recipe]


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


def test_sizes_of_a_step(tiny_recipe: TinyRecipe) -> None:
    recipe = tiny_recipe(sizes={"n_points": [8, 16, 100], "points_per_batch": 50})
    source, prior, seen = PriorSource(recipe, make_prior(**recipe.prior)), make_prior(**recipe.prior), set()
    for step in range(20):
        task, again = source.task(step), PriorSource(recipe, prior).task(step)
        assert torch.equal(task.points, again.points)
        assert torch.equal(task.labels, again.labels)
        n_sets, n_points = task.labels.shape
        assert n_sets == {8: 6, 16: 3, 100: 1}[n_points]  # one set at least, however large
        seen.add(n_points)
    assert seen == {8, 16, 100}
    other = PriorSource(replace(recipe, seed=recipe.seed + 1), prior).task(0)
    assert not torch.isin(other.points, source.task(0).points).any()


# -- validation --------------------------------------------------------------------------------------


class Answers(AmortizedModel):
    """A network that knows the labels."""

    method = "answers"

    def __init__(self, labels: Tensor) -> None:
        super().__init__()
        self.labels = labels

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def infer(
        self, points: Tensor, mask: Tensor, seeds: Sequence[int] | None = None, max_clusters: int = 100
    ) -> list[Inference]:
        return [Inference(labels) for labels in self.labels]


# -- validation --------------------------------------------------------------------------------------


@pytest.fixture
def source(tiny_recipe: TinyRecipe) -> PriorSource:
    recipe = tiny_recipe(validation={"every": 4, "n_sets": 5, "n_points": 20})
    return PriorSource(recipe, make_prior(**recipe.prior))


def validation_task(source: PriorSource) -> TrainingTask:
    return draw_task(source.prior, rng_of_step(source.recipe.seed, VALIDATION, 0), 5, 20)


def test_scores_are_means_over_data_sets(source: PriorSource) -> None:
    task, validation = validation_task(source), source.validation()
    assert isinstance(validation, Measured)
    assert validation.measure(Answers(task.labels)) == {"ari": 1.0, "k_mae": 0.0}
    wrong, truth = (torch.arange(20) % 4).repeat(5, 1), task.labels.numpy()
    found = validation.measure(Answers(wrong))
    assert found["ari"] == pytest.approx(np.mean([adjusted_rand_score(y, wrong[0]) for y in truth]))
    assert found["k_mae"] == pytest.approx(np.mean([4 - len(set(y.tolist())) for y in truth]))
    with pytest.raises(TypeError, match="Linear cannot infer"):
        validation.measure(nn.Linear(1, 1))


def test_validation_data_are_not_those_of_training(source: PriorSource) -> None:
    for step in range(4):
        assert not torch.isin(validation_task(source).points, source.task(step).points).any()


# -- tables of judges --------------------------------------------------------------------------------


def recipe_of(method: str) -> Recipe:
    return recipe_from_dict(
        {
            "name": "small",
            "method": method,
            "model": {"width": 8, "n_rounds": 1},
            "prior": {"name": "broad", "max_rows": 80},
            "seed": 3,
            "tables": {"n_tables": 6, "n_validation": 2, "per_batch": 3},
            "optimizer": {"steps": 3, "warm_up": 1},
            "validation": {"every": 2},
        }
    )


def tables_of(recipe: Recipe, directory: Path) -> Any:
    return source_of_recipe(recipe, make_model(recipe.method, recipe.model), directory=directory)


@pytest.mark.parametrize("method", ["node-judge", "partition-judge"])
def test_training_from_a_recipe(tmp_path: Path, method: str) -> None:
    recipe = recipe_of(method)
    path = train(recipe, tmp_path, verbose=False)
    assert path is not None
    weights = get_weights(path, method)
    assert weights.facts["steps"] == 3
    assert path.with_suffix(".md").read_text().count("|") > 20
    assert (weights.model.spreads > 0).all() and (weights.model.spreads != 1).any()
    shards = sorted(tmp_path.glob(f"{method}-tables-*/*.npz"))
    assert shards
    made = [shard.stat().st_mtime_ns for shard in shards]
    again = train(recipe, tmp_path, verbose=False)
    assert [shard.stat().st_mtime_ns for shard in shards] == made
    assert again is not None
    same = get_weights(again).model.state_dict()
    for name, tensor in weights.model.state_dict().items():
        torch.testing.assert_close(tensor, same[name])


def test_no_time_is_left_for_the_tables(tmp_path: Path) -> None:
    assert train(recipe_of("node-judge"), tmp_path, minutes=0.0, verbose=False) is None
    assert train(recipe_of("node-judge"), tmp_path, stop=lambda: True, verbose=False) is None
    assert not list(tmp_path.iterdir())


def test_a_step_has_the_data_of_its_number(tmp_path: Path) -> None:
    source = tables_of(recipe_of("node-judge"), tmp_path)
    assert source is not None
    torch.testing.assert_close(source.task(1).features, source.task(1).features)
    assert source.task(1).features.shape != source.task(2).features.shape
    task = source.task(1)
    inner = task.parents >= 0
    assert (task.parents[inner] < torch.arange(len(inner))[inner]).all()
    assert ((task.overlaps >= 0) & (task.overlaps <= 1)).all()


def test_trees_do_not_depend_on_each_other(tmp_path: Path) -> None:
    source = tables_of(recipe_of("node-judge"), tmp_path)
    model = get_weights("node-judge").model
    assert isinstance(model, NodeJudge)
    one, two = source.pack(np.array([0])), source.pack(np.array([0, 5]))
    with torch.inference_mode():
        alone, both = model(one).overlaps, model(two).overlaps
    torch.testing.assert_close(alone, both[: len(alone)], atol=1e-5, rtol=1e-5)


def test_calibration_error() -> None:
    rng = np.random.default_rng(0)
    confidence = rng.random(100_000)
    right = rng.random(100_000) < confidence
    assert expected_calibration_error(confidence, right) < 0.01
    assert expected_calibration_error(np.full(10, 0.9), np.zeros(10, dtype=bool)) == pytest.approx(0.9)
