"""The flow is a density for every context, autoregressive, and can be inverted."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clusterwise.nn.flows import MaskedAutoregressiveFlow, autoregressive_masks


def flow(n_features: int = 2, n_context: int = 5, n_blocks: int = 4) -> MaskedAutoregressiveFlow:
    """A flow that bends a lot: weights larger than those of the start."""
    torch.manual_seed(0)
    made = MaskedAutoregressiveFlow(n_features, n_context, n_blocks, 16).double()
    with torch.no_grad():
        for block in made.blocks:
            block.last.weight.mul_(10)
            block.context.weight.mul_(2)
    return made


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("order", [[0], [0, 1], [1, 0], [0, 1, 2, 3], [3, 2, 1, 0]])
def test_an_output_sees_the_features_before_it(order: list[int]) -> None:
    first, second, last = autoregressive_masks(torch.tensor(order), 12)
    sees = (last @ second @ first) > 0
    for i, place in enumerate(order):
        assert sees[i].tolist() == [other < place for other in order]


@pytest.mark.parametrize("n_features", [1, 2, 3])
@torch.no_grad()
def test_inverse_undoes_the_flow(n_features: int) -> None:
    bent, points, context = flow(n_features), normal(3, 9, n_features), normal(3, 5, seed=2)
    noise, _ = bent(points, context)
    assert not torch.allclose(noise, points)
    torch.testing.assert_close(bent.inverse(noise, context), points)


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_determinants_are_those_of_the_jacobian(n_features: int) -> None:
    bent, points, context = flow(n_features), normal(6, n_features), normal(5, seed=2)
    _, log_determinants = bent(points, context)
    for point, expected in zip(points, log_determinants, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda x: bent(x[None], context)[0][0], point)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, expected)


@torch.no_grad()
def test_the_density_integrates_to_one_for_every_context() -> None:
    bent = flow(n_blocks=2)
    side = torch.linspace(-20, 20, 401, dtype=torch.float64)
    grid = torch.cartesian_prod(side, side)
    for context in normal(3, 5, seed=3):
        mass = bent.log_density(grid, context).exp().sum() * float(side[1] - side[0]) ** 2
        assert abs(float(mass) - 1) < 0.01


@torch.no_grad()
def test_the_context_decides_which_density_it_is() -> None:
    bent, points = flow(), normal(7, 2)
    one, other = (bent.log_density(points, context) for context in normal(2, 5, seed=4))
    assert not torch.allclose(one, other)
