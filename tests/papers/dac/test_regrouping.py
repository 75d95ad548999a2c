"""The search by DAC's densities: what is two becomes two, what is one stays one; caps, prices, trees."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from clusterwise.nn.densities import ClusterFlow
from clusterwise.papers.dac import regrouping
from clusterwise.papers.dac.dac import DACConfig, DACNetwork
from clusterwise.papers.dac.regrouping import (
    branches,
    members_of_labels,
    regrouped_flows,
    regrouped_gaussians,
    some_members,
)

# -- flows -------------------------------------------------------------------------------------------


def best_partition(flow: ClusterFlow, points: Tensor, starts: list[Tensor], most: int = 100) -> Tensor:
    return regrouped_flows(flow, points, starts, most)[0]


@pytest.fixture(scope="module")
def flow() -> ClusterFlow:
    """Not trained, which is near a Gaussian: enough for clusters that are Gaussians."""
    torch.manual_seed(0)
    return ClusterFlow(2, 8, 2, 8).eval()


@pytest.fixture(scope="module")
def three() -> tuple[Tensor, np.ndarray]:
    """Three Gaussians (300, 2) in a random order, and who is in which."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 300)
    points = 0.1 * rng.standard_normal((300, 2)) + np.array([[-1.0, 0], [1, 0], [0, 1.5]])[truth]
    return torch.from_numpy(points).float(), truth


def test_members_are_those_of_the_labels() -> None:
    labels = torch.tensor([0, 2, 1, 0, 2, 2])
    index, mask = some_members(members_of_labels(labels))
    for k in range(3):
        assert set(index[k][mask[k]].tolist()) == set((labels == k).nonzero().flatten().tolist())


def test_halves_become_one(flow: ClusterFlow, three: tuple[Tensor, np.ndarray]) -> None:
    points, truth = three
    halves = torch.from_numpy(truth) * 2 + (points[:, 1] > points[:, 1].median()).long()
    found = best_partition(flow, points, [torch.unique(halves, return_inverse=True)[1]])
    assert adjusted_rand_score(truth, found.numpy()) > 0.99


def test_stragglers_are_left_out(flow: ClusterFlow, three: tuple[Tensor, np.ndarray]) -> None:
    points, truth = three
    labels = torch.from_numpy(truth).clone()
    labels[[3, 50]] = 3
    labels[120] = 4
    assert adjusted_rand_score(truth, best_partition(flow, points, [labels]).numpy()) > 0.99


def test_what_is_right_stays(flow: ClusterFlow, three: tuple[Tensor, np.ndarray]) -> None:
    points, truth = three
    np.testing.assert_array_equal(best_partition(flow, points, [torch.from_numpy(truth)]).numpy(), truth)


def test_starts_complete_each_other(
    flow: ClusterFlow, three: tuple[Tensor, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has two of the clusters in one, and without trees nothing in the search splits."""
    monkeypatch.setattr(regrouping, "branches", lambda points: torch.zeros(0, len(points), dtype=torch.bool))
    points, truth = three
    first = torch.from_numpy(np.array([0, 0, 1])[truth])
    second = torch.from_numpy(np.array([0, 1, 1])[truth])
    assert best_partition(flow, points, [first]).max() == 1
    found = best_partition(flow, points, [first, second])
    assert adjusted_rand_score(truth, found.numpy()) > 0.99


def test_trees_have_what_no_start_has(flow: ClusterFlow, three: tuple[Tensor, np.ndarray]) -> None:
    points, truth = three
    everything = torch.zeros(len(points), dtype=torch.long)
    assert adjusted_rand_score(truth, best_partition(flow, points, [everything]).numpy()) > 0.99


def test_branches_are_sizeable_and_hold_the_clusters(three: tuple[Tensor, np.ndarray]) -> None:
    points, truth = three
    found = branches(points)
    assert found.sum(1).min() >= regrouping.MIN_PART_SHARE * len(points)
    assert len(found) <= 4 * regrouping.MAX_DIVISIONS
    for k in range(3):
        assert (found.numpy() == (truth == k)).all(axis=1).any()
    assert branches(points[:10]).shape == (0, 10)  # too few to be divided


def test_a_cluster_is_not_cut_because_its_density_is_not_exact(
    flow: ClusterFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two Gaussians describe a slightly bent bar better than one, whatever the number of points."""
    rng = np.random.default_rng(0)
    along = rng.uniform(-1, 1, 400)
    bar = np.c_[along, 0.05 * np.square(along) + 0.06 * rng.standard_normal(400)]
    points, start = torch.from_numpy(bar).float(), torch.from_numpy(along > 0).long()
    assert best_partition(flow, points, [start]).max() == 0
    monkeypatch.setattr(regrouping, "FLOW_MISFIT", 0.0)
    assert best_partition(flow, points, [start]).max() > 0


def test_one_cluster_and_one_point(flow: ClusterFlow) -> None:
    assert best_partition(flow, torch.zeros(1, 2), [torch.zeros(1, dtype=torch.long)]).tolist() == [0]
    same = best_partition(flow, torch.ones(20, 2), [torch.zeros(20, dtype=torch.long)] * 2)
    assert same.tolist() == [0] * 20


# -- Gaussians ---------------------------------------------------------------------------------------


class Moments:
    """In place of a trained network: means and standard deviations as they are, none of them tiny."""

    def describe(self, points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        present = mask.unsqueeze(-1)
        n = present.sum(1)
        means = (points * present).sum(1) / n
        squares = ((points - means.unsqueeze(1)).square() * present).sum(1)
        return means, 0.5 * torch.log((squares + 0.02) / (n + 1))


NETWORK = cast("DACNetwork", Moments())


def regrouped(network: DACNetwork, points: Tensor, labels: Tensor, most: int) -> Tensor:
    return regrouped_gaussians(network, points, labels, most)[0]


def clusters(sizes: tuple[int, ...], apart: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Round clusters on a line, ``apart`` standard deviations from each other, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = 0.15 * rng.standard_normal((len(labels), 2))
    points[:, 0] += 0.15 * apart * labels
    return torch.tensor(points), torch.tensor(labels)


def agreement(one: Tensor, other: Tensor) -> float:
    """Share of points in pairs of clusters that belong together."""
    table = torch.zeros(int(one.max()) + 1, int(other.max()) + 1)
    table.index_put_((one, other), torch.ones(len(one)), accumulate=True)
    return float(table.amax(1).sum()) / len(one) if table.shape[0] == table.shape[1] else 0.0


@pytest.mark.parametrize("sizes", [(60, 60), (90, 30), (50, 50, 50)])
def test_two_clusters_with_one_name_are_cut(sizes: tuple[int, ...]) -> None:
    points, labels = clusters(sizes, apart=8)
    found = regrouped(NETWORK, points, (labels - 1).clamp(min=0), 20)
    assert agreement(found, labels) == 1.0


def test_a_cluster_with_several_names_is_united() -> None:
    points, labels = clusters((60, 40), apart=8)
    names = torch.where(labels == 0, torch.arange(len(labels)) % 3, 3)
    assert agreement(regrouped(NETWORK, points, names, 20), labels) == 1.0


def test_a_straggler_joins_its_cluster() -> None:
    """A cluster of one point at the rim is narrow, and far away in its own standard deviations."""
    points, labels = clusters((80, 60), apart=10)
    points[0] = torch.tensor([0.0, 0.6])  # four standard deviations from the middle of the first cluster
    names = labels.clone()
    names[0] = 2
    assert agreement(regrouped(NETWORK, points, names, 20), labels) == 1.0


def test_points_between_two_clusters_go_where_they_are_likelier() -> None:
    points, labels = clusters((80, 80), apart=5)
    greedy = torch.where(points[:, 0] < 0.15 * 3.5, 0, 1)  # the first pass took what belongs to the second
    assert agreement(greedy, labels) < 0.97
    assert agreement(regrouped(NETWORK, points, greedy, 20), labels) > 0.98


def test_clusters_that_are_right_stay() -> None:
    points, labels = clusters((50, 6, 30), apart=9)
    assert agreement(regrouped(NETWORK, points, 2 * labels, 20), labels) == 1.0


def test_the_price_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    points, labels = clusters((60, 60), apart=4)
    together = torch.zeros_like(labels)
    assert int(regrouped(NETWORK, points, together, 20).max()) == 1
    monkeypatch.setattr(regrouping, "GAUSSIAN_PRICE", 1000.0)
    assert int(regrouped(NETWORK, points, together, 20).max()) == 0
    assert int(regrouped(NETWORK, points, labels, 20).max()) == 0


def test_no_more_clusters_than_allowed() -> None:
    points, labels = clusters((30,) * 6, apart=9)
    assert int(regrouped(NETWORK, points, torch.zeros_like(labels), 3).max()) < 3


@pytest.mark.parametrize(("most", "capped"), [(1, True), (2, False)])
def test_a_cap_that_stood_in_the_way_is_told(most: int, capped: bool) -> None:
    points, labels = clusters((60, 60), apart=8)
    found, told = regrouped_gaussians(NETWORK, points, torch.zeros_like(labels), most)
    assert int(found.max()) == most - 1
    assert told is capped


def test_one_point_and_equal_points() -> None:
    points = torch.full((7, 2), 0.5)
    for n in (1, 7):
        assert regrouped(NETWORK, points[:n], torch.zeros(n, dtype=torch.int64), 5).tolist() == [0] * n


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_every_data_set_of_a_batch_is_regrouped_by_itself(filtering: Any) -> None:
    torch.manual_seed(0)
    model = DACNetwork(DACConfig(filtering=filtering, width=8, n_heads=2, n_inducing=4)).eval()
    sets = [clusters((20, 12), apart=8, seed=1)[0].float(), clusters((9,), apart=0, seed=2)[0].float()]
    points = torch.nn.utils.rnn.pad_sequence(sets, batch_first=True)
    mask = torch.arange(32) < torch.tensor([[32], [9]])
    together = model.infer(points, mask, seeds=[3, 4], n_starts=1)
    for one, own, seed in zip(together, sets, (3, 4), strict=True):
        alone = model.infer(own[None], torch.ones(1, len(own), dtype=torch.bool), seeds=[seed])[0].labels
        with torch.inference_mode():
            expected = regrouped(model, own, alone, 100)
        assert torch.equal(one.labels[: len(own)], expected)
