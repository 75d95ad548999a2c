"""Gaussian densities against scipy; the flow is a density, autoregressive and invertible."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from clusterwise.nn.densities import (
    ClusterFlow,
    DiagonalGaussianHead,
    MaskedAutoregressiveFlow,
    autoregressive_masks,
    diagonal_gaussian_log_density,
    own_coordinates,
)


def bent_flow(n_features: int = 2, n_blocks: int = 4) -> MaskedAutoregressiveFlow:
    """A flow that bends a lot: weights larger than those of the start."""
    torch.manual_seed(0)
    made = MaskedAutoregressiveFlow(n_features, 5, n_blocks, 16).double()
    with torch.no_grad():
        for block in made.blocks:
            block.last.weight.mul_(10)
            block.context.weight.mul_(2)
    return made


def cluster_flow() -> ClusterFlow:
    torch.manual_seed(0)
    return ClusterFlow(2, 8, 4, 16).double()


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def arc(n: int = 200) -> Tensor:
    """Points (n, 2) around an arc, more of them at one end."""
    rng = np.random.default_rng(0)
    angle = 2.5 * rng.beta(1.0, 1.5, n)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.04 * rng.standard_normal((n, 2))
    return torch.from_numpy(0.5 * points)


def everyone(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)


def mass_of(log_density: Tensor, side: Tensor) -> float:
    return float(log_density.exp().sum() * (side[1] - side[0]) ** 2)


# -- diagonal Gaussians --------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_log_density_is_scipys(n_features: int) -> None:
    rng = np.random.default_rng(n_features)
    points, means, log_sds = rng.normal(size=(3, 7, n_features))
    expected = norm.logpdf(points, means, np.exp(log_sds)).sum(axis=1)
    result = diagonal_gaussian_log_density(*map(torch.from_numpy, (points, means, log_sds)))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_head_keeps_widths_sensible() -> None:
    torch.manual_seed(0)
    head = DiagonalGaussianHead(8, 3)
    means, log_sds = head(1e4 * torch.randn(6, 2, 8))
    assert means.shape == log_sds.shape == (6, 2, 3)
    assert means.abs().max() > 100  # only the widths are bounded
    assert log_sds.min() == -7.0
    assert log_sds.max() == 2.0


# -- the flow ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0], [3, 2, 1, 0]])
def test_an_output_depends_on_the_features_before_it(order: list[int]) -> None:
    first, second, last = autoregressive_masks(torch.tensor(order), 12)
    depends = (last @ second @ first) > 0
    for i, place in enumerate(order):
        assert depends[i].tolist() == [other < place for other in order]


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_inverse_and_determinants_are_those_of_the_flow(n_features: int) -> None:
    flow, points, contexts = bent_flow(n_features), normal(3, 9, n_features), normal(3, 5, seed=2)
    with torch.no_grad():
        noise, log_determinants = flow(points, contexts)
        assert not torch.allclose(noise, points)
        torch.testing.assert_close(flow.inverse(noise, contexts), points)
    for point, expected in zip(points[0], log_determinants[0], strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda x: flow(x[None], contexts[0])[0][0], point)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, expected)


@torch.no_grad()
def test_it_is_a_density_and_the_context_decides_which() -> None:
    flow, side = bent_flow(n_blocks=2), torch.linspace(-20, 20, 401, dtype=torch.float64)
    densities = flow.log_density(torch.cartesian_prod(side, side).expand(2, -1, -1), normal(2, 5, seed=3))
    for one in densities:
        assert abs(mass_of(one, side) - 1) < 0.01
    assert not torch.allclose(*densities)


# -- the flow of a cluster, by its members -----------------------------------------------------------


def test_members_have_unit_moments_in_their_own_coordinates() -> None:
    points = normal(3, 4000, 2) @ torch.tensor([[2.0, 1.0], [0.0, 1.0]]).double()
    means, maps = own_coordinates(points, everyone(points))
    own = (points - means.unsqueeze(1)) @ maps.transpose(1, 2)
    torch.testing.assert_close(own.mean(1), torch.zeros(3, 2).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(own[0].T.cov(), torch.eye(2).double(), atol=0.05, rtol=0)


def test_a_cluster_looks_the_same_wherever_it_lies_and_however_it_is_turned() -> None:
    points, angle = arc(), 1.1
    turn = torch.tensor([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    both = torch.stack([points, points @ turn.T + 3.0])
    density = cluster_flow().log_density(both, both, everyone(both))
    torch.testing.assert_close(density[0], density[1])


def test_absent_members_do_not_count() -> None:
    points, flow = arc(60)[None], cluster_flow()
    mask, elsewhere = everyone(points), points.clone()
    mask[:, 40:] = False
    elsewhere[:, 40:] += 5.0
    expected = flow.log_density(points, points[:, :40], everyone(points[:, :40]))
    torch.testing.assert_close(flow.log_density(points, elsewhere, mask), expected)


@pytest.mark.parametrize("n_members", [1, 2, 50])
@torch.no_grad()
def test_few_members_make_a_density_too(n_members: int) -> None:
    side, members = torch.linspace(-6, 6, 401, dtype=torch.float64), arc(50)[None, :n_members]
    grid = torch.cartesian_prod(side, side)[None]
    assert abs(mass_of(cluster_flow().log_density(grid, members, everyone(members)), side) - 1) < 0.02


def test_it_learns_a_bent_cluster() -> None:
    """After few steps it is better than the Gaussian of the same members."""
    points, flow = arc().float()[None], cluster_flow().float()
    gaussian = torch.distributions.MultivariateNormal(points[0].mean(0), points[0].T.cov())
    optimizer = torch.optim.Adam(flow.parameters(), lr=0.003)
    for _ in range(100):
        loss = -flow.log_density(points, points, everyone(points)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < -float(gaussian.log_prob(points[0]).mean()) - 0.3
