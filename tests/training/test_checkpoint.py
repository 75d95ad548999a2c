"""Checkpoints: the whole state comes back, files of others are refused, a torn save leaves the last one."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from clusterwise.exceptions import RecipeError, WeightsFileError
from clusterwise.papers.registry import make_model
from clusterwise.pretrained import Weights, weights_file
from clusterwise.pretrained.weights_file import save_weights
from clusterwise.priors import make_prior
from clusterwise.training.checkpoint import TrainingState, load_checkpoint, save_checkpoint
from clusterwise.training.loop import PriorSource, train_steps
from clusterwise.training.recipe import Recipe

TinyRecipe = Callable[..., Recipe]


def fresh(recipe: Recipe, seed: int) -> TrainingState:
    torch.manual_seed(seed)
    model = make_model(recipe.method, recipe.model)
    averaged = copy.deepcopy(model).requires_grad_(False)
    return TrainingState(model, averaged, torch.optim.Adam(model.parameters()))


def trained(recipe: Recipe, steps: int = 3) -> TrainingState:
    state = fresh(recipe, seed=0)
    few = dataclasses.replace(recipe, optimizer=dataclasses.replace(recipe.optimizer, steps=steps))
    train_steps(few, state, PriorSource(few, make_prior(**recipe.prior)), [])
    state.history.append({"step": 2, "ari": 0.25})
    return state


def assert_same(one: TrainingState, other: TrainingState) -> None:
    for module, other_module in ((one.model, other.model), (one.averaged, other.averaged)):
        other_tensors = other_module.state_dict()
        for name, tensor in module.state_dict().items():
            assert torch.equal(tensor, other_tensors[name]), name
    for parameter, other_parameter in zip(one.model.parameters(), other.model.parameters(), strict=True):
        moments, others = (
            one.optimizer.state.get(parameter, {}),
            other.optimizer.state.get(other_parameter, {}),
        )
        assert moments.keys() == others.keys()
        assert all(torch.equal(moments[key], others[key]) for key in moments)
    assert (one.step, one.seconds, one.running_loss) == (other.step, other.seconds, other.running_loss)
    assert one.history == other.history


@pytest.mark.parametrize("method", ["dac", "act-st"])
def test_round_trip(
    tiny_recipe: TinyRecipe, tiny: dict[str, dict[str, object]], tmp_path: Path, method: str
) -> None:
    for option in ("filtering", "n_anchors") if method == "act-st" else ():
        del tiny["model"][option]
    recipe = tiny_recipe(method=method)
    state, restored = trained(recipe), fresh(recipe, seed=99)
    save_checkpoint(tmp_path / "c.safetensors", recipe, state)
    load_checkpoint(tmp_path / "c.safetensors", recipe, restored)
    assert state.step == 3
    assert state.optimizer.state
    assert_same(state, restored)


def test_round_trip_before_the_first_step(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    state, restored = fresh(recipe, seed=0), fresh(recipe, seed=99)
    save_checkpoint(tmp_path / "c.safetensors", recipe, state)
    load_checkpoint(tmp_path / "c.safetensors", recipe, restored)
    assert torch.isnan(torch.tensor(restored.running_loss))  # no loss yet
    state.running_loss = restored.running_loss = 0.0
    assert_same(state, restored)


@pytest.mark.parametrize(
    "change",
    [{"seed": 4}, {"optimizer": {"steps": 11}}, {"prior": {"k_max": 2}}, {"sizes": {"n_points": [8]}}],
)
def test_checkpoint_of_another_recipe(
    tiny_recipe: TinyRecipe, tmp_path: Path, change: dict[str, object]
) -> None:
    recipe, other = tiny_recipe(), tiny_recipe(**change)
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, recipe, fresh(recipe, seed=0))
    state = fresh(other, seed=1)
    before = copy.deepcopy(state)
    with pytest.raises(RecipeError, match=r"c\.safetensors belongs to another recipe; resume with"):
        load_checkpoint(path, other, state)
    for tensor, same in zip(state.model.parameters(), before.model.parameters(), strict=True):
        assert torch.equal(tensor, same)


def test_weights_are_no_checkpoint(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    state = fresh(recipe, seed=0)
    path = tmp_path / "w.safetensors"
    save_weights(path, Weights("w", state.model, recipe.to_dict(), {}))
    with pytest.raises(RecipeError, match="belongs to another recipe"):
        load_checkpoint(path, recipe, state)


def test_truncated_checkpoint(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, recipe, fresh(recipe, seed=0))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WeightsFileError, match="truncated"):
        load_checkpoint(path, recipe, fresh(recipe, seed=0))


def test_a_torn_save_leaves_the_last_checkpoint(
    tiny_recipe: TinyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    path = tmp_path / "c.safetensors"
    save_checkpoint(path, recipe, fresh(recipe, seed=0))
    before = path.read_bytes()

    def torn(tensors: object, temporary: Path, metadata: object) -> None:
        temporary.write_bytes(before[:100])
        raise OSError("No space left on device")

    monkeypatch.setattr(weights_file, "save_file", torn)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, recipe, trained(recipe))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
