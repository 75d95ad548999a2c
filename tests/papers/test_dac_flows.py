"""The search among flows mends clusters that were found twice, in halves, or with rows of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from clusterwise.nn.cluster_flows import ClusterFlow
from clusterwise.papers import dac_flows
from clusterwise.papers.dac_flows import (
    best_partition,
    branches,
    flow_loss,
    members_of_labels,
    some_members,
)


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
    monkeypatch.setattr(dac_flows, "branches", lambda points: torch.zeros(0, len(points), dtype=torch.bool))
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
    assert found.sum(1).min() >= dac_flows.LEAST_PART_SHARE * len(points)
    assert len(found) <= 2 * len(dac_flows.TREES) * dac_flows.DIVISIONS
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
    monkeypatch.setattr(dac_flows, "MISFIT", 0.0)
    assert best_partition(flow, points, [start]).max() > 0


def test_one_cluster_and_one_point(flow: ClusterFlow) -> None:
    assert best_partition(flow, torch.zeros(1, 2), [torch.zeros(1, dtype=torch.long)]).tolist() == [0]
    same = best_partition(flow, torch.ones(20, 2), [torch.zeros(20, dtype=torch.long)] * 2)
    assert same.tolist() == [0] * 20


def test_a_flow_learns_from_clusters_that_it_sees_in_part(flow: ClusterFlow) -> None:
    points = torch.randn(3, 40, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40).remainder(4).expand(3, -1)
    loss = flow_loss(flow, points, labels, torch.Generator().manual_seed(1))
    assert loss.shape == () and torch.isfinite(loss)
    alone = flow_loss(flow, points[:, :4], labels[:, :4], torch.Generator().manual_seed(1))
    assert alone.item() == 0.0  # a cluster of one point has nobody to describe
