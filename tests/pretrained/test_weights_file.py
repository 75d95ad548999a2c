"""Weights files: everything comes back; anything but an intact file of ours is one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from clusterwise.exceptions import WeightsFileError
from clusterwise.papers.methods import make_model
from clusterwise.pretrained import list_weights, weights_file, weights_path
from clusterwise.pretrained.lookup import Weights, read_header
from clusterwise.pretrained.weights_file import (
    in_half_precision,
    load_weights,
    read_tensors,
    save_weights,
    write_tensors,
)
from clusterwise.training.callbacks import TrainingState, save_checkpoint
from clusterwise.training.recipe import recipe_from_dict

MODEL = {"width": 4, "n_heads": 2, "n_inducing": 2, "n_encoder_blocks": 1, "n_decoder_blocks": 1}
FACTS = {"steps": 3, "seconds": 0.5, "largest_coordinate": 9.0}
RECIPE = {"name": "small", "method": "dac", "model": MODEL, "prior": {"name": "mixture-of-gaussians"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An intact weights file, alone in its directory."""
    torch.manual_seed(0)
    path = tmp_path / "small.safetensors"
    save_weights(path, Weights("small", make_model("dac", MODEL), RECIPE, FACTS))
    return path


def test_round_trip(path: Path) -> None:
    torch.manual_seed(0)
    expected = make_model("dac", MODEL).state_dict()
    state = torch.get_rng_state()
    weights = load_weights(path)
    assert torch.equal(torch.get_rng_state(), state)  # loading draws nothing from the user's generator
    assert (weights.name, weights.recipe, weights.facts) == ("small", RECIPE, FACTS)
    found = weights.model.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert not weights.model.training
    assert not any(p.requires_grad for p in weights.model.parameters())


def test_tensors_of_all_kinds(tmp_path: Path) -> None:
    tensors = {
        "not contiguous": torch.arange(6.0).reshape(2, 3).T,
        "scalar": torch.tensor(3.0),
        "double": torch.tensor([1e-300], dtype=torch.float64),
        "whole": torch.tensor([2**40]),
        "empty": torch.zeros(0, 3),
    }
    header = {
        "text": 'quotes " and ünicode',
        "nested": {"list": [1, 2.5, None, True]},
        "number": float("inf"),
    }
    write_tensors(tmp_path / "t.safetensors", tensors, header)
    found, found_header = read_tensors(tmp_path / "t.safetensors")
    assert found_header == header
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("place", [0, 10, 1000, -8, -1])
def test_truncated_file(path: Path, place: int) -> None:
    path.write_bytes(path.read_bytes()[:place])
    with pytest.raises(WeightsFileError, match=r"small\.safetensors is truncated, damaged or no"):
        load_weights(path)


@pytest.mark.parametrize("place", [1, 100, 777])
def test_one_flipped_bit(path: Path, place: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[-place] ^= 1  # the tensors come last
    path.write_bytes(bytes(damaged))
    with pytest.raises(WeightsFileError, match=r"small\.safetensors is damaged.*copy it again"):
        load_weights(path)


def test_files_without_a_digest_are_read(path: Path) -> None:
    tensors, header = read_tensors(path)
    assert "digest" not in header
    save_file(tensors, path, {key: json.dumps(value) for key, value in header.items()})
    found = load_weights(path).model.state_dict()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_weights_that_are_no_numbers(path: Path) -> None:
    tensors, header = read_tensors(path)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point())
    tensors[name].reshape(-1)[0] = float("nan")
    write_tensors(path, tensors, header)
    with pytest.raises(WeightsFileError, match=r"small\.safetensors holds NaN or infinity"):
        load_weights(path)


def test_shipped_files_have_a_digest_and_half_precision() -> None:
    from safetensors import safe_open

    for name in list_weights():
        with safe_open(weights_path(name), framework="np") as file:
            assert "digest" in file.metadata(), name
        n_parameters = read_header(weights_path(name))[1]
        assert weights_path(name).stat().st_size < 3 * n_parameters, f"{name} was not rounded; train it again"


def test_half_precision_is_used_only_where_it_loses_nothing(tmp_path: Path) -> None:
    model = make_model("dac", MODEL)
    exact, large, fine = list(model.parameters())[:3]
    with torch.no_grad():
        exact.copy_(in_half_precision(exact))
        large.fill_(1e5)
        fine.fill_(1 / 3)
    assert torch.equal(in_half_precision(large), large)
    save_weights(tmp_path / "w.safetensors", Weights("w", model, RECIPE, FACTS))
    found = load_weights(tmp_path / "w.safetensors").model.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in found.values()} == {torch.float32}


@pytest.mark.parametrize(
    "content",
    [
        np.random.default_rng(0).bytes(5000),
        b"PK\x03\x04" + bytes(500),
        b"name,colour\n1,red\n" * 50,
        (10).to_bytes(8, "little") + b'{"a": "b"}',
        (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc",
    ],
    ids=["random", "zip", "csv", "another header", "no text in the header"],
)
def test_foreign_bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(WeightsFileError, match=r"small\.safetensors is truncated, damaged or no"):
        load_weights(path)


@pytest.mark.parametrize(
    "metadata",
    [None, {}, {"format": "pt"}, {"format": json.dumps("another-format")}, {"format": json.dumps([1])}],
    ids=["none", "empty", "of another program", "another format", "a list"],
)
def test_safetensors_of_another_program(path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"weight": torch.zeros(2)}, path, metadata)
    with pytest.raises(WeightsFileError, match=r"small\.safetensors is not a clusterwise weights file"):
        load_weights(path)


def test_checkpoint_is_not_a_weights_file(path: Path) -> None:
    torch.manual_seed(0)
    model, averaged = make_model("dac", MODEL), make_model("dac", MODEL)
    state = TrainingState(model, averaged, torch.optim.Adam(model.parameters()))
    save_checkpoint(path, recipe_from_dict(RECIPE), state)
    with pytest.raises(WeightsFileError, match="is not a clusterwise weights file"):
        load_weights(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": RECIPE | {"method": "unheard-of"}},
        {"recipe": RECIPE | {"model": MODEL | {"unheard_of": 1}}},
        {"recipe": RECIPE | {"model": MODEL | {"width": 8}}},
        {"recipe": RECIPE | {"model": MODEL | {"width": "wide"}}},
        {"recipe": RECIPE | {"model": None}},
        {"recipe": RECIPE | {"model": MODEL | {"width": 100_000}}},  # more than this machine has room for
        {"recipe": RECIPE | {"model": MODEL | {"n_encoder_blocks": 10**9}}},
        {"recipe": RECIPE | {"method": ["dac"]}},
        {"recipe": RECIPE | {"encoder": 3}},
        {"recipe": {"name": "small", "model": MODEL}},
        {"recipe": {"name": "small", "method": "dac"}},
        {"recipe": 3},
        {"name": None},
        {"facts": []},
    ],
)
def test_file_of_another_version(path: Path, changes: dict[str, Any]) -> None:
    tensors, header = read_tensors(path)
    write_tensors(path, tensors, header | changes)
    with pytest.raises(WeightsFileError, match="does not fit this version of clusterwise") as error:
        load_weights(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("missing", ["name", "recipe", "facts"])
def test_header_with_a_gap(path: Path, missing: str) -> None:
    tensors, header = read_tensors(path)
    write_tensors(path, tensors, {key: value for key, value in header.items() if key != missing})
    with pytest.raises(WeightsFileError, match=f"does not fit this version of clusterwise .*{missing}"):
        load_weights(path)


@pytest.mark.parametrize("shape", [None, (2,)])
def test_tensors_of_another_network(path: Path, shape: tuple[int, ...] | None) -> None:
    tensors, header = read_tensors(path)
    del tensors["membership.bias"]
    if shape is not None:
        tensors["membership.bias"] = torch.zeros(shape)
    write_tensors(path, tensors, header)
    with pytest.raises(WeightsFileError, match=r"\(membership.bias has the shape .*, not \(1,\)\); train it"):
        load_weights(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(WeightsFileError, match=r"absent\.safetensors cannot be read \(No such file"):
        load_weights(tmp_path / "absent.safetensors")
    with pytest.raises(WeightsFileError, match=r"cannot be read|no safetensors file"):
        load_weights(tmp_path)


def test_files_cannot_be_named_anyhow(path: Path) -> None:
    weights = load_weights(path)
    for name in ("small.bin", "with \0.safetensors"):
        with pytest.raises(WeightsFileError, match=r"call the file .*\.safetensors"):
            weights.save(path.parent / name)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("No space left on device")])
@pytest.mark.parametrize("exists", [True, False])
def test_an_interrupted_save_leaves_nothing_half_written(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exists: bool
) -> None:
    before = path.read_bytes()
    if not exists:
        path.unlink()

    def torn(tensors: object, temporary: Path, metadata: object) -> None:
        temporary.write_bytes(before[:50])
        raise error

    monkeypatch.setattr(weights_file, "save_file", torn)
    with pytest.raises(type(error)):
        save_weights(path, Weights("small", make_model("dac", MODEL), RECIPE, FACTS))
    assert [p.name for p in path.parent.iterdir()] == (["small.safetensors"] if exists else [])
    assert not exists or path.read_bytes() == before
