"""What every amortized method promises: one test for each promise, and all methods in each test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clusterwise.exceptions import RecipeError
from clusterwise.papers.methods import JUDGES, MODELS, make_model, model_class
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.pretrained import Weights
from clusterwise.pretrained.weights_file import load_weights, save_weights

SMALL = {"width": 8, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 2, "n_wavelengths": 2}
SMALL_PARTS = {
    "dac": {"n_decoder_blocks": 1},
    "act-st": {"n_decoder_blocks": 1},
    "amcp": {"n_coordinates": 6, "n_states": 2},
    "chigac": {"n_coordinates": 6, "n_states": 2, "n_hidden": 4, "n_summaries": 2, "n_inner_steps": 2},
    "ncp": {"h_size": 5, "u_size": 4, "g_size": 6},
}

# Every method as it is, and options that lead through other code.
PROPOSERS = [method for method in MODELS if method not in JUDGES]
NETWORKS: list[tuple[str, dict[str, Any]]] = [(method, {}) for method in PROPOSERS]
NETWORKS += [("dac", {"filtering": "anchored", "n_anchors": 2}), ("dac", {"density": "none"})]
NETWORKS += [(method, {"n_features": 3, "n_wavelengths": 0}) for method in PROPOSERS]
NETWORKS += [("amcp", {"decoder": "mlp"})]

# With a single key every attention weight is one, whatever query and key are: nothing to learn there.
WITHOUT_EFFECT = {
    "dac": {f"{block}.{side}.weight" for block in ("condition", "anchor") for side in ("query", "key")},
    "ncp": {"f.4.bias"},  # it would move all choices alike
}

# Some networks work in single precision, whatever their parameters are.
SINGLE_PRECISION = {"atol": 1e-5, "rtol": 1e-4}

networks = pytest.mark.parametrize(("method", "options"), NETWORKS)
# Anchors are drawn by position: test_dac.py permutes a pass together with its anchor. So are NCP's orders.
deterministic_networks = pytest.mark.parametrize(
    ("method", "options"), [n for n in NETWORKS if n[1].get("filtering") != "anchored" and n[0] != "ncp"]
)


def small_options(method: str) -> dict[str, Any]:
    """Those of SMALL that the method knows, and its own."""
    known = {field.name for field in dataclasses.fields(model_class(method).config_class)}
    return {key: value for key, value in SMALL.items() if key in known} | SMALL_PARTS[method]


def build(method: str, options: dict[str, Any], seed: int = 0) -> AmortizedModel:
    """Return an untrained network with larger weights than usual, so that it tells points apart."""
    torch.manual_seed(seed)
    model = make_model(method, {**small_options(method), **options})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 1.5
    return model.double()


def several(method: str, options: dict[str, Any]) -> Iterator[AmortizedModel]:
    """Five untrained networks: some of them put all points in one cluster, others do not."""
    for seed in range(1, 6):
        yield build(method, options, seed)


def sets_of_different_sizes(n_features: int) -> tuple[Tensor, Tensor]:
    """Three data sets, padded with garbage, and their mask."""
    points = torch.randn(3, 30, n_features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = torch.arange(30) < torch.tensor([[30], [13], [22]])
    return points.masked_fill(~mask[..., None], 1e3), mask


def n_clusters(inference: Inference, mask: Tensor | None = None) -> int:
    labels = inference.labels if mask is None else inference.labels[mask]
    return len(labels.unique())


def assert_same(one: Inference, other: Inference, rows: Tensor, other_rows: Tensor) -> None:
    """Compare all that two inferences say about the rows that they share."""
    assert torch.equal(one.labels[rows], other.labels[other_rows])
    for step, other_step in zip(one.steps, other.steps, strict=True):
        assert torch.equal(step.members[rows], other_step.members[other_rows])
        torch.testing.assert_close(
            step.probabilities[rows], other_step.probabilities[other_rows], **SINGLE_PRECISION
        )
    assert one.cap_reached == other.cap_reached


def test_names() -> None:
    for name in MODELS:
        model = model_class(name)
        assert model.method == name
        assert dataclasses.is_dataclass(model.config_class)


@networks
def test_gradients_reach_every_parameter(method: str, options: dict[str, Any]) -> None:
    model = build(method, options)
    reached: set[str] = set()
    labels = torch.tensor([[0, 1, 2, 3] * 5, [0, 1] * 10])
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        points = torch.randn(2, 20, model.n_features, generator=generator, dtype=torch.float64)
        model.zero_grad()
        loss = model.loss(TrainingTask(points, labels, torch.tensor([4, 2])), generator)
        assert loss.shape == ()
        assert loss.isfinite()
        loss.backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                assert parameter.grad.isfinite().all()
                if parameter.grad.any():
                    reached.add(name)
    everything = {name for name, _ in model.named_parameters()}
    assert everything - reached == WITHOUT_EFFECT.get(method, set()) & everything


@networks
def test_generator_decides_the_loss(method: str, options: dict[str, Any]) -> None:
    """No draw comes from anywhere else: a resumed training repeats its steps exactly."""
    model = build(method, options)
    labels = torch.tensor([[0, 1, 2, 3] * 5])
    points = torch.randn(1, 20, model.n_features, dtype=torch.float64)
    task = TrainingTask(points, labels, torch.tensor([4]))
    state = torch.get_rng_state()
    losses = [model.loss(task, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(*losses)
    assert torch.equal(torch.get_rng_state(), state)


@deterministic_networks
def test_partition_is_permuted_along_with_the_points(method: str, options: dict[str, Any]) -> None:
    found = []
    for model in several(method, options):
        points, mask = sets_of_different_sizes(model.n_features)
        order = torch.randperm(30, generator=torch.Generator().manual_seed(2))
        before, after = model.infer(points, mask), model.infer(points[:, order], mask[:, order])
        for b in range(3):
            present = torch.nonzero(mask[b, order]).squeeze(1)
            assert_same(after[b], before[b], present, order[present])
            found.append(n_clusters(before[b], mask[b]))
    assert max(found) > 1


@networks
def test_a_batch_equals_one_by_one_and_masking_equals_deleting(method: str, options: dict[str, Any]) -> None:
    found = []
    for model in several(method, options):
        points, mask = sets_of_different_sizes(model.n_features)
        together = model.infer(points, mask, seeds=[5, 6, 7])
        for b in range(3):
            (alone,) = model.infer(points[b : b + 1, mask[b]], mask[b : b + 1, mask[b]], seeds=[5 + b])
            present = torch.nonzero(mask[b]).squeeze(1)
            assert_same(together[b], alone, present, torch.arange(len(present)))
            found.append(n_clusters(alone))
    assert max(found) > 1


@networks
def test_absent_points_may_stand_anywhere(method: str, options: dict[str, Any]) -> None:
    """Not only at the end, where padding puts them."""
    for model in several(method, options):
        points, _ = sets_of_different_sizes(model.n_features)
        mask = torch.rand(1, 30, generator=torch.Generator().manual_seed(3)) < 0.5
        (masked,) = model.infer(points[:1], mask, seeds=[4])
        (deleted,) = model.infer(points[:1, mask[0]], mask[:, mask[0]], seeds=[4])
        present = torch.nonzero(mask[0]).squeeze(1)
        assert_same(masked, deleted, present, torch.arange(len(present)))


@networks
def test_every_point_is_labelled_and_a_cap_is_told(method: str, options: dict[str, Any]) -> None:
    """Even an untrained network comes to an end."""
    for model in several(method, options):
        points, mask = sets_of_different_sizes(model.n_features)
        free = model.infer(points, mask)
        for max_clusters in (1, 2, 100):
            capped = model.infer(points, mask, max_clusters=max_clusters)
            for b in range(3):
                k = n_clusters(capped[b], mask[b])
                labels = capped[b].labels[mask[b]]
                assert labels.dtype == torch.int64
                assert 1 <= k <= max_clusters
                assert int(labels.min()) >= 0
                if n_clusters(free[b], mask[b]) > max_clusters:
                    assert capped[b].cap_reached
                if not capped[b].cap_reached:
                    assert torch.equal(labels, free[b].labels[mask[b]])


@networks
@pytest.mark.parametrize("n", [1, 2])
def test_very_small_sets(method: str, options: dict[str, Any], n: int) -> None:
    model = build(method, options)
    points = torch.zeros(2, n, model.n_features, dtype=torch.float64)
    for inference in model.infer(points, torch.ones(2, n, dtype=torch.bool)):
        assert 1 <= n_clusters(inference) <= n
        assert inference.labels.shape == (n,)


@networks
def test_saved_and_loaded_it_infers_the_same(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    # Without gradients, as loaded networks are: with them torch may choose other kernels.
    model = build(method, options).float().eval().requires_grad_(False)
    recipe = {"method": method, "model": {**small_options(method), **options}}
    facts = {"steps": 0, "largest_coordinate": 5.0}
    save_weights(tmp_path / "network.safetensors", Weights("network", model, recipe, facts))
    loaded = load_weights(tmp_path / "network.safetensors").model
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    points, mask = sets_of_different_sizes(model.n_features)
    before, after = (network.infer(points.float(), mask, seeds=[1, 2, 3]) for network in (model, loaded))
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one.labels, other.labels)


@networks
def test_inference_leaves_no_trace(method: str, options: dict[str, Any]) -> None:
    """No gradient graph, no change of the input, no draw from the global generator."""
    model = build(method, options)
    points, mask = sets_of_different_sizes(model.n_features)
    copies, state = (points.clone(), mask.clone()), torch.get_rng_state()
    first, again = model.infer(points, mask), model.infer(points, mask)
    assert torch.equal(points, copies[0])
    assert torch.equal(mask, copies[1])
    assert torch.equal(torch.get_rng_state(), state)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.labels, other.labels)
        assert not any(step.probabilities.requires_grad for step in one.steps)


# -- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("dac", {"depth": 3}, "dac has no option 'depth'"),
        ("dac", {"filtering": "anchord"}, "filtering of dac must be one of 'minimum-loss', 'anchored', got"),
        ("dac", {"width": 0}, "width of dac must be a positive whole number, got 0"),
        ("dac", {"n_inducing": 2.5}, "n_inducing of dac must be a positive whole number"),
        ("dac", {"n_heads": True}, "n_heads of dac must be a positive whole number"),
        ("dac", {"n_wavelengths": -1}, "n_wavelengths of dac must be a whole number of at least 0"),
        ("dac", {"width": 10, "n_heads": 4}, "width 10 is not a multiple of n_heads 4"),
        ("chigac", {"inference": "mcmc"}, "inference of chigac must be one of 'amortized', .*got 'mcmc'"),
        ("chigac", {"inner_rate": 0.0}, "inner_rate of chigac must be a positive number, got 0.0"),
        ("chigac", {"inner_rate": "fast"}, "inner_rate of chigac must be a positive number, got 'fast'"),
        ("chigac", {"inner_rate": float("nan")}, "inner_rate of chigac must be a positive number, got nan"),
        ("chigac", {"hybrid": 1}, "hybrid of chigac must be true or false, got 1"),
        ("k-means", {}, r"no method 'k-means'; the methods are act-st, amcp, .*dac, ncp"),
    ],
)
def test_bad_options_are_named(method: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_model(method, options)
