"""What happens beside the optimization: validation, progress, checkpoints, the time limit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor, nn

from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.pretrained.weights_file import read_tensors
from clusterwise.priors import make_prior
from clusterwise.training import callbacks
from clusterwise.training.callbacks import Checkpoint, Progress, TimeLimit, Validation
from clusterwise.training.checkpoint import TrainingState
from clusterwise.training.recipe import Recipe

TinyRecipe = Callable[..., Recipe]


def state_of(model: nn.Module, step: int = 0, running_loss: float = 1.0) -> TrainingState:
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    return TrainingState(model, copy.deepcopy(model), optimizer, step, running_loss=running_loss)


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
def validation(tiny_recipe: TinyRecipe) -> Validation:
    recipe = tiny_recipe(validation={"every": 4, "n_sets": 5, "n_points": 20})
    return Validation(recipe, make_prior(**recipe.prior))


def test_the_truth_scores_one(validation: Validation) -> None:
    assert validation.measure(Answers(validation.task.labels)) == {"ari": 1.0, "k_mae": 0.0}


def test_scores_are_means_over_data_sets(validation: Validation) -> None:
    wrong = (torch.arange(20) % 4).repeat(5, 1)
    truth = validation.task.labels.numpy()
    found = validation.measure(Answers(wrong))
    assert found["ari"] == pytest.approx(np.mean([adjusted_rand_score(y, wrong[0]) for y in truth]))
    assert found["k_mae"] == pytest.approx(np.mean([4 - len(set(y.tolist())) for y in truth]))


def test_validation_data_are_the_same_every_time_and_not_those_of_training(tiny_recipe: TinyRecipe) -> None:
    recipe, other = tiny_recipe(), tiny_recipe(seed=8)
    one, again = (Validation(recipe, make_prior(**recipe.prior)).task.points for _ in range(2))
    assert torch.equal(one, again)
    assert not torch.equal(one, Validation(other, make_prior(**other.prior)).task.points)


def test_validation_runs_every_few_steps_and_at_the_last(validation: Validation) -> None:
    state = state_of(Answers(validation.task.labels), running_loss=0.5)
    for step in range(1, 11):  # the recipe has 10 steps
        state.step = step
        assert not validation.after_step(state)
    assert [entry["step"] for entry in state.history] == [4, 8, 10]
    assert state.history[0] == {"step": 4, "loss": 0.5, "ari": 1.0, "k_mae": 0.0}


def test_only_networks_that_infer_are_validated(validation: Validation) -> None:
    with pytest.raises(TypeError, match="Linear cannot infer"):
        validation.measure(nn.Linear(1, 1))


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
        assert not progress.after_step(state)
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
        progress.after_step(state_of(nn.Linear(1, 1), step))
        clock.now += 60.0
    assert lines[-1] == "step 43/100  loss 1.0000  57.0 min left"


def test_progress_goes_to_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    Progress(n_steps=2).after_step(state_of(nn.Linear(1, 1), 1))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "step 1/2  loss 1.0000\n"


# -- checkpoints and time ----------------------------------------------------------------------------


def test_checkpoints_come_every_few_steps_and_at_the_end(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    callback = Checkpoint(path, tiny_recipe(), every=3)
    state, saved = state_of(nn.Linear(1, 1)), []
    for step in range(1, 9):
        state.step = step
        assert not callback.after_step(state)
        saved.append(read_tensors(path)[1]["progress"]["step"] if path.exists() else None)
    assert saved == [None, None, 3, 3, 3, 6, 6, 6]
    callback.at_end(state)
    assert read_tensors(path)[1]["progress"]["step"] == 8


def test_time_limit_stops_when_time_is_up(clock: Clock) -> None:
    limit, state = TimeLimit(minutes=2.0), state_of(nn.Linear(1, 1))
    clock.now += 119.0
    assert not limit.after_step(state)
    clock.now += 2.0
    assert limit.after_step(state)
