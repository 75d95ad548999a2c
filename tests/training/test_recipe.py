"""Recipes: what they hold, what is wrong with bad ones, and the ones in recipes/."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import JUDGES, make_model
from clusterwise.priors import make_prior
from clusterwise.training import read_recipe
from clusterwise.training.labelled import LabelledSource
from clusterwise.training.recipe import LABELLED, OptimizerOptions, Recipe, SizeOptions, recipe_from_dict
from clusterwise.training.sources import draw_task

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))


def test_recipe_says_everything(tiny: dict[str, Any]) -> None:
    recipe = recipe_from_dict(tiny)
    assert recipe.name == "tiny"
    assert recipe.sizes == SizeOptions((8, 12), 24)
    assert recipe.optimizer == OptimizerOptions(10, 0.01, 3, 1.0, 0.9)
    assert recipe.validation.every == 4
    assert recipe.model["filtering"] == "anchored"


def test_sections_have_defaults(tiny: dict[str, Any]) -> None:
    for section in ("sizes", "optimizer", "validation", "seed", "description"):
        del tiny[section]
    tiny["optimizer"] = {"steps": 7}
    recipe = recipe_from_dict(tiny)
    assert recipe.sizes == SizeOptions()
    assert recipe.optimizer == OptimizerOptions(steps=7)
    assert recipe.seed == 0


def test_recipe_survives_json(tiny: dict[str, Any]) -> None:
    recipe = recipe_from_dict(tiny)
    assert recipe_from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("stepz", 3, "no entry 'stepz'; it takes description, "),
        ("name", "", "name in the recipe must be usable as a file name, got ''"),
        ("name", "a/b", "name in the recipe must be usable as a file name"),
        ("name", 3, "name in the recipe must be text, got 3"),
        ("method", ["dac"], "method in the recipe must be text"),
        ("seed", -1, "seed in the recipe must be a whole number of at least 0, got -1"),
        ("seed", 1.5, "seed in the recipe must be a whole number"),
        ("model", 3, r"\[model\] in the recipe must be a table"),
        ("prior", "crp-mixture", r"\[prior\] in the recipe must be a table"),
        ("prior", {"k_max": 3}, r"\[prior\] in the recipe lacks name"),
        ("sizes", 128, r"\[sizes\] in the recipe must be a table"),
        (
            "sizes",
            {"n_points": 128},
            r"n_points in \[sizes\] must be a list of positive whole numbers, got 128",
        ),
        ("sizes", {"n_points": []}, r"n_points in \[sizes\] must be a list"),
        ("sizes", {"n_points": [8, 0]}, r"n_points in \[sizes\] must be a list"),
        ("sizes", {"n_points": [8.5]}, r"n_points in \[sizes\] must be a list of positive whole numbers"),
        (
            "sizes",
            {"points_per_batch": [8]},
            r"points_per_batch in \[sizes\] must be a positive whole number",
        ),
        ("optimizer", {"momentum": 1}, r"\[optimizer\] has no option 'momentum'; it takes steps, "),
        ("optimizer", {"steps": 0}, r"steps in \[optimizer\] must be a positive whole number, got 0"),
        ("optimizer", {"steps": 10.0}, r"steps in \[optimizer\] must be a positive whole number"),
        ("optimizer", {"steps": True}, r"steps in \[optimizer\] must be"),
        ("optimizer", {"steps": "many"}, r"steps in \[optimizer\] must be"),
        ("optimizer", {"learning_rate": -1.0}, r"learning_rate in \[optimizer\] must be a positive number"),
        ("optimizer", {"learning_rate": float("nan")}, r"learning_rate in \[optimizer\] must be"),
        ("optimizer", {"clip": float("inf")}, r"clip in \[optimizer\] must be a positive number"),
        ("optimizer", {"average_decay": 1.5}, r"average_decay in \[optimizer\] must be at most 1"),
        ("optimizer", {"kept": 0.5}, r"kept in \[optimizer\] is a share of the weights"),  # there are none
        ("validation", {"every": 0}, r"every in \[validation\] must be"),
    ],
)
def test_what_is_wrong_is_named(tiny: dict[str, Any], entry: str, value: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        recipe_from_dict(tiny | {entry: value})


@pytest.mark.parametrize("entry", ["name", "method", "model", "prior"])
def test_what_is_missing_is_named(tiny: dict[str, Any], entry: str) -> None:
    del tiny[entry]
    with pytest.raises(RecipeError, match=f"lacks {entry}"):
        recipe_from_dict(tiny)


def test_a_whole_number_will_do_for_a_number(tiny: dict[str, Any]) -> None:
    assert recipe_from_dict(tiny | {"optimizer": {"clip": 10}}).optimizer.clip == 10


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"absent\.toml cannot be read \(No such file"):
        read_recipe(tmp_path / "absent.toml")
    with pytest.raises(RecipeError, match="cannot be read"):
        read_recipe(tmp_path)
    bad = tmp_path / "bad.toml"
    bad.write_text("name = \n")
    with pytest.raises(RecipeError, match=r"bad\.toml is truncated, damaged or no recipe in TOML"):
        read_recipe(bad)
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match=r"bad\.toml is truncated, damaged or no recipe in TOML"):
        read_recipe(bad)


def _check_labelled(recipe: Recipe) -> None:
    """The data are the user's: rows of the right shape stand in for them."""
    assert recipe.encoder is not None
    rows = np.random.default_rng(0).normal(size=(200, int(np.prod(recipe.encoder["image_shape"]))))
    recipe = dataclasses.replace(recipe, encoder={**recipe.encoder, "n_features": rows.shape[1]})
    source = LabelledSource(recipe, rows, np.arange(200) // 10, np.arange(200) // 40)
    model = make_model(recipe.method, recipe.model, recipe.encoder)
    source.start(model)
    assert model.loss(source.task(0), torch.Generator()).isfinite()


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_build(path: Path) -> None:
    """Each parses, is called as its file is, and its network takes what its prior draws."""
    recipe = read_recipe(path)
    assert isinstance(recipe, Recipe)
    assert recipe.name == path.stem
    assert recipe.description
    if recipe.prior["name"] == LABELLED:
        _check_labelled(recipe)
        return
    model = make_model(recipe.method, recipe.model)
    if recipe.method in JUDGES:
        assert recipe.prior["name"] == "broad"
        return
    prior = make_prior(**recipe.prior)
    assert prior.n_features == model.n_features
    loss = model.loss(draw_task(prior, np.random.default_rng(0), 2, 20), torch.Generator())
    assert loss.isfinite()
