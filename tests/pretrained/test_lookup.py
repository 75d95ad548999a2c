"""Weights by name or path, loaded once; unknown ones list what there is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from clusterwise.exceptions import UnknownWeightsError, WeightsFileError
from clusterwise.papers.methods import JUDGES, make_model
from clusterwise.pretrained import (
    Weights,
    describe,
    get_weights,
    list_weights,
    lookup,
    untrained,
    weights_path,
)
from clusterwise.pretrained.weights_file import save_weights

MODEL = {"width": 4, "n_heads": 2, "n_inducing": 2, "n_encoder_blocks": 1, "n_decoder_blocks": 1}


def save(path: Path, method: str, seed: int = 0) -> None:
    torch.manual_seed(seed)
    recipe = {"method": method, "model": MODEL, "description": f"a small {method}"}
    weights = Weights(path.stem, make_model(method, MODEL), recipe, {"steps": 3, "largest_coordinate": 5.0})
    save_weights(path, weights)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two weights files and other things beside them."""
    directory = tmp_path / "package"
    for method in ("dac", "act-st"):
        save(directory / f"small-{method}.safetensors", method)
    (directory / "small-dac.md").write_text("a card")
    monkeypatch.setattr(lookup, "_shipped", lambda: directory)
    return directory


def test_names(shipped: Path) -> None:
    assert list_weights() == ["small-act-st", "small-dac"]


def test_by_name_and_by_path(shipped: Path, tmp_path: Path) -> None:
    assert weights_path("small-dac") == shipped / "small-dac.safetensors"
    mine = tmp_path / "mine.safetensors"
    save(mine, "dac")
    assert weights_path(mine) == weights_path(str(mine)) == mine
    assert get_weights(mine).name == "mine"


def test_a_shipped_name_wins_over_a_file_of_that_name(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small-dac").write_text("something else")
    assert get_weights("small-dac").model.method == "dac"


@pytest.mark.parametrize("name", ["small", "", "no/such/file.safetensors", ".", "NUL \0 in it"])
def test_unknown_weights_list_what_there_is(shipped: Path, name: str) -> None:
    with pytest.raises(UnknownWeightsError, match=r"shipped names \(small-act-st, small-dac\)") as error:
        get_weights(name)
    assert repr(name) in str(error.value)


def test_unknown_weights_when_none_are_shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_shipped", lambda: tmp_path)
    assert list_weights() == []
    with pytest.raises(UnknownWeightsError, match=r"\(none\)"):
        weights_path("dac")


def test_method_must_fit(shipped: Path) -> None:
    assert get_weights("small-dac", "dac").model.method == "dac"
    with pytest.raises(WeightsFileError, match="'small-dac' are for dac, not for act-st"):
        get_weights("small-dac", "act-st")


def test_loaded_once_and_again_when_the_file_changes(shipped: Path) -> None:
    first = get_weights("small-dac")
    assert get_weights(shipped / "small-dac.safetensors") is first
    path = shipped / "small-dac.safetensors"
    save(path, "dac", seed=1)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))  # clocks may be coarse
    again = get_weights("small-dac")
    assert again is not first
    assert not torch.equal(again.model.state_dict()["pool.seeds"], first.model.state_dict()["pool.seeds"])


def test_a_broken_file_is_an_error_each_time(shipped: Path) -> None:
    (shipped / "small-dac.safetensors").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(WeightsFileError, match="truncated"):
            get_weights("small-dac")


def test_loaded_weights_stand_for_themselves(shipped: Path) -> None:
    loaded = get_weights("small-dac")
    assert get_weights(loaded, "dac") is loaded
    with pytest.raises(WeightsFileError, match="'small-dac' are for dac, not for act-st"):
        get_weights(loaded, "act-st")
    assert repr(loaded) == "Weights(name='small-dac')"


def test_description_is_that_of_the_loaded_network(shipped: Path) -> None:
    model = get_weights("small-act-st").model
    assert describe("small-act-st") == {
        "name": "small-act-st",
        "method": "act-st",
        "n_features": model.n_features,
        "n_parameters": sum(p.numel() for p in model.parameters()),
        "steps": 3,
        "summary": "a small act-st",
    }


def test_description_of_a_file_that_is_no_weights_file(shipped: Path) -> None:
    path = shipped / "small-dac.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WeightsFileError, match="truncated"):
        describe("small-dac")
    save_weights(path, Weights("gap", make_model("dac", MODEL), {"method": "dac"}, {}))
    with pytest.raises(WeightsFileError, match=r"does not fit this version of clusterwise .*model"):
        describe("small-dac")


def test_untrained_network_is_the_same_but_for_its_numbers(shipped: Path) -> None:
    trained = get_weights("small-dac")
    state = torch.get_rng_state()
    control = untrained("small-dac", seed=7)
    assert torch.equal(torch.get_rng_state(), state)  # nothing is drawn from the user's generator
    assert control.name == "small-dac, untrained, seed 7"
    assert (control.recipe, control.facts) == (trained.recipe, trained.facts)
    assert control.model.config == trained.model.config
    before, after = trained.model.state_dict(), control.model.state_dict()
    assert {name: t.shape for name, t in before.items()} == {name: t.shape for name, t in after.items()}
    assert not torch.equal(before["pool.seeds"], after["pool.seeds"])
    assert not control.model.training
    assert not any(p.requires_grad for p in control.model.parameters())


def test_the_seed_decides_the_untrained_network(shipped: Path) -> None:
    first, again, other = (untrained("small-dac", seed).model.state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["pool.seeds"], other["pool.seeds"])


def test_weights_of_this_package_load() -> None:
    """Each has the name of its file and what users are told of it."""
    for name in list_weights():
        weights = get_weights(name)
        assert weights.name == name
        is_judge = weights.model.method in JUDGES
        assert is_judge or weights.facts["largest_coordinate"] > 1
        n_parameters = sum(p.numel() for p in weights.model.parameters())
        assert weights.facts["n_parameters"] == n_parameters
        described = describe(name)
        assert (described["name"], described["method"]) == (name, weights.model.method)
        assert described["n_features"] == (None if is_judge else weights.model.n_features)
        n_buffers = sum(buffer.numel() for buffer in weights.model.buffers())
        assert described["n_parameters"] in (n_parameters, n_parameters + n_buffers)
        assert described["summary"]
