"""Judges are trained on tables that are made once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from clusterwise.clusterer.node_judge import NodeJudge
from clusterwise.pretrained import get_weights
from clusterwise.training import train
from clusterwise.training.callbacks import Callback
from clusterwise.training.checkpoint import TrainingState
from clusterwise.training.partition_tasks import PartitionSource, expected_calibration_error
from clusterwise.training.recipe import Recipe, recipe_from_dict
from clusterwise.training.sources import source_of_tables


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


@pytest.mark.parametrize("method", ["node-judge", "partition-judge"])
def test_training_from_a_recipe(tmp_path: Path, method: str) -> None:
    recipe = recipe_of(method)
    path = train(recipe, tmp_path, verbose=False)
    assert path is not None
    weights = get_weights(path, method)
    assert weights.facts["steps"] == 3
    assert path.with_suffix(".md").read_text().count("|") > 20
    assert (weights.model.spreads > 0).all() and (weights.model.spreads != 1).any()
    shards = sorted((tmp_path / "small-tables").iterdir())
    made = [shard.stat().st_mtime_ns for shard in shards]
    again = train(recipe, tmp_path, verbose=False)
    assert [shard.stat().st_mtime_ns for shard in shards] == made
    assert again is not None
    same = get_weights(again).model.state_dict()
    for name, tensor in weights.model.state_dict().items():
        torch.testing.assert_close(tensor, same[name])


def test_further_tables_of_even_clusters(tmp_path: Path) -> None:
    recipe = recipe_of("partition-judge")
    more = replace(
        recipe,
        prior={**recipe.prior, "uneven": 1.0},
        tables=replace(recipe.tables, n_tables=3, n_even_tables=2),
    )
    source = source_of_tables(more, tmp_path, verbose=False)
    plain = source_of_tables(
        replace(recipe, tables=replace(recipe.tables, n_tables=2)), tmp_path / "plain", verbose=False
    )
    assert isinstance(source, PartitionSource) and isinstance(plain, PartitionSource)
    assert len(source.tables) == 5
    for one, other in zip(source.tables[3:], plain.tables, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)


def test_no_time_is_left_for_the_tables(tmp_path: Path) -> None:
    assert train(recipe_of("node-judge"), tmp_path, minutes=0.0, verbose=False) is None


def test_somebody_asks_to_stop_while_tables_are_made(tmp_path: Path) -> None:
    class Asked(Callback):
        def after_step(self, state: TrainingState) -> bool:
            raise AssertionError("no step should be taken")

        def is_over(self) -> bool:
            return True

    assert train(recipe_of("node-judge"), tmp_path, callbacks=[Asked()], verbose=False) is None


def test_a_step_has_the_data_of_its_number(tmp_path: Path) -> None:
    source = source_of_tables(recipe_of("node-judge"), tmp_path, verbose=False)
    assert source is not None
    torch.testing.assert_close(source.task(1).features, source.task(1).features)
    assert source.task(1).features.shape != source.task(2).features.shape
    task = source.task(1)
    inner = task.parents >= 0
    assert (task.parents[inner] < torch.arange(len(inner))[inner]).all()
    assert ((task.overlaps >= 0) & (task.overlaps <= 1)).all()


def test_trees_do_not_hear_of_each_other(tmp_path: Path) -> None:
    source = source_of_tables(recipe_of("node-judge"), tmp_path, verbose=False)
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
