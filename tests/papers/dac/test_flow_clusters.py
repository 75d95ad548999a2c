"""Clusters that are flows: a mixture whose densities are those of the network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clusterwise.nn.densities import ClusterFlow
from clusterwise.papers.dac.flow_clusters import ROWS_AT_ONCE, FlowClusters

SIZES = [10, 20, 30]
LABELS = np.repeat([0, 1, 2], SIZES)


def points_of(n_features: int) -> np.ndarray:
    """Points (60, d) of three clusters, apart from each other."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, n_features)) + 3 * LABELS[:, None]


def network(n_features: int) -> ClusterFlow:
    """One that bends a lot."""
    torch.manual_seed(0)
    flow = ClusterFlow(n_features, 5, 3, 12).double()
    with torch.no_grad():
        for block in flow.flow.blocks:
            block.last.weight.mul_(8)
    return flow


def members_of(points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    members = torch.nn.utils.rnn.pad_sequence(points.split(SIZES), batch_first=True)
    return members, torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]


def clusters(n_features: int = 2) -> FlowClusters:
    points = torch.from_numpy(points_of(n_features))
    return FlowClusters.of(network(n_features), points, torch.from_numpy(LABELS), *members_of(points))


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_densities_are_those_of_the_network(n_features: int) -> None:
    points = torch.from_numpy(points_of(n_features))
    with torch.no_grad():
        each = network(n_features).log_density(points.expand(3, -1, -1), *members_of(points)).T
    found, expected = clusters(n_features), each.numpy() + np.log(np.array(SIZES) / 60)
    np.testing.assert_allclose(found.log_joint(points.numpy()), expected, rtol=1e-5)
    joint = np.exp(expected)
    own = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.memberships(points.numpy()), own, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(found.log_density(points.numpy()), np.log(joint.sum(axis=1)), rtol=1e-5)


def test_a_row_has_the_same_density_whatever_rows_are_beside_it() -> None:
    found, points = clusters(), np.random.default_rng(1).normal(size=(2 * ROWS_AT_ONCE + 7, 2))
    together = found.log_joint(points)
    for rows in ([3], [ROWS_AT_ONCE + 2, 1], np.arange(len(points))[::-1]):
        np.testing.assert_array_equal(found.log_joint(points[rows]), together[rows])


def test_samples_lie_where_the_density_is() -> None:
    found = clusters()
    points, labels = found.sample(np.random.default_rng(2), 4000)
    np.testing.assert_allclose(np.bincount(labels) / 4000, found.proportions, atol=0.04)
    for k in range(3):
        # Squared lengths of u are chi-squared: half of them are below 1.386.
        distances = found.select(np.array([k])).nearest_distances(points[labels == k])
        assert abs(np.mean(distances < 1.386) - 0.5) < 0.12


def test_selected_clusters_keep_what_they_have() -> None:
    found, points = clusters(), np.random.default_rng(4).normal(size=(9, 2))
    some = found.select(np.array([2, 0]))
    densities = found.log_joint(points) - np.log(found.proportions)
    np.testing.assert_allclose(some.log_joint(points) - np.log(some.proportions), densities[:, [2, 0]])
    np.testing.assert_array_equal(some.counts, [30, 10])
    members = points_of(2)[LABELS == 2]
    np.testing.assert_allclose(some.means[0], members.mean(axis=0))
    np.testing.assert_allclose(some.covariances[0], np.cov(members.T, bias=True))


def test_far_rows_have_finite_memberships_and_distances() -> None:
    far = np.array([[1e140, 0.0], [-1e140, 1e140], [1e6, -1e6]])
    found = clusters()
    assert np.isfinite(found.memberships(far)).all()
    assert (found.nearest_distances(far) > found.nearest_distances(found.means).max()).all()
