"""DAC: the filtering losses against loops, the law of removed clusters, the path of an inference."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from clusterwise.exceptions import RecipeError
from clusterwise.nn.densities import diagonal_gaussian_log_density
from clusterwise.papers.dac import DAC, DACConfig, Filtered, filtering_loss
from clusterwise.papers.dac_flows import flow_loss
from clusterwise.papers.dac_sets import members_of_clusters, remaining_points, remove_random_clusters
from clusterwise.papers.model import TrainingTask
from clusterwise.papers.registry import make_model

SMALL = {"width": 8, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 2, "n_decoder_blocks": 1}


def network(seed: int = 0, **options: Any) -> DAC:
    torch.manual_seed(seed)
    return DAC(DACConfig(**{**SMALL, "n_wavelengths": 2, **options})).double()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# -- the losses --------------------------------------------------------------------------------------


def loss_of(
    filtered: Filtered, points: Tensor, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> Tensor:
    density = None
    if filtered.means is not None and filtered.log_sds is not None:
        density = diagonal_gaussian_log_density(points, filtered.means[:, None], filtered.log_sds[:, None])
    return filtering_loss(filtered.logits, density, labels, mask, anchors)


def naive_loss(
    filtered: Filtered, points: Tensor, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> list[float]:
    """Eqs 5, 7 and 9, one data set, one cluster and one point at a time."""
    losses = []
    for b in range(len(points)):
        present = [i for i in range(points.shape[1]) if mask[b, i]]
        of_cluster: dict[int, float] = {}
        for j in sorted({int(labels[b, i]) for i in present}):
            cross_entropy, log_density, size = 0.0, 0.0, 0
            for i in present:
                probability = 1 / (1 + math.exp(-float(filtered.logits[b, i])))
                inside = int(labels[b, i]) == j
                cross_entropy -= math.log(probability if inside else 1 - probability)
                if inside and filtered.means is not None and filtered.log_sds is not None:
                    for x, mean, log_sd in zip(
                        points[b, i].tolist(),
                        filtered.means[b].tolist(),
                        filtered.log_sds[b].tolist(),
                        strict=True,
                    ):
                        variance = math.exp(log_sd) ** 2
                        log_density -= (x - mean) ** 2 / (2 * variance) + math.log(2 * math.pi * variance) / 2
                size += inside
            of_cluster[j] = cross_entropy / len(present) - log_density / size
        losses.append(min(of_cluster.values()) if anchors is None else of_cluster[int(labels[b, anchors[b]])])
    return losses


@pytest.mark.parametrize("with_density", [True, False], ids=["density", "no density"])
@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "minimum loss"])
@pytest.mark.parametrize("removed", [True, False], ids=["clusters removed", "all clusters"])
def test_filtering_loss_is_eqs_5_7_and_9(with_density: bool, anchored: bool, removed: bool) -> None:
    n_sets, n, d = 6, 12, 3
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (n_sets, n), generator=generator)
    mask = (labels != 1) & (labels != labels[:, :1]) if removed else torch.ones_like(labels, dtype=torch.bool)
    points = normal(n_sets, n, d)
    filtered = Filtered(
        3 * normal(n_sets, n, seed=1),
        normal(n_sets, d, seed=2) if with_density else None,
        normal(n_sets, d, seed=3) if with_density else None,
    )
    anchors = torch.multinomial(mask.double(), 1, generator=generator).squeeze(1) if anchored else None
    result = loss_of(filtered, points, labels, mask, anchors)
    expected = naive_loss(filtered, points, labels, mask, anchors)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_loss_does_not_read_removed_points() -> None:
    points, labels = normal(2, 8, 2), torch.tensor([[0, 0, 1, 1, 2, 2, 2, 0]] * 2)
    mask = labels != 2
    filtered = Filtered(normal(2, 8, seed=1), normal(2, 2, seed=2), normal(2, 2, seed=3))
    garbage = filtered._replace(logits=filtered.logits.masked_fill(~mask, 1e30))
    before = loss_of(filtered, points, labels, mask, None)
    after = loss_of(garbage, points.masked_fill(~mask[..., None], 1e9), labels, mask, None)
    assert torch.equal(before, after)


def test_loss_is_stable_for_sure_networks() -> None:
    """Logits of 1e4 have probabilities that round to 0 and 1; the loss stays finite and right."""
    logits = torch.tensor([[1e4, 1e4, -1e4, -1e4]], dtype=torch.float64)
    labels = torch.tensor([[0, 0, 1, 1]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    right = filtering_loss(logits, None, labels, mask, torch.tensor([0]))
    wrong = filtering_loss(logits, None, labels, mask, torch.tensor([2]))
    assert float(right) == 0.0
    assert float(wrong) == 1e4


# -- removed clusters --------------------------------------------------------------------------------


def test_number_of_clusters_kept_is_uniform_and_so_is_which() -> None:
    n_sets, k = 20_000, 4
    labels = torch.arange(k).repeat(n_sets, 2)  # two points of each cluster
    generator = torch.Generator().manual_seed(0)
    mask = remove_random_clusters(labels, torch.full((n_sets,), k), generator)
    kept = mask[:, :k]
    assert torch.equal(kept, mask[:, k:])  # clusters are removed whole
    counts = np.bincount(kept.sum(1).numpy(), minlength=k + 1)
    assert counts[0] == 0
    assert chisquare(counts[1:]).pvalue > 1e-4
    for size in (1, 2, 3):
        subsets = kept[kept.sum(1) == size].int() @ (2 ** torch.arange(k, dtype=torch.int32))
        possible = [sum(2**j for j in subset) for subset in itertools.combinations(range(k), size)]
        assert chisquare(np.bincount(subsets.numpy(), minlength=2**k)[possible]).pvalue > 1e-4


def test_clusters_that_do_not_exist_are_not_kept_in_place_of_others() -> None:
    """A set of one cluster keeps it; a set of two, in the same batch, keeps both half of the time."""
    n_pairs = 4000
    labels = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 0, 1, 1], [0, 1, 2, 3, 4]]).repeat(n_pairs, 1)
    n_clusters = torch.tensor([1, 2, 5]).repeat(n_pairs)
    mask = remove_random_clusters(labels, n_clusters, torch.Generator().manual_seed(1))
    assert mask.any(1).all()
    assert mask[::3].all()
    both = mask[1::3, 0] & mask[1::3, 1]
    assert abs(float(both.double().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(n_pairs)
    mean_kept = float(mask[2::3].double().sum(1).mean())
    assert abs(mean_kept - 3.0) < 4.5 * math.sqrt(2.0 / n_pairs)


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


def test_anchors_of_a_step_share_an_encoding() -> None:
    """Several anchors in one step give the mean of the losses of each anchor alone."""
    model, task = network(filtering="anchored", n_anchors=3), small_task()
    generator = torch.Generator().manual_seed(3)
    mask = remove_random_clusters(task.labels, task.n_clusters, generator)
    anchors = torch.multinomial(mask.float(), 3, replacement=True, generator=generator)
    assert mask.gather(1, anchors).all()
    alone = [
        loss_of(model.filter(task.points, mask, anchors[:, a]), task.points, task.labels, mask, anchors[:, a])
        for a in range(3)
    ]
    result = model.loss(task, torch.Generator().manual_seed(3))
    torch.testing.assert_close(result, torch.stack(alone).mean())


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_loss_with_a_flow_is_that_of_passes_and_that_of_true_clusters(filtering: str) -> None:
    options = {"filtering": filtering, "density": "flow", "n_context": 6, "flow_width": 8, "n_flow_blocks": 2}
    model, task = network(**options), small_task()
    generator = torch.Generator().manual_seed(3)
    mask = remove_random_clusters(task.labels, task.n_clusters, generator)
    anchors = None
    if filtering == "anchored":
        anchors = torch.multinomial(mask.float(), 1, replacement=True, generator=generator).squeeze(1)
    filtered = model.filter(task.points, mask, anchors)
    assert filtered.means is None
    passes = filtering_loss(filtered.logits, None, task.labels, mask, anchors).mean()
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


def test_a_search_among_flows_follows_the_passes() -> None:
    """Every answer has the densities of its clusters, and padding changes nothing."""
    model = network(filtering="anchored", density="flow", n_context=6, flow_width=8, n_flow_blocks=2)
    points = torch.cat([0.05 * normal(30, 2) - 1, 0.05 * normal(30, 2) + 1])[None]
    mask = torch.ones(1, 60, dtype=torch.bool)
    (found,) = model.infer(points, mask, max_clusters=6, n_starts=3, n_draws=2)
    assert [one.n_clusters for one in found.densities] == [
        len(torch.unique(labels)) for labels in (found.labels, *found.draws)
    ]
    padded = torch.cat([points, torch.full((1, 9, 2), 7.0)], dim=1)
    absent = torch.cat([mask, torch.zeros(1, 9, dtype=torch.bool)], dim=1)
    (again,) = model.infer(padded, absent, max_clusters=6, n_starts=3)
    assert torch.equal(again.labels[:60], found.labels)


def test_members_of_every_cluster_are_found() -> None:
    labels = torch.tensor([[0, 1, 1, 0, 2], [0, 0, 0, 0, 1]])
    index, mask = members_of_clusters(labels, 3)
    found = [own[present].tolist() for own, present in zip(index, mask, strict=True)]
    assert found == [[0, 3], [1, 2], [4], [5, 6, 7], [9]]


def test_what_is_left_of_the_sets_is_packed() -> None:
    generator = torch.Generator().manual_seed(1)
    points, labels = normal(7, 40, 2), torch.randint(3, (7, 40), generator=generator)
    mask = torch.rand(7, 40, generator=generator) < torch.linspace(0.1, 1.0, 7)[:, None]
    anchors = torch.multinomial(mask.float(), 2, generator=generator)
    parts = remaining_points(points, labels, mask)
    assert sorted(torch.cat([part.sets for part in parts]).tolist()) == list(range(7))
    assert parts[0].points.shape[1] < 40
    for part in parts:
        places = part.place_of(anchors)
        for row, b in enumerate(part.sets.tolist()):
            there = part.mask[row]
            assert torch.equal(part.points[row][there], points[b][mask[b]])
            assert torch.equal(part.labels[row][there], labels[b][mask[b]])
            assert torch.equal(part.points[row][places[row]], points[b][anchors[b]])


# -- one pass ----------------------------------------------------------------------------------------

FILTERINGS = pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])


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


@FILTERINGS
def test_masking_a_point_of_a_pass_equals_deleting_it(filtering: str) -> None:
    model, points = network(filtering=filtering), normal(1, 10, 2)
    mask = torch.tensor([[1, 1, 0, 1, 0, 0, 1, 1, 1, 0]], dtype=torch.bool)
    anchor = torch.tensor([6]) if filtering == "anchored" else None
    there = None if anchor is None else torch.tensor([3])  # the fourth of the points present
    masked = model.filter(points.masked_fill(~mask[..., None], 1e6), mask, anchor)
    deleted = model.filter(points[:, mask[0]], mask[:, mask[0]], there)
    torch.testing.assert_close(masked.logits[:, mask[0]], deleted.logits)
    torch.testing.assert_close(masked.means, deleted.means)
    torch.testing.assert_close(masked.log_sds, deleted.log_sds)


def test_anchored_filtering_reads_its_anchor() -> None:
    model, points, mask = network(filtering="anchored"), normal(1, 9, 2), torch.ones(1, 9, dtype=torch.bool)
    one, other = (model.filter(points, mask, torch.tensor([a])).logits for a in (0, 4))
    assert not torch.allclose(one, other)
    with pytest.raises(ValueError, match="needs one anchor"):
        model.filter(points, mask)


def test_without_density_there_is_no_theta() -> None:
    model = network(density="none")
    filtered = model.filter(normal(1, 5, 2), torch.ones(1, 5, dtype=torch.bool))
    assert filtered.means is None
    assert filtered.log_sds is None


# -- the loop ----------------------------------------------------------------------------------------


def infer(model: DAC, points: Tensor, **options: Any) -> Any:
    (inference,) = model.infer(points[None], torch.ones(1, len(points), dtype=torch.bool), **options)
    return inference


def with_bias(bias: float, **options: Any) -> DAC:
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "dac has no option 'depth'"),
        (
            {"filtering": "anchord"},
            "filtering of dac must be one of 'minimum-loss', 'anchored', got",
        ),
        ({"density": "gaussian"}, "density of dac must be one of 'diagonal-gaussian', 'flow'"),
        ({"width": 0}, "width of dac must be a positive whole number, got 0"),
        ({"n_inducing": 2.5}, "n_inducing of dac must be a positive whole number"),
        ({"n_heads": True}, "n_heads of dac must be a positive whole number"),
        ({"n_wavelengths": -1}, "n_wavelengths of dac must be a whole number of at least 0"),
        ({"width": 10, "n_heads": 4}, "width 10 is not a multiple of n_heads 4"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_model("dac", options)


def test_unknown_method() -> None:
    with pytest.raises(RecipeError, match=r"no method 'k-means'; the methods are act-st, amcp, .*dac, ncp"):
        make_model("k-means", {})


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
