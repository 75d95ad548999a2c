"""What happens between steps: figures, progress; checkpoints hold everything, files of others are refused."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import make_model
from clusterwise.pretrained import Weights
from clusterwise.pretrained.weights_file import read_tensors, save_weights
from clusterwise.priors import make_prior
from clusterwise.training import callbacks
from clusterwise.training.callbacks import (
    Checkpoint,
    Measured,
    Progress,
    TrainingState,
    load_checkpoint,
    restore,
    save_checkpoint,
)
from clusterwise.training.loop import train_steps
from clusterwise.training.recipe import Recipe
from clusterwise.training.sources import PriorSource

TinyRecipe = Callable[..., Recipe]


def state_of(model: nn.Module, step: int = 0, running_loss: float = 1.0) -> TrainingState:
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    return TrainingState(model, copy.deepcopy(model), optimizer, step, running_loss=running_loss)


# -- figures -----------------------------------------------------------------------------------------


def test_figures_are_measured_every_few_steps_and_at_the_last(tiny_recipe: TinyRecipe) -> None:
    state = state_of(nn.Linear(1, 1), running_loss=0.5)
    measured = Measured(tiny_recipe(), lambda model: {"ari": float(model is state.averaged)})
    for step in range(1, 11):  # the recipe has 10 steps
        state.step = step
        assert not measured(state)
    assert [entry["step"] for entry in state.history] == [4, 8, 10]
    assert state.history[0] == {"step": 4, "loss": 0.5, "ari": 1.0}


# -- progress ----------------------------------------------------------------------------------------


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(callbacks, "time", clock)
    return clock


def test_progress_says_step_loss_score_and_time_left(clock: Clock) -> None:
    lines: list[str] = []
    progress = Progress(n_steps=100, interval=10.0, write=lines.append)
    state = state_of(nn.Linear(1, 1), running_loss=1.25)
    for step in range(1, 101):
        state.step = step
        if step == 15:
            state.history.append({"step": 15, "loss": 1.25, "ari": 0.5, "k_mae": 0.75})
        assert not progress(state)
        clock.now += 1.0
    assert len(lines) == 11  # the first step, every ten seconds, the last step
    assert lines[0] == "step 1/100  loss 1.2500"
    assert lines[1] == "step 11/100  loss 1.2500  1.5 min left"
    assert lines[2] == "step 21/100  loss 1.2500  ARI 0.5000  k-MAE 0.7500 (step 15)  1.3 min left"
    assert lines[-1].endswith("0.0 min left")


def test_a_resumed_training_is_timed_from_where_it_resumed(clock: Clock) -> None:
    lines: list[str] = []
    progress = Progress(n_steps=100, interval=0.0, write=lines.append)
    for step in (41, 42, 43):
        progress(state_of(nn.Linear(1, 1), step))
        clock.now += 60.0
    assert lines[-1] == "step 43/100  loss 1.0000  57.0 min left"


def test_progress_goes_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(n_steps=2)(state_of(nn.Linear(1, 1), 1))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "step 1/2  loss 1.0000\n"


# -- checkpoints -------------------------------------------------------------------------------------


def test_checkpoints_come_every_few_steps(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    callback = Checkpoint(path, tiny_recipe(), every=3)
    state, saved = state_of(nn.Linear(1, 1)), []
    for step in range(1, 9):
        state.step = step
        assert not callback(state)
        saved.append(read_tensors(path)[1]["progress"]["step"] if path.exists() else None)
    assert saved == [None, None, 3, 3, 3, 6, 6, 6]


def fresh(recipe: Recipe, seed: int) -> TrainingState:
    torch.manual_seed(seed)
    model = make_model(recipe.method, recipe.model)
    averaged = copy.deepcopy(model).requires_grad_(False)
    return TrainingState(model, averaged, torch.optim.Adam(model.parameters()), beginning=(torch.rand(3),))


def trained(recipe: Recipe, steps: int = 3) -> TrainingState:
    state = fresh(recipe, seed=0)
    few = dataclasses.replace(recipe, optimizer=dataclasses.replace(recipe.optimizer, steps=steps))
    train_steps(few, state, PriorSource(few, make_prior(**recipe.prior)), [])
    state.history.append({"step": 2, "ari": 0.25})
    state.finished.append({"steps": 7, "seconds": 0.5})
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
    assert (one.history, one.finished) == (other.history, other.finished)
    assert [tensor.tolist() for tensor in one.beginning] == [tensor.tolist() for tensor in other.beginning]


@pytest.mark.parametrize("method", ["dac", "act-st"])
def test_round_trip(
    tiny_recipe: TinyRecipe, tiny: dict[str, dict[str, object]], tmp_path: Path, method: str
) -> None:
    for option in ("filtering", "n_anchors") if method == "act-st" else ():
        del tiny["model"][option]
    recipe = tiny_recipe(method=method)
    state, restored = trained(recipe), fresh(recipe, seed=99)
    save_checkpoint(tmp_path / "c.safetensors", recipe, state)
    restore(restored, *load_checkpoint(tmp_path / "c.safetensors", recipe))
    assert state.step == 3
    assert state.optimizer.state
    assert_same(state, restored)


def test_round_trip_before_the_first_step(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    state, restored = fresh(recipe, seed=0), fresh(recipe, seed=99)
    save_checkpoint(tmp_path / "c.safetensors", recipe, state)
    restore(restored, *load_checkpoint(tmp_path / "c.safetensors", recipe))
    assert torch.isnan(torch.tensor(restored.running_loss))  # no loss yet
    state.running_loss = restored.running_loss = 0.0
    assert_same(state, restored)


def test_weights_are_no_checkpoint(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    state = fresh(recipe, seed=0)
    path = tmp_path / "w.safetensors"
    save_weights(path, Weights("w", state.model, recipe.to_dict(), {}))
    with pytest.raises(RecipeError, match="belongs to another recipe"):
        load_checkpoint(path, recipe)
