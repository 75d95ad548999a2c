"""A training that goes on from other weights, and what its file says about where it comes from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from clusterwise.exceptions import RecipeError
from clusterwise.pretrained.weights_file import load_weights
from clusterwise.training import train
from clusterwise.training.provenance import versions
from clusterwise.training.recipe import OptimizerOptions, Recipe, SizeOptions, ValidationOptions

FIRST = Recipe(
    name="first",
    method="amcp",
    model={
        "n_features": 2,
        "width": 8,
        "n_heads": 2,
        "n_encoder_blocks": 1,
        "n_inducing": 4,
        "n_coordinates": 4,
    },
    prior={"name": "mixture-of-gaussians", "n_features": 2},
    sizes=SizeOptions((16,), 32),
    optimizer=OptimizerOptions(steps=2, warm_up=1),
    validation=ValidationOptions(every=2, n_sets=1, n_points=16),
)
STILL = OptimizerOptions(steps=1, warm_up=1, learning_rate=1e-30)


def test_training_goes_on_from_other_weights_and_says_so(tmp_path: Path) -> None:
    first = train(FIRST, tmp_path, verbose=False)
    second = dataclasses.replace(FIRST, name="second", seed=5, start="first", optimizer=STILL)
    then = train(second, tmp_path, verbose=False)
    assert first is not None and then is not None
    before, after = load_weights(first), load_weights(then)
    for name, tensor in before.model.state_dict().items():
        torch.testing.assert_close(after.model.state_dict()[name], tensor)
    start = after.facts["start"]
    assert (start["name"], start["steps"], start["new_parameters"]) == ("first", 2, [])
    assert "start" not in before.facts
    assert "from the weights first on (2 steps" in then.with_suffix(".md").read_text()


def test_a_share_of_the_first_weights_is_kept(tmp_path: Path) -> None:
    first = train(FIRST, tmp_path, verbose=False)
    assert first is not None
    found = []
    for kept in (0.0, 0.25):
        options = OptimizerOptions(steps=3, warm_up=1, kept=kept)
        path = train(
            dataclasses.replace(FIRST, name="second", start="first", optimizer=options),
            tmp_path,
            verbose=False,
        )
        assert path is not None
        found.append(dict(load_weights(path).model.named_parameters()))
    for name, before in load_weights(first).model.named_parameters():
        new, mixed = found[0][name], found[1][name]
        torch.testing.assert_close(mixed, 0.75 * new + 0.25 * before)
    assert any(not torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_another_network_is_no_start(tmp_path: Path) -> None:
    train(FIRST, tmp_path, verbose=False)
    wider = dataclasses.replace(FIRST, name="wider", start="first", model={**FIRST.model, "width": 12})
    with pytest.raises(RecipeError, match="another network"):
        train(wider, tmp_path, verbose=False)


def test_versions_name_the_libraries() -> None:
    found = versions()
    assert found["torch"] == torch.__version__
    assert {"python", "numpy", "clusterwise"} <= set(found)
