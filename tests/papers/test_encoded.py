"""A network behind an encoder: the metric loss, gradients, and what it shares with the network alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clusterwise.exceptions import RecipeError
from clusterwise.papers.encoded import EncodedModel, RowsTask, prototype_loss
from clusterwise.papers.methods import make_model
from clusterwise.papers.model import TrainingTask

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
