"""The training loop: schedule, clipping, averaging; killed and resumed it ends as if nothing had happened."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import make_model
from clusterwise.pretrained.weights_file import in_half_precision, load_weights, read_tensors
from clusterwise.priors import make_prior
from clusterwise.training import sources, train
from clusterwise.training.callbacks import TrainingState
from clusterwise.training.loop import learning_rate_at, train_steps
from clusterwise.training.recipe import OptimizerOptions, Recipe, recipe_from_dict
from clusterwise.training.sources import PriorSource, draw_task, rng_of_step

TinyRecipe = Callable[..., Recipe]


@pytest.fixture(autouse=True)
def few_draws_for_the_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of data sets for one figure in the header would cost more than all the steps."""
    monkeypatch.setattr(sources, "SETS_TO_MEASURE", 20)


class Recorder:
    """Keeps what the loop shows."""

    def __init__(self) -> None:
        self.weights: list[list[torch.Tensor]] = []
        self.gradient_norms: list[float] = []
        self.rates: list[float] = []

    def __call__(self, state: TrainingState) -> bool:
        parameters = list(state.model.parameters())
        self.weights.append([p.detach().double().clone() for p in parameters])
        norms = [float(p.grad.norm()) for p in parameters if p.grad is not None]
        self.gradient_norms.append(math.hypot(*norms))
        self.rates.append(state.optimizer.param_groups[0]["lr"])
        return False


def stop_after(n_steps: int) -> Callable[[], bool]:
    """True after so many steps of a run: ``stop`` is asked once after each."""
    calls = itertools.count(1)
    return lambda: next(calls) >= n_steps


def fresh(recipe: Recipe) -> TrainingState:
    torch.manual_seed(0)
    model = make_model(recipe.method, recipe.model)
    averaged = copy.deepcopy(model).requires_grad_(False)
    return TrainingState(model, averaged, torch.optim.Adam(model.parameters()))


def assert_same_weights(one: Path, other: Path) -> None:
    """Compare two weights files bit for bit, but for the seconds that they took."""
    tensors, header = read_tensors(one)
    others, other_header = read_tensors(other)
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name
    for figures in (header["facts"], other_header["facts"]):
        figures.pop("seconds")
    assert header == other_header


# -- schedule ----------------------------------------------------------------------------------------


def test_learning_rate_rises_then_falls_to_zero() -> None:
    options = OptimizerOptions(steps=100, learning_rate=0.5, warm_up=10)
    rates = [learning_rate_at(step, options) for step in range(100)]
    for step, rate in enumerate(rates):
        cosine = (1 + math.cos(math.pi * step / 100)) / 2
        assert rate == pytest.approx(0.5 * cosine * ((step + 1) / 10 if step < 10 else 1.0))
    assert rates[0] == pytest.approx(0.05)
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[50] == pytest.approx(0.25)
    assert learning_rate_at(100, options) == pytest.approx(0.0, abs=1e-12)


def test_loop_uses_the_schedule(tiny_recipe: TinyRecipe) -> None:
    recipe, recorder = tiny_recipe(), Recorder()
    train_steps(recipe, fresh(recipe), PriorSource(recipe, make_prior(**recipe.prior)), [recorder])
    assert recorder.rates == [learning_rate_at(step, recipe.optimizer) for step in range(10)]


def test_gradients_are_clipped(tiny_recipe: TinyRecipe) -> None:
    recipe, recorder = tiny_recipe(optimizer={"clip": 0.01}), Recorder()
    train_steps(recipe, fresh(recipe), PriorSource(recipe, make_prior(**recipe.prior)), [recorder])
    assert max(recorder.gradient_norms) <= 0.01 * (1 + 1e-4)
    assert max(recorder.gradient_norms) > 0.0099  # they were larger


@pytest.mark.parametrize("average_decay", [0.3, 0.9])
def test_average_of_the_weights(tiny_recipe: TinyRecipe, average_decay: float) -> None:
    recipe, recorder = tiny_recipe(optimizer={"average_decay": average_decay}), Recorder()
    state = fresh(recipe)
    expected = [p.detach().double().clone() for p in state.model.parameters()]
    train_steps(recipe, state, PriorSource(recipe, make_prior(**recipe.prior)), [recorder])
    for step, weights in enumerate(recorder.weights):
        decay = min(average_decay, (1 + step) / (10 + step))
        for tensor, new in zip(expected, weights, strict=True):
            tensor.copy_(decay * tensor + (1 - decay) * new)
    for tensor, found in zip(expected, state.averaged.parameters(), strict=True):
        torch.testing.assert_close(found.double(), tensor, rtol=1e-5, atol=1e-6)
    last = torch.cat([w.flatten() for w in recorder.weights[-1]])
    assert not torch.allclose(last, torch.cat([w.flatten() for w in expected]), atol=1e-5)


@pytest.mark.parametrize(
    ("method", "options"),
    [("dac", {"filtering": "minimum-loss"}), ("dac", {"filtering": "anchored"}), ("act-st", {})],
)
def test_training_lowers_the_loss(
    tiny_recipe: TinyRecipe, tiny: dict[str, Any], method: str, options: dict[str, Any]
) -> None:
    tiny["model"] = {
        key: value for key, value in tiny["model"].items() if key not in ("filtering", "n_anchors")
    }
    recipe = tiny_recipe(method=method, model=options, optimizer={"steps": 60, "learning_rate": 0.02})
    state, prior = fresh(recipe), make_prior(**recipe.prior)
    task = draw_task(prior, rng_of_step(0, 9, 0), 20, 12)

    @torch.no_grad()
    def loss() -> float:
        return float(state.model.loss(task, torch.Generator().manual_seed(0)))  # type: ignore[operator]

    before = loss()
    train_steps(recipe, state, PriorSource(recipe, prior), [])
    assert loss() < before - 0.1


# -- from recipe to file -----------------------------------------------------------------------------


def test_train_writes_weights(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    path = train(recipe, tmp_path / "new" / "directory", verbose=False)
    assert path == tmp_path / "new" / "directory" / "tiny.safetensors"
    weights = load_weights(path)
    assert weights.name == "tiny"
    assert weights.model.method == "dac"
    assert weights.recipe == json.loads(json.dumps(recipe.to_dict()))
    assert weights.facts["steps"] == 10
    assert weights.facts["n_parameters"] == sum(p.numel() for p in weights.model.parameters())
    assert [entry["step"] for entry in weights.facts["history"]] == [4, 8, 10]
    assert all(-1 <= entry["ari"] <= 1 and entry["k_mae"] >= 0 for entry in weights.facts["history"])
    assert 1.0 < weights.facts["largest_coordinate"] < 20.0
    state = read_tensors(tmp_path / "new" / "directory" / "tiny.checkpoint.safetensors")[0]
    for name, stored in weights.model.named_parameters():  # the average, not the last
        assert torch.equal(stored, in_half_precision(state[f"averaged/{name}"]))
    assert path.stat().st_size < 3 * weights.facts["n_parameters"] + 10_000  # two bytes each, and a header
    assert any(not torch.equal(p, state[f"model/{name}"]) for name, p in weights.model.named_parameters())


def test_the_seed_decides_everything(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    state = torch.get_rng_state()
    first = train(tiny_recipe(), tmp_path / "1", verbose=False)
    assert torch.equal(torch.get_rng_state(), state)  # the user's own draws go on as if nothing had been
    torch.rand(3)
    again = train(tiny_recipe(), tmp_path / "2", verbose=False)
    other = train(tiny_recipe(seed=4), tmp_path / "3", verbose=False)
    assert first is not None
    assert again is not None
    assert other is not None
    assert_same_weights(first, again)
    assert not torch.equal(
        read_tensors(first)[0]["membership.bias"], read_tensors(other)[0]["membership.bias"]
    )


def test_options_of_prior_and_model_are_named(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="widht"):
        train(tiny_recipe(model={"widht": 8}), tmp_path, verbose=False)


# -- stopped and resumed -----------------------------------------------------------------------------


def test_time_limit(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    """No minute at all is one step each time; ten of them make the whole training."""
    recipe = tiny_recipe()
    whole = train(recipe, tmp_path / "whole", verbose=False)
    path = None
    for run in range(10):
        assert path is None
        path = train(recipe, tmp_path / "parts", resume=run > 0, minutes=0, verbose=False)
    assert whole is not None
    assert path is not None
    assert_same_weights(whole, path)


def test_resume_without_checkpoint_starts_at_the_beginning(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    assert train(tiny_recipe(), tmp_path, resume=True, verbose=False) is not None


def test_resume_with_another_recipe(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    train(tiny_recipe(), tmp_path, stop=stop_after(2), verbose=False)
    with pytest.raises(RecipeError, match="belongs to another recipe"):
        train(tiny_recipe(seed=5), tmp_path, resume=True, verbose=False)


def test_a_step_cut_in_half_is_not_saved(
    tiny_recipe: TinyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    whole = train(recipe, tmp_path / "whole", verbose=False)
    step, calls = torch.optim.AdamW.step, itertools.count(1)

    def half_a_step(optimizer: torch.optim.AdamW) -> None:
        step(optimizer)
        if next(calls) == 6:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch.optim.AdamW, "step", half_a_step)
        train(recipe, tmp_path / "parts", checkpoint_every=2, verbose=False)
    resumed = train(recipe, tmp_path / "parts", resume=True, verbose=False)
    assert whole is not None
    assert resumed is not None
    assert_same_weights(whole, resumed)


def test_a_loss_that_is_not_finite_stops_before_the_weights_are_spoilt(
    tiny_recipe: TinyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe()
    state = fresh(recipe)
    before = copy.deepcopy(state.model)
    monkeypatch.setattr(type(state.model), "loss", lambda *_: torch.tensor(math.nan, requires_grad=True))
    with pytest.raises(RecipeError, match=r"loss is nan at step 0; lower learning_rate in \[optimizer\]"):
        train_steps(recipe, state, PriorSource(recipe, make_prior(**recipe.prior)), [])
    for parameter, same in zip(state.model.parameters(), before.parameters(), strict=True):
        assert torch.equal(parameter, same)


# -- from other weights, in phases -------------------------------------------------------------------

FIRST: dict[str, Any] = {
    "seed": 3,
    "optimizer": {"steps": 6, "warm_up": 2, "kept": 0.0},
    "prior": {"k_max": 2},
}
SECOND: dict[str, Any] = {
    "seed": 4,
    "optimizer": {"steps": 5, "warm_up": 1, "kept": 0.25},
    "model": {"n_anchors": 3},
}


@pytest.fixture
def in_phases(tiny: dict[str, Any]) -> Recipe:
    """FIRST and SECOND as the phases of one recipe."""
    first = {"model": {"n_anchors": 2}, "optimizer": FIRST["optimizer"], "prior": FIRST["prior"]}
    second = {"optimizer": SECOND["optimizer"]}
    return recipe_from_dict(tiny | {"model": tiny["model"] | SECOND["model"], "phase": [first, second]})


def test_phases_are_trainings_that_start_with_the_one_before(
    tiny_recipe: TinyRecipe, in_phases: Recipe, tmp_path: Path
) -> None:
    for name, start, changes in (("first", "", FIRST), ("second", "first", SECOND)):
        chained = train(tiny_recipe(name=name, start=start, **changes), tmp_path, verbose=False)
    whole = train(in_phases, tmp_path, verbose=False)
    assert whole is not None
    assert chained is not None
    one, other = load_weights(whole), load_weights(chained)
    for name, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, other.model.state_dict()[name]), name
    assert one.model.config == other.model.config
    assert one.facts["history"] == other.facts["history"]
    assert one.facts["steps"] == 11
    assert [phase["steps"] for phase in one.facts["phases"]] == [6, 5]
    assert recipe_from_dict(one.recipe) == in_phases
    assert "11 steps in 2 phases (6, 5)" in whole.with_suffix(".md").read_text()


@pytest.mark.parametrize("stops", [[2], [6], [8], [10], [3, 4, 3]])
def test_stopped_and_resumed_in_any_phase(in_phases: Recipe, tmp_path: Path, stops: list[int]) -> None:
    whole = train(in_phases, tmp_path / "whole", verbose=False)
    for n_steps in stops:
        stopped = train(in_phases, tmp_path / "parts", resume=True, stop=stop_after(n_steps), verbose=False)
        assert stopped is None
    resumed = train(in_phases, tmp_path / "parts", resume=True, verbose=False)
    assert whole is not None
    assert resumed is not None
    tensors, others = read_tensors(whole)[0], read_tensors(resumed)[0]
    assert all(torch.equal(tensor, others[name]) for name, tensor in tensors.items())
    assert load_weights(whole).facts["history"] == load_weights(resumed).facts["history"]


def test_errors_of_a_later_phase_come_before_the_first_step(
    tiny: dict[str, Any], tiny_recipe: TinyRecipe, tmp_path: Path
) -> None:
    for change, message in (
        ({"prior": {"n_features": 3}}, r"\[prior\] draws 3 features and \[model\] takes 2"),
        ({"prior": {"k_maximum": 3}}, "k_maximum"),
    ):
        with pytest.raises(RecipeError, match=message):
            train(recipe_from_dict(tiny | {"phase": [{}, change]}), tmp_path, verbose=False)
    wider = recipe_from_dict(tiny | {"phase": [{"model": {"width": 12}}, {}]})
    with pytest.raises(RecipeError, match=r"phase-2 cannot start with tiny-phase-1: .* shape \(12, .* \(8, "):
        train(wider, tmp_path, verbose=False)
    assert not list(tmp_path.iterdir())


def test_a_share_of_the_first_weights_is_kept(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    first = train(tiny_recipe(name="first"), tmp_path, verbose=False)
    assert first is not None
    found = []
    for kept in (0.0, 0.25):
        recipe = tiny_recipe(name="second", start="first", optimizer={"steps": 3, "kept": kept})
        path = train(recipe, tmp_path, verbose=False)
        assert path is not None
        found.append(dict(load_weights(path).model.named_parameters()))
    for name, before in load_weights(first).model.named_parameters():
        new, mixed = found[0][name], found[1][name]
        torch.testing.assert_close(mixed, 0.75 * new + 0.25 * before, rtol=1e-3, atol=1e-6)  # rounded
    assert any(not torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_another_network_is_no_start(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    train(tiny_recipe(name="first"), tmp_path, verbose=False)
    train(tiny_recipe(), tmp_path, stop=stop_after(2), verbose=False)  # a checkpoint hides no error
    wider = tiny_recipe(start="first", model={"width": 12})
    with pytest.raises(RecipeError, match=r"cannot start with first: .* has the shape .* there"):
        train(wider, tmp_path, resume=True, verbose=False)
    with pytest.raises(RecipeError, match="it has no parameter of a network for dac; choose"):
        train(tiny_recipe(start="node-judge"), tmp_path, verbose=False)


# -- kill -9 -----------------------------------------------------------------------------------------

KILLED = """
import json, os, signal, sys
from pathlib import Path

from clusterwise.pretrained import weights_file
from clusterwise.training import train
from clusterwise.training.recipe import recipe_from_dict

recipe, directory = json.loads(sys.argv[1])
save, steps = weights_file.save_file, []


def from_step_5():
    steps.append(1)
    if len(steps) == 5:
        weights_file.save_file = half_a_file
    return False


def half_a_file(tensors, path, metadata):
    save(tensors, path, metadata)
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: len(whole) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


train(recipe_from_dict(recipe), directory, checkpoint_every=3, stop=from_step_5, verbose=False)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
def test_killed_and_resumed(tiny_recipe: TinyRecipe, tmp_path: Path) -> None:
    """Killed while it writes the checkpoint of step 6, it goes on from that of step 3: the same bits."""
    recipe = tiny_recipe()
    plan = json.dumps([recipe.to_dict(), str(tmp_path / "killed")])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, plan], env=environment, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert read_tensors(tmp_path / "killed" / "tiny.checkpoint.safetensors")[1]["progress"]["step"] == 3
    assert not (tmp_path / "killed" / "tiny.safetensors").exists()
    resumed = train(recipe, tmp_path / "killed", resume=True, verbose=False)
    whole = train(recipe, tmp_path / "whole", verbose=False)
    assert whole is not None
    assert resumed is not None
    assert_same_weights(whole, resumed)
