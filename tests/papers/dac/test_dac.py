"""DAC: the loss of a step, the path of an inference, the estimator with its shipped weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from clusterwise import DAC
from clusterwise.exceptions import RecipeError
from clusterwise.papers.dac.dac import DACConfig, DACNetwork, Filtered
from clusterwise.papers.dac.objective import (
    filtering_loss,
    flow_loss,
    remaining_points,
    remove_random_clusters,
)
from clusterwise.papers.model import TrainingTask
from clusterwise.pretrained import get_weights

FILTERINGS = pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
SMALL = {"width": 8, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 2, "n_decoder_blocks": 1}


def network(seed: int = 0, **options: Any) -> DACNetwork:
    torch.manual_seed(seed)
    return DACNetwork(DACConfig(**{**SMALL, "n_wavelengths": 2, **options})).double()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loss_of(
    filtered: Filtered, points: Tensor, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> Tensor:
    density = network().log_density(points, filtered)
    return filtering_loss(filtered.logits, density, labels, mask, anchors)


# -- the training loss -------------------------------------------------------------------------------


def small_task() -> TrainingTask:
    labels = torch.tensor([[0, 1, 2] * 4, [0, 1] * 6, [0] * 12])
    centres = 2 * normal(3, 3, 2, seed=5)
    points = centres[torch.arange(3)[:, None], labels] + 0.1 * normal(3, 12, 2, seed=6)
    return TrainingTask(points, labels, torch.tensor([3, 2, 1]))


def test_minimum_loss_of_a_step() -> None:
    model, task = network(), small_task()
    mask = remove_random_clusters(task.labels, task.n_clusters, torch.Generator().manual_seed(3))
    assert not mask.all()
    expected = loss_of(model.filter(task.points, mask), task.points, task.labels, mask, None).mean()
    torch.testing.assert_close(model.loss(task, torch.Generator().manual_seed(3)), expected)


def passes_of_step(model: DACNetwork, task: TrainingTask, generator: torch.Generator) -> Tensor:
    """The mean loss of the passes of a step, one anchor at a time."""
    losses = []
    mask = remove_random_clusters(task.labels, task.n_clusters, generator)
    for points, labels, left in remaining_points(task.points, task.labels, mask):
        anchors: list[Tensor | None] = [None]
        if model.anchor is not None:
            n_anchors = model.config.n_anchors
            drawn = torch.multinomial(left.float(), n_anchors, replacement=True, generator=generator)
            assert left.gather(1, drawn).all()
            anchors = list(drawn.T)
        losses += [loss_of(model.filter(points, left, one), points, labels, left, one) for one in anchors]
    return torch.cat(losses).mean()


def test_anchors_of_a_step_share_an_encoding() -> None:
    """Several anchors in one step give the mean of the losses of each anchor alone."""
    model, task = network(filtering="anchored", n_anchors=3), small_task()
    expected = passes_of_step(model, task, torch.Generator().manual_seed(3))
    torch.testing.assert_close(model.loss(task, torch.Generator().manual_seed(3)), expected)


@FILTERINGS
def test_loss_with_a_flow_is_that_of_passes_and_that_of_true_clusters(filtering: str) -> None:
    options = {"filtering": filtering, "density": "flow", "n_context": 6, "flow_width": 8, "n_flow_blocks": 2}
    model, task = network(**options), small_task()
    generator = torch.Generator().manual_seed(3)
    passes = passes_of_step(model, task, generator)
    assert model.cluster_flow is not None
    of_clusters = flow_loss(model.cluster_flow, task.points, task.labels, generator)
    torch.testing.assert_close(model.loss(task, torch.Generator().manual_seed(3)), passes + of_clusters)


def test_a_density_can_be_learned_alone() -> None:
    model = network(density="flow", n_context=6, flow_width=8, n_flow_blocks=2, learns="density")
    model.loss(small_task(), torch.Generator().manual_seed(3)).backward()
    learned = {name.split(".")[0] for name, own in model.named_parameters() if own.grad is not None}
    assert learned == {"cluster_flow"}
    with pytest.raises(RecipeError, match="goes with density = 'flow'"):
        network(learns="density")


def test_answers_with_flows_have_the_densities_of_their_clusters() -> None:
    """Padding changes nothing."""
    model = network(filtering="anchored", density="flow", n_context=6, flow_width=8, n_flow_blocks=2)
    points = torch.cat([0.05 * normal(30, 2) - 1, 0.05 * normal(30, 2) + 1])[None]
    mask = torch.ones(1, 60, dtype=torch.bool)
    (found,) = model.infer(points, mask, max_clusters=6, n_draws=2)
    assert [one.n_clusters for one in found.densities] == [
        len(torch.unique(labels)) for labels in (found.labels, *found.draws)
    ]
    padded = torch.cat([points, torch.full((1, 9, 2), 7.0)], dim=1)
    absent = torch.cat([mask, torch.zeros(1, 9, dtype=torch.bool)], dim=1)
    (again,) = model.infer(padded, absent, max_clusters=6)
    assert torch.equal(again.labels[:60], found.labels)


# -- one pass ----------------------------------------------------------------------------------------


@FILTERINGS
def test_a_pass_is_equivariant(filtering: str) -> None:
    model, points = network(filtering=filtering), normal(2, 10, 2)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(10) < torch.tensor([[10], [7]])
    anchors = torch.tensor([3, 5]) if filtering == "anchored" else None
    moved = None if anchors is None else torch.tensor([order.tolist().index(a) for a in (3, 5)])
    before = model.filter(points, mask, anchors)
    after = model.filter(points[:, order], mask[:, order], moved)
    torch.testing.assert_close(after.logits, before.logits[:, order])
    torch.testing.assert_close(after.means, before.means)
    torch.testing.assert_close(after.log_sds, before.log_sds)


def test_anchored_filtering_reads_its_anchor() -> None:
    model, points, mask = network(filtering="anchored"), normal(1, 9, 2), torch.ones(1, 9, dtype=torch.bool)
    one, other = (model.filter(points, mask, torch.tensor([a])).logits for a in (0, 4))
    assert not torch.allclose(one, other)
    with pytest.raises(ValueError, match="needs one anchor"):
        model.filter(points, mask)


# -- the loop ----------------------------------------------------------------------------------------


def infer(model: DACNetwork, points: Tensor, **options: Any) -> Any:
    (inference,) = model.infer(points[None], torch.ones(1, len(points), dtype=torch.bool), **options)
    return inference


def with_bias(bias: float, **options: Any) -> DACNetwork:
    """Return a network whose membership logits are shifted."""
    model = network(**options)
    with torch.no_grad():
        model.membership.bias.fill_(bias)
    return model


def test_a_network_that_takes_all_makes_one_cluster() -> None:
    inference = infer(with_bias(50.0), normal(20, 2))
    assert len(inference.steps) == 1
    assert not inference.labels.any()


@pytest.mark.parametrize("bias", [-5.0, -2000.0], ids=["small", "rounded to zero"])
def test_a_pass_that_takes_nobody_takes_the_likeliest(bias: float) -> None:
    model, points = with_bias(bias), normal(20, 2)
    inference = infer(model, points)
    first = inference.steps[0]
    assert first.probabilities.max() < 0.5
    assert torch.equal(first.members, first.probabilities >= 0.5 * first.probabilities.max())
    assert not inference.cap_reached


@FILTERINGS
def test_the_path(filtering: str) -> None:
    """Every point joins in one step; probabilities are those of the points that were left."""
    model, points = with_bias(-3.0, filtering=filtering), normal(25, 2)
    inference = infer(model, points)
    assert len(inference.steps) > 1
    left = torch.ones(25, dtype=torch.bool)
    for k, step in enumerate(inference.steps):
        assert step.members.any()
        assert not (step.members & ~left).any()
        assert not step.probabilities[~left].any()
        assert (inference.labels[step.members] == k).all()
        if filtering == "anchored":
            assert step.anchor is not None
            assert step.members[step.anchor]
            position = torch.tensor([int(left[: step.anchor].sum())])
        else:
            assert step.anchor is None
            position = None
        again = model.filter(points[None, left], left[None, left], position)
        torch.testing.assert_close(step.probabilities[left], torch.sigmoid(again.logits[0]))
        left &= ~step.members
    assert not left.any()


def test_seeds_decide_the_anchors() -> None:
    model, points = with_bias(-3.0, filtering="anchored"), normal(25, 2)
    paths = [[step.anchor for step in infer(model, points, seeds=[seed]).steps] for seed in (1, 1, 2, 3)]
    assert paths[0] == paths[1]
    assert len({path[0] for path in paths}) > 1


def test_anchors_are_uniform_over_the_points_left() -> None:
    model, points = with_bias(50.0, filtering="anchored"), normal(4, 2)
    n_draws = 2000
    mask = torch.ones(n_draws, 4, dtype=torch.bool)
    inferences = model.infer(points.expand(n_draws, -1, -1), mask, seeds=range(n_draws))
    anchors = [inference.steps[0].anchor for inference in inferences]
    assert chisquare(np.bincount(anchors, minlength=4)).pvalue > 1e-4


def test_rows_beyond_the_cap_join_the_nearest_cluster() -> None:
    model, points = with_bias(-3.0, filtering="anchored"), normal(30, 2)
    whole = infer(model, points)
    assert len(whole.steps) > 3
    capped = infer(model, points, max_clusters=3)
    assert capped.cap_reached
    assert len(capped.steps) == len(capped.labels.unique()) == 3
    taken = torch.stack([step.members for step in capped.steps]).any(0)
    assert torch.equal(capped.labels[taken], whole.labels[taken])
    centres = torch.stack([points[step.members].mean(0) for step in capped.steps])
    for i in torch.nonzero(~taken).squeeze(1):
        assert capped.labels[i] == (points[i] - centres).norm(dim=1).argmin()
    exact = infer(model, points, max_clusters=len(whole.steps))
    assert not exact.cap_reached  # a cap that is just enough is no cap


# -- options -----------------------------------------------------------------------------------------


def test_draws_have_anchors_of_their_own() -> None:
    """The answer is that without draws, and each set's draws are those that it has alone."""
    model, sets = network(filtering="anchored"), normal(2, 30, 2)
    mask = torch.ones(2, 30, dtype=torch.bool)
    alone = model.infer(sets, mask, [3, 4])
    drawn = model.infer(sets, mask, [3, 4], n_draws=5)
    for b in range(2):
        assert torch.equal(drawn[b].labels, alone[b].labels)
        assert len(drawn[b].draws) == 5
        (by_itself,) = model.infer(sets[b : b + 1], mask[:1], [3 + b], n_draws=5)
        assert all(torch.equal(*pair) for pair in zip(by_itself.draws, drawn[b].draws, strict=True))
    assert len({tuple(labels.tolist()) for labels in drawn[0].draws}) > 1
    one_answer = network(filtering="minimum-loss")
    assert one_answer.infer(sets, mask, [3, 4], n_draws=5)[0].draws == ()


# -- the estimator -----------------------------------------------------------------------------------


@FILTERINGS
def test_the_labels_are_the_networks_own(filtering: str) -> None:
    noise = np.random.default_rng(0).normal(size=(400, 2))
    X = noise + 2.5 * np.repeat([[0, 0], [1, 0], [0, 4], [3, 3]], 100, axis=0)
    estimator = DAC(filtering, random_state=0).fit(X)
    rows = np.lexsort(X.T[::-1])
    scale = np.sqrt(np.square(X - X.mean(axis=0)).mean())
    seen = torch.tensor((X[rows] - X.mean(axis=0)) / scale, dtype=torch.float32)
    passes = infer(get_weights(f"dac-{filtering}-2d").model, seen, seeds=[estimator._seed])
    assert adjusted_rand_score(passes.labels.numpy(), estimator.labels_[rows]) == 1


def test_default_weights_by_filtering() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert DAC().fit(X).weights_name_ == "dac-minimum-loss-2d"
    assert DAC("anchored").fit(X).weights_name_ == "dac-anchored-2d"
