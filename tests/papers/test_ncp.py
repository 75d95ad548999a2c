"""NCP: probabilities against a slow, obvious version, the loop against the probabilities."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import clusterwise as cw
from clusterwise.exceptions import CapReachedWarning, RecipeError
from clusterwise.papers.model import TrainingTask
from clusterwise.papers.ncp import (
    NCPConfig,
    NCPNetwork,
    PartitionDraws,
    Positions,
    binder_losses,
    choice_log_probabilities,
    draw_partitions,
    draw_positions,
    inference_of_draws,
    random_orders,
)
from clusterwise.partition import canonical_labels

SMALL = NCPConfig(width=12, h_size=7, u_size=5, g_size=9, n_wavelengths=2)


def build(seed: int = 0, **options: Any) -> NCPNetwork:
    torch.manual_seed(seed)
    model = NCPNetwork(dataclasses.replace(SMALL, **options)).double().requires_grad_(False)
    for parameter in model.parameters():
        parameter *= 1.5  # so that an untrained network tells points apart
    return model


def random_points(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_log_probabilities(model: NCPNetwork, points: Tensor, labels: list[int]) -> Tensor:
    """The definition, choice by choice: the next point follows those that ``labels`` names.

    ``points`` is (N, d); the result (K + 1,) has the clusters by their names 0 .. K-1 and the new one last.
    """
    n, n_clusters = len(labels), max(labels, default=-1) + 1
    h, rest = model.h(points), model.u(points[n + 1 :]).sum(0)
    logits = []
    for choice in range(n_clusters + 1):
        clusters: dict[int, Tensor] = {}
        for i, label in enumerate([*labels, choice]):
            clusters[label] = clusters.get(label, torch.zeros(model.config.h_size).double()) + h[i]
        everything = torch.stack([model.g(summed) for summed in clusters.values()]).sum(0)
        logits.append(model.f(torch.cat([everything, rest])).squeeze())
    return torch.log_softmax(torch.stack(logits), dim=0)


def slow_log_probability(model: NCPNetwork, points: Tensor, labels: list[int]) -> float:
    """Log probability of a partition with clusters named by first appearance, in the order of the points."""
    steps = (slow_log_probabilities(model, points, labels[:n])[label] for n, label in enumerate(labels))
    return float(sum(steps))


def partitions(n: int) -> Iterator[list[int]]:
    """All partitions of n points, clusters named by first appearance."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]


def by_first_appearance(labels: Tensor) -> list[int]:
    names: dict[int, int] = {}
    return [names.setdefault(label, len(names)) for label in labels.tolist()]


def all_positions(n_sets: int, n: int) -> Positions:
    """Every place of the order in which the points stand."""
    before = torch.arange(n) < torch.arange(n)[:, None]
    return Positions(before.expand(n_sets, n, n), torch.arange(n).expand(n_sets, n))


def log_probability_of(model: NCPNetwork, points: Tensor, labels: Tensor) -> Tensor:
    """Log probability of B partitions in the order of the points, all places at once; (B,)."""
    positions = all_positions(*labels.shape)
    log_p, choice = choice_log_probabilities(model, model.encode(points), labels, positions)
    return log_p.gather(-1, choice.unsqueeze(-1)).squeeze(-1).sum(1)


def orders_of(draws: PartitionDraws, points: Tensor, seed: int) -> Iterator[tuple[Tensor, Tensor, int]]:
    """The points of each order, their labels, and which draw it is."""
    orders, _ = random_orders(torch.ones(len(points), dtype=torch.bool), seed, len(draws.labels))
    for s, order in enumerate(orders):
        yield points[order], draws.labels[s, order], s


# -- probabilities -------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"n_hidden": 1}, {"n_hidden": 3}, {"n_wavelengths": 0}])
def test_choices_are_those_of_the_definition(options: dict[str, Any]) -> None:
    model, points = build(**options), random_points(2, 6, 2)
    labels = [[0, 0, 1, 0, 2, 1], [0, 1, 2, 3, 3, 0]]
    log_p, choice = choice_log_probabilities(
        model, model.encode(points), torch.tensor(labels), all_positions(2, 6)
    )
    assert log_p.shape == (2, 6, 5)
    for b, n in itertools.product(range(2), range(6)):
        slow = slow_log_probabilities(model, points[b], labels[b][:n])
        old = len(slow) - 1
        torch.testing.assert_close(torch.cat([log_p[b, n, :old], log_p[b, n, -1:]]), slow)
        assert (log_p[b, n, old:-1] == -torch.inf).all()  # clusters of later points
        is_new = labels[b][n] not in labels[b][:n]
        assert choice[b, n] == (4 if is_new else labels[b][n])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_probabilities_of_all_partitions_sum_to_one(n: int) -> None:
    every = torch.tensor(list(partitions(n)))
    assert len(every) == [1, 2, 5, 15, 52][n - 1]
    log_p = log_probability_of(build(), random_points(1, n, 2).expand(len(every), n, 2), every)
    assert float(log_p.exp().sum()) == pytest.approx(1, rel=1e-10)


# -- training ------------------------------------------------------------------------------------


def test_positions_are_prefixes_ofrandom_orders() -> None:
    n = 6
    positions = draw_positions(400, 5, n, torch.Generator().manual_seed(0))
    assert positions.assigned.shape == (400, 5, n)
    assert not positions.assigned.gather(-1, positions.next_point.unsqueeze(-1)).any()
    n_draws = 2000
    sizes = torch.bincount(positions.assigned.sum(-1).flatten(), minlength=n).double() / n_draws
    assert sizes[0] == 0
    # Uniform over places 2 .. n, and over points: five standard errors of a share of 2000 draws.
    assert (sizes[1:] - 1 / 5).abs().max() < 5 * (0.2 * 0.8 / n_draws) ** 0.5
    chosen = torch.bincount(positions.next_point.flatten(), minlength=n).double() / n_draws
    assert (chosen - 1 / 6).abs().max() < 5 * (1 / 6 * 5 / 6 / n_draws) ** 0.5


def test_the_loss_is_the_mean_over_orders_and_places() -> None:
    model, points, labels = build(points_per_position=1), random_points(4, 2, seed=3), [0, 1, 0, 0]
    terms = []
    for order in itertools.permutations(range(4)):
        names = by_first_appearance(torch.tensor(labels)[list(order)])
        for n in range(1, 4):
            log_p = slow_log_probabilities(model, points[list(order)], names[:n])
            terms.append(-float(log_p[names[n]]))
    exact = sum(terms) / len(terms)
    n_sets = 1000
    task = TrainingTask(
        points.expand(n_sets, 4, 2), torch.tensor(labels).expand(n_sets, 4), torch.full((n_sets,), 2)
    )
    loss = float(model.loss(task, torch.Generator().manual_seed(0)))
    spread = torch.tensor(terms).std() / (4 * n_sets) ** 0.5
    assert loss == pytest.approx(exact, abs=5 * float(spread))


def test_one_point_is_nothing_to_learn_from() -> None:
    task = TrainingTask(random_points(2, 1, 2), torch.zeros(2, 1, dtype=torch.int64), torch.ones(2))
    with pytest.raises(RecipeError, match="one point has no choice to learn from; set n_points from 2 up"):
        build().loss(task, torch.Generator())


# -- the loop ------------------------------------------------------------------------------------


def everyone(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)


def test_running_sums_give_the_probability_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """After additions and removals, also in single precision, and with room made on the way."""
    monkeypatch.setattr("clusterwise.papers.ncp.FIRST_SLOTS", 2)
    n_clusters = []
    for seed in range(4):
        model, points = build(seed), random_points(1, 30, 2, seed=seed)
        (draws,) = draw_partitions(model, points, everyone(points), [7], 100, 4)
        single = copy.deepcopy(model).float()
        (rounded,) = draw_partitions(single, points.float(), everyone(points), [7], 100, 4)
        for ordered, labels, s in orders_of(draws, points[0], 7):
            names = by_first_appearance(labels)
            assert names == labels.tolist()  # clusters are named in the order of their birth
            slow = slow_log_probability(model, ordered, names)
            assert float(draws.log_probability[s]) == pytest.approx(slow, rel=1e-9)
            n_clusters.append(max(names) + 1)
            if torch.equal(rounded.labels[s], draws.labels[s]):
                assert float(rounded.log_probability[s]) == pytest.approx(slow, rel=1e-4, abs=1e-4)
        torch.testing.assert_close(draws.probabilities.log().sum(1), draws.log_probability)
    assert min(n_clusters) < max(n_clusters)
    assert max(n_clusters) > 2


def test_drawn_partitions_have_their_probabilities() -> None:
    """Shares of the partitions of three points in many draws; probabilities averaged over the six orders."""
    model, points, n_draws = build(2), random_points(1, 3, 2, seed=5), 4000
    (draws,) = draw_partitions(model, points, everyone(points), [0], 100, n_draws)
    found = [tuple(by_first_appearance(labels)) for labels in draws.labels]
    for labels in partitions(3):
        exact = 0.0
        for order in itertools.permutations(range(3)):
            names = by_first_appearance(torch.tensor(labels)[list(order)])
            log_p = slow_log_probability(model, points[0, list(order)], names)
            exact += float(torch.tensor(log_p).exp()) / 6
        error = (exact * (1 - exact) / n_draws) ** 0.5
        assert found.count(tuple(labels)) / n_draws == pytest.approx(exact, abs=5 * error)


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_each_data_set_is_drawn_as_it_is_alone(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands beside it, however many run at once; its seed decides."""
    monkeypatch.setattr("clusterwise.papers.ncp.ROWS_AT_ONCE", rows_at_once)
    model, shares = build(), torch.tensor([[0.3], [0.9], [0.5], [1.0]])
    mask = torch.rand(4, 25, generator=torch.Generator().manual_seed(1)) < shares
    points = random_points(4, 25, 2).masked_fill(~mask.unsqueeze(-1), 1e3)
    for b, of_set in enumerate(draw_partitions(model, points, mask, [4, 5, 6, 7], 100, 3)):
        present = mask[b]
        own = points[b : b + 1, present]
        (alone,) = draw_partitions(model, own, everyone(own), [4 + b], 100, 3)
        assert torch.equal(of_set.labels[:, present], alone.labels)
        torch.testing.assert_close(of_set.log_probability, alone.log_probability)
        torch.testing.assert_close(of_set.probabilities[:, present], alone.probabilities)
        assert not of_set.probabilities[:, ~present].any()
    (other,) = draw_partitions(model, own, everyone(own), [1], 100, 3)
    assert not torch.equal(other.labels, alone.labels)


def test_the_cap_is_felt_only_where_it_binds() -> None:
    points = random_points(1, 20, 2)
    for seed in range(20):
        model = build(seed)
        (free,) = draw_partitions(model, points, everyone(points), [1], 100, 30)
        n_clusters = free.labels.amax(1) + 1
        if n_clusters.min() < n_clusters.max():  # some orders feel the cap, others do not
            break
    assert not free.cap_reached.any()
    cap = int(n_clusters.min())
    (capped,) = draw_partitions(model, points, everyone(points), [1], cap, 30)
    assert int(capped.labels.max()) + 1 == cap
    assert torch.equal(capped.cap_reached, n_clusters > cap)
    untouched = ~capped.cap_reached
    assert 0 < untouched.sum() < 30
    assert torch.equal(capped.labels[untouched], free.labels[untouched])
    torch.testing.assert_close(capped.log_probability[untouched], free.log_probability[untouched])
    assert capped.log_probability.isfinite().all()
    assert inference_of_draws(capped, everyone(points)[0]).cap_reached


# -- the answer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("winner", ["likeliest", "agreeing"])
def test_one_of_the_partitions_wins(winner: str) -> None:
    model, points = build(winner=winner), random_points(2, 15, 2)
    mask = torch.arange(15) < torch.tensor([[15], [9]])
    draws = draw_partitions(model, points, mask, [1, 2], 100, 12)
    for b, inference in enumerate(model.infer(points, mask, [1, 2], n_orders=12)):
        own = draws[b]
        same = [n for n, labels in enumerate(own.labels) if torch.equal(labels, inference.labels)]
        assert inference.log_probability in own.log_probability[same].tolist()
        if winner == "likeliest":
            assert inference.log_probability == float(own.log_probability.max())
        assert torch.equal(torch.stack(inference.draws), own.labels)
        members = torch.stack([step.members for step in inference.steps])
        assert torch.equal(members.sum(0), mask[b].long())
        for k, step in enumerate(inference.steps):
            assert (inference.labels[step.members] == k).all()
            assert torch.equal(step.probabilities > 0, step.members)


@pytest.mark.parametrize(("lead", "best"), [(5.0, 1), (30.0, 0)])
def test_probable_partitions_count_more_but_not_alone(lead: float, best: int) -> None:
    """Two equal ones beat one that is exp(5) times as probable, and not one that is exp(30) times so.

    As they are, these probabilities would let the first win both times; without them the others would.
    """
    labels = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0], [0, 1, 1, 0]])
    log_probability = torch.tensor([0.0, -lead, -lead], dtype=torch.float64)
    draws = PartitionDraws(labels, log_probability, torch.ones(3, 4), torch.zeros(3, dtype=torch.bool))
    answer = inference_of_draws(draws, torch.ones(4, dtype=torch.bool))
    assert torch.equal(answer.labels, labels[best])


def test_binders_losses_count_pairs() -> None:
    labels = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 1, 0, 0]])
    # The first and the last are equal; the second parts one pair of theirs, the third both.
    ones = torch.ones(4, dtype=torch.float64)
    assert (binder_losses(labels, ones) / 2).tolist() == [1 + 2, 1 + 1 + 1, 2 + 1 + 2, 1 + 2]
    some = torch.tensor([0.0, 2.0, 1.0, 0.0], dtype=torch.float64)
    assert (binder_losses(labels, some) / 2).tolist() == [2 + 2, 1, 2, 2 + 2]


# -- the estimator -------------------------------------------------------------------------------


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-ncp.safetensors"


@pytest.fixture(scope="module")
def three() -> np.ndarray:
    """Three clear clusters of 40, 30 and 20 rows in mixed order; (90, 2)."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 0.0], [4.0, 1.0], [-2.0, 5.0]], [40, 30, 20], axis=0)
    return rng.permutation(centres + rng.normal(0, 0.25, (90, 2)))


def test_the_partition_has_the_probability_that_is_reported(weights: Path, three: np.ndarray) -> None:
    """It is one of the drawn partitions, row by row."""
    estimator = cw.NCP(n_orders=20, weights=weights, random_state=0).fit(three)
    assert np.isfinite(estimator.partition_log_probability_)
    assert estimator.partition_log_probability_ <= 0
    samples = estimator.sample_partitions(400).labels
    assert (samples == estimator.labels_).all(axis=1).any()


def test_steps_are_the_clusters_in_the_order_of_birth(weights: Path, three: np.ndarray) -> None:
    estimator = cw.NCP(n_orders=5, weights=weights, random_state=0).fit(three)
    members = np.stack([step.members for step in estimator.steps_])
    assert (members.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(canonical_labels(members.argmax(axis=0)), estimator.labels_)
    product = sum(np.log(step.probabilities[step.members]).sum() for step in estimator.steps_)
    assert product == pytest.approx(estimator.partition_log_probability_, rel=1e-4)


def test_the_cap_bounds_the_posterior_too(weights: Path, three: np.ndarray) -> None:
    with pytest.warns(CapReachedWarning):
        estimator = cw.NCP(n_orders=10, weights=weights, random_state=0, max_clusters=1).fit(three)
    assert list(estimator.k_posterior_) == [1]


@pytest.mark.parametrize("name", [name for name in cw.list_weights() if name.startswith("ncp")])
def test_shipped_weights_find_clear_clusters(name: str, three: np.ndarray) -> None:
    estimator = cw.NCP(weights=name, random_state=0).fit(three)
    assert estimator.n_clusters_ == 3
    assert estimator.k_posterior_[3] > 0.5
    assert np.exp(estimator.partition_log_probability_) > 0.1
