"""The search among flows mends clusters that were found twice, in halves, or with rows of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from clusterwise.models.dac_flows import best_partition, flow_loss, members_of_labels, some_members
from clusterwise.nn.cluster_flows import ClusterFlow


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


def test_starts_complete_each_other(flow: ClusterFlow, three: tuple[Tensor, np.ndarray]) -> None:
    """Each has two of the clusters in one, and nothing in the search splits."""
    points, truth = three
    first = torch.from_numpy(np.array([0, 0, 1])[truth])
    second = torch.from_numpy(np.array([0, 1, 1])[truth])
    assert best_partition(flow, points, [first]).max() == 1
    found = best_partition(flow, points, [first, second])
    assert adjusted_rand_score(truth, found.numpy()) > 0.99


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
