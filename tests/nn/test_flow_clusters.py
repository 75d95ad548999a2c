"""Clusters that are flows: the arrays agree with the network, and they are densities."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy import stats

from clusterwise.nn.flow_clusters import ConditionedFlow, FlowClusters
from clusterwise.nn.flows import MaskedAutoregressiveFlow


def bent(n_features: int = 2, n_clusters: int = 3) -> tuple[MaskedAutoregressiveFlow, torch.Tensor]:
    torch.manual_seed(0)
    flow = MaskedAutoregressiveFlow(n_features, 5, 3, 12).double()
    with torch.no_grad():
        for block in flow.blocks:
            block.last.weight.mul_(8)
    return flow, torch.randn(n_clusters, 5, dtype=torch.float64)


def given(flow: MaskedAutoregressiveFlow, contexts: torch.Tensor) -> ConditionedFlow:
    """The flow in coordinates that differ from cluster to cluster."""
    k, d = len(contexts), flow.n_features
    means = torch.linspace(-0.5, 0.5, k * d, dtype=torch.float64).reshape(k, d)
    maps = torch.eye(d, dtype=torch.float64) + 0.2 * torch.arange(k * d * d).reshape(k, d, d) / (k * d * d)
    return flow.given(contexts, means, maps)


def clusters(n_features: int = 2) -> FlowClusters:
    flow, contexts = bent(n_features)
    points = np.random.default_rng(0).normal(size=(60, n_features))
    labels = np.repeat([0, 1, 2], [10, 20, 30])
    return FlowClusters.of(given(flow, contexts), points, labels)


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_arrays_say_what_the_network_says(n_features: int) -> None:
    flow, contexts = bent(n_features)
    arrays = given(flow, contexts)
    assert (arrays.n_clusters, arrays.n_features) == (3, n_features)
    points = np.random.default_rng(1).normal(size=(8, n_features))
    own = np.stack([(points - mean) @ own.T for mean, own in zip(arrays.means, arrays.maps, strict=True)])
    with torch.no_grad():
        noise, log_determinants = flow(torch.from_numpy(own), contexts)
    for k in range(3):
        own_noise, own_determinants = arrays.noise(points, k)
        expected = log_determinants[k].numpy() + np.log(abs(np.linalg.det(arrays.maps[k])))
        np.testing.assert_allclose(own_noise, noise[k].numpy(), rtol=1e-9)
        np.testing.assert_allclose(own_determinants, expected, rtol=1e-9)
        np.testing.assert_allclose(arrays.points(own_noise, k), points, rtol=1e-6, atol=1e-9)


def test_the_mixture_integrates_to_one() -> None:
    side = np.linspace(-25, 25, 601)
    grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
    mass = np.exp(clusters().log_density(grid)).sum() * (side[1] - side[0]) ** 2
    assert abs(mass - 1) < 0.01


def test_samples_lie_where_the_density_is() -> None:
    found = clusters()
    points, labels = found.sample(np.random.default_rng(2), 3000)
    np.testing.assert_allclose(np.bincount(labels) / 3000, found.proportions, atol=0.04)
    for k in range(3):
        noise, _ = found.flow.noise(points[labels == k], k)
        distances = np.square(noise).sum(axis=1)
        assert stats.kstest(distances, stats.chi2(2).cdf).pvalue > 1e-4


def test_memberships_are_those_of_the_joint_density() -> None:
    found, points = clusters(), np.random.default_rng(3).normal(size=(20, 2))
    joint = np.exp(found.log_joint(points))
    np.testing.assert_allclose(found.memberships(points), joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.log_density(points), np.log(joint.sum(axis=1)))


def test_chosen_clusters_keep_what_they_have() -> None:
    found, points = clusters(), np.random.default_rng(4).normal(size=(9, 2))
    some = found.select(np.array([2, 0]))
    densities = found.log_joint(points) - np.log(found.proportions)
    chosen = some.log_joint(points) - np.log(some.proportions)
    np.testing.assert_allclose(chosen, densities[:, [2, 0]])
    np.testing.assert_array_equal(some.means, found.means[[2, 0]])
    np.testing.assert_array_equal(some.counts, [30, 10])


def test_far_rows_have_finite_memberships_and_distances() -> None:
    far = np.array([[1e140, 0.0], [-1e140, 1e140], [1e6, -1e6]])
    found = clusters()
    assert np.isfinite(found.memberships(far)).all()
    assert (found.nearest_distances(far) > found.nearest_distances(found.means).max()).all()


def test_moments_are_those_of_the_members() -> None:
    points = np.random.default_rng(0).normal(size=(60, 2))  # as in ``clusters``
    found = clusters()
    np.testing.assert_allclose(found.means[1], points[10:30].mean(axis=0))
    np.testing.assert_allclose(found.covariances[1], np.cov(points[10:30].T, bias=True))


def test_they_can_be_pickled_without_torch() -> None:
    kept = pickle.dumps(clusters())
    assert b"torch" not in kept
    np.testing.assert_array_equal(pickle.loads(kept).means, clusters().means)
