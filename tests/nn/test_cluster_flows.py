"""The density of a cluster follows from its members, wherever they lie, and learns to bend."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from clusterwise.nn.cluster_flows import ClusterFlow, own_coordinates
from clusterwise.nn.flow_clusters import FlowClusters


def arc(n: int = 200, seed: int = 0) -> Tensor:
    """Points (n, 2) around an arc, more of them at one end."""
    rng = np.random.default_rng(seed)
    angle = 2.5 * rng.beta(1.0, 1.5, n)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.04 * rng.standard_normal((n, 2))
    return torch.from_numpy(0.5 * points)


def flow() -> ClusterFlow:
    torch.manual_seed(0)
    return ClusterFlow(2, 8, 4, 16).double()


def everyone(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)


def test_members_have_unit_moments_in_their_own_coordinates() -> None:
    points = torch.randn(3, 4000, 2, dtype=torch.float64) @ torch.tensor([[2.0, 1.0], [0.0, 1.0]]).double()
    means, maps = own_coordinates(points, everyone(points))
    own = (points - means.unsqueeze(1)) @ maps.transpose(1, 2)
    torch.testing.assert_close(own.mean(1), torch.zeros(3, 2).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(own[0].T.cov(), torch.eye(2).double(), atol=0.05, rtol=0)


def test_a_cluster_looks_the_same_wherever_it_lies_and_however_it_is_turned() -> None:
    points, angle = arc(), 1.1
    turn = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    both = torch.stack([points, points @ turn.T + 3.0])
    means, maps = own_coordinates(both, everyone(both))
    one, other = (both - means.unsqueeze(1)) @ maps.transpose(1, 2)
    torch.testing.assert_close(one, other)
    density = flow().log_density(both, both, everyone(both))
    torch.testing.assert_close(density[0], density[1])


def test_absent_members_do_not_count() -> None:
    points, made = arc(60)[None], flow()
    mask = everyone(points)
    mask[:, 40:] = False
    elsewhere = points.clone()
    elsewhere[:, 40:] += 5.0
    torch.testing.assert_close(
        made.log_density(points, points, mask), made.log_density(points, elsewhere, mask)
    )


@pytest.mark.parametrize("n_members", [1, 2, 50])
def test_it_is_a_density(n_members: int) -> None:
    made, points = flow(), arc(50)[None, :n_members]
    side = torch.linspace(-6, 6, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)[None]
    with torch.no_grad():
        mass = made.log_density(grid, points, everyone(points)).exp().sum() * float(side[1] - side[0]) ** 2
    assert abs(float(mass) - 1) < 0.02


def test_arrays_say_what_the_network_says() -> None:
    points, made = torch.stack([arc(80), arc(80, seed=1) + 2.0]), flow()
    labels = np.repeat([0, 1], 80)
    rows = points.flatten(0, 1)
    arrays = FlowClusters.of(made.given(points, everyone(points)), rows.numpy(), labels)
    with torch.no_grad():
        expected = made.log_density(rows.expand(2, -1, -1), points, everyone(points)).T - np.log(2)
    np.testing.assert_allclose(arrays.log_joint(rows.numpy()), expected.numpy(), rtol=1e-6)


def test_it_learns_a_bent_cluster() -> None:
    """After few steps it is better than the Gaussian of the same members."""
    points, made = arc().float()[None], flow().float()
    gaussian = torch.distributions.MultivariateNormal(points[0].mean(0), points[0].T.cov())
    optimizer = torch.optim.Adam(made.parameters(), lr=0.003)
    for _ in range(100):
        loss = -made.log_density(points, points, everyone(points)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < -float(gaussian.log_prob(points[0]).mean()) - 0.3
