"""A network behind an encoder: the metric loss, gradients, and what it shares with the network alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from clusterwise.affine import fit_feature_map
from clusterwise.exceptions import RecipeError
from clusterwise.fitting.protocol import Clustering, assign_rows
from clusterwise.papers.encoded import (
    EncodedModel,
    RowsTask,
    neighbourhoods,
    prototype_loss,
    united,
)
from clusterwise.papers.methods import make_model
from clusterwise.papers.model import TrainingTask
from clusterwise.papers.network_method import NetworkMethod, NetworkProposer, Proposal
from clusterwise.partition import canonical_labels
from clusterwise.rows.sorted_rows import sort_rows

ENCODER = {"n_features": 5, "kind": "mlp", "n_encoded": 3, "width": 8}
NETWORKS = {
    "amcp": {"width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1, "n_coordinates": 4},
    "dac": {"width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1, "density": "none"},
    "chigac": {"width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1, "n_coordinates": 8},
    "ncp": {"width": 16, "h_size": 8, "u_size": 8, "g_size": 8},
    "act-st": {"width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1},
}


def make(method: str, **encoder: object) -> EncodedModel:
    torch.manual_seed(0)
    model = make_model(method, {"n_wavelengths": 0, **NETWORKS[method]}, {**ENCODER, **encoder})
    assert isinstance(model, EncodedModel)
    return model


def task(n_sets: int = 2, n_points: int = 12) -> RowsTask:
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(20, 5, generator=generator)
    index = torch.stack([torch.randperm(20, generator=generator)[:n_points] for _ in range(n_sets)])
    labels = (torch.arange(n_points) % 3).expand(n_sets, -1)
    return RowsTask(rows, index, labels, torch.full((n_sets,), 3))


def slow_prototype_loss(points: Tensor, labels: Tensor, temperature: float) -> float:
    losses = []
    for of_set, y in zip(points, labels, strict=True):
        for i, z in enumerate(of_set):
            others = [j for j in range(len(y)) if j != i]
            logits = {}
            for k in sorted(set(y.tolist())):
                members = [j for j in others if int(y[j]) == k]
                if members:
                    logits[k] = -float((z - of_set[members].mean(0)).square().sum()) / temperature
            if int(y[i]) in logits:
                total = torch.logsumexp(torch.tensor(list(logits.values())), 0)
                losses.append(float(total) - logits[int(y[i])])
    return sum(losses) / len(losses)


def test_the_metric_loss_is_what_it_says() -> None:
    points = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(2))
    labels = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 1, 1, 0, 1, 0, 1, 0]])
    expected = slow_prototype_loss(points, labels, 0.7)
    assert float(prototype_loss(points, labels, torch.tensor(0.7))) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", NETWORKS)
def test_every_method_trains_behind_an_encoder(method: str) -> None:
    model = make(method)
    loss = model.loss(task(), torch.Generator().manual_seed(0))
    loss.backward()
    assert model.encoder.layers is not None
    gradients = [p.grad for p in model.encoder.layers.parameters()]
    assert all(gradient is not None and bool(torch.isfinite(gradient).all()) for gradient in gradients)
    assert any(bool((p.grad != 0).any()) for p in model.network.parameters() if p.grad is not None)
    assert model.method == method
    assert model.n_features == 5


@pytest.mark.parametrize(("method", "learns"), [("amcp", True), ("act-st", False)])
def test_a_density_of_the_encodings_does_not_shrink_them(method: str, learns: bool) -> None:
    model = make(method, metric_weight=0.0)
    model.loss(task(), torch.Generator().manual_seed(0)).backward()
    assert model.encoder.linear is not None
    assert (model.encoder.linear.weight.grad is not None) == learns


def test_with_no_metric_it_is_the_loss_of_the_network_on_encodings() -> None:
    model, data = make("dac", metric_weight=0.0), task()
    points = model.encoder(data.rows)[data.index]
    alone = model.network.loss(
        TrainingTask(points, data.labels, data.n_clusters), torch.Generator().manual_seed(3)
    )
    torch.testing.assert_close(model.loss(data, torch.Generator().manual_seed(3)), alone)


def test_it_infers_from_rows_what_the_network_infers_from_encodings() -> None:
    model, rows = make("amcp").eval(), torch.randn(2, 15, 5)
    present = torch.ones(2, 15, dtype=torch.bool)
    with torch.no_grad():
        encoded = model.encoder(rows.flatten(0, 1)).unflatten(0, (2, 15))
    for own, other in zip(model.infer(rows, present), model.network.infer(encoded, present), strict=True):
        assert torch.equal(own.labels, other.labels)


def test_what_cannot_be_built_is_an_error_of_the_recipe() -> None:
    with pytest.raises(RecipeError, match=r"\[encoder\] has no option 'depth'"):
        make("amcp", depth=3)
    with pytest.raises(RecipeError, match="image_shape"):
        make("amcp", kind="convolution")
    with pytest.raises(RecipeError, match="takes no"):
        make_model("node-judge", {}, ENCODER)


# -- many rows in many clusters ----------------------------------------------------------------------


def groups(k: int, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(k), each)
    return rng.normal(size=(k, 6))[y] * 3 + 0.05 * rng.normal(size=(len(y), 6)), y


class Rounder(NetworkProposer):
    """A proposer that needs several rows of a cluster to tell it: single ones are all alike to it."""

    def propose(self, sets: Sequence[np.ndarray], seed: int, n_draws: int) -> list[Proposal]:
        found = []
        for points in sets:
            assert len(points) <= 100
            near = np.square(points[:, None] - points).sum(-1) < 0.5
            found.append(Proposal((canonical_labels(near.argmax(axis=1)),), np.ones(1)))
        return found


def test_neighbourhoods_have_at_most_so_many_rows_and_cover_all() -> None:
    X, _ = groups(20, 30)
    parts = neighbourhoods(X, 100, 0)
    sizes = np.bincount(parts)
    assert sizes.max() <= 100
    assert sizes.sum() == 600
    assert (sizes > 0).all()
    assert np.bincount(neighbourhoods(np.zeros((50, 2)), 20, 0)).max() <= 20  # rows that are all alike


def test_clusters_cut_in_two_are_united_and_others_are_not() -> None:
    X, y = groups(12, 20)
    parts = np.arange(len(y)) % 2
    cut = y * 2 + parts  # every cluster in two parts
    assert adjusted_rand_score(y, united(X, cut, parts, "spherical")) == 1.0
    alone = united(X, cut, np.zeros(len(y), dtype=np.int64), "spherical")
    assert adjusted_rand_score(cut, alone) == 1.0  # one network saw both halves and told them apart
    assert len(np.unique(united(X, cut, parts, "spherical", max_clusters=5))) <= 5


def clustered(X: np.ndarray, max_clusters: int = 100) -> tuple[Clustering, np.ndarray]:
    """What a method finds whose network sees a hundred rows at a time, and the labels of all rows."""
    proposer = Rounder(make("amcp").network, max_clusters)
    method = NetworkMethod(
        proposer, partial(fit_feature_map, n_features=6), None, 100, "none", 1e3, encoded=True,
        covariance_type="spherical",
    )  # fmt: skip
    rows = sort_rows(X, method.fit_space)
    (found,) = method.cluster([rows], 0, lambda *steps: None)
    rows, found, membership = assign_rows(rows, found)
    return found, rows.in_input_order(membership.argmax(axis=1))


def test_few_clusters_are_told_by_a_sample() -> None:
    X, y = groups(4, 100)
    found, labels = clustered(X)
    assert len(found.details.rows) == 100
    assert adjusted_rand_score(y, labels) == 1.0


def test_many_clusters_take_all_rows_in_neighbourhoods() -> None:
    X, y = groups(60, 10)
    found, labels = clustered(X)
    assert len(found.details.rows) == 600
    assert adjusted_rand_score(y, labels) > 0.95
    capped, labels = clustered(X, 20)
    assert capped.cap_reached
    assert labels.max() + 1 <= 20
