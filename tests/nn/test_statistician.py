"""The density of images is a bound, draws stay within the range of the pixels, and everything learns."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from clusterwise.nn.statistician import NeuralStatistician

D, C, LATENT = 6, 5, 2


def statistician(seed: int = 0) -> NeuralStatistician:
    torch.manual_seed(seed)
    made = NeuralStatistician(8, D, C, LATENT, 16)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)  # densities that differ
    return made


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_shapes_follow_the_sets() -> None:
    made, rows, noise = statistician(), torch.rand(3, 7, D), normal(4, 3, 7, LATENT)
    context = made.context(normal(3, 8))
    assert context.shape == (3, C)
    assert made.log_density(rows, context, noise).shape == (3, 7)
    assert made.draw(context, normal(3, 9, LATENT)).shape == (3, 9, D)


@torch.no_grad()
def test_all_black_and_white_images_share_at_most_the_probability_one() -> None:
    """Importance weights have the right mean: with many draws the bound adds up to nearly one, never more."""
    made, context = statistician(), normal(C, seed=2)
    images = torch.tensor(list(itertools.product([0.0, 1.0], repeat=D)))
    one = made.log_density(images, context, normal(1, len(images), LATENT)).exp().sum()
    many = made.log_density(images, context, normal(4000, 1, LATENT).expand(-1, len(images), -1)).exp().sum()
    assert float(one) < 1.3
    assert 0.9 < float(many) < 1.05


@torch.no_grad()
def test_images_are_treated_each_by_itself() -> None:
    made, rows, noise, context = statistician(), torch.rand(7, D), normal(1, 7, LATENT), normal(C)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    found = made.log_density(rows, context, noise)
    torch.testing.assert_close(made.log_density(rows[order], context, noise[:, order]), found[order])


def test_gradients_reach_every_parameter() -> None:
    made = statistician()
    made.log_density(
        torch.rand(2, 5, D), made.context(normal(2, 8)), normal(1, 2, 5, LATENT)
    ).sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize(("low", "high"), [(0.0, 255.0), (-1.0, 1.0), (3.0, 3.0)])
@torch.no_grad()
def test_draws_have_the_range_of_the_training_table(low: float, high: float) -> None:
    made, rows = statistician(), low + (high - low) * torch.rand(20, D)
    rows[0, 0], rows[0, 1] = low, high
    made.start(rows)
    drawn = made.draw(normal(3, C), normal(3, 50, LATENT))
    assert float(drawn.min()) >= low
    assert float(drawn.max()) <= max(high, low + 1)
    assert bool(torch.isfinite(made.log_density(rows, normal(C), normal(1, 20, LATENT))).all())


@torch.no_grad()
def test_it_begins_with_the_mean_image() -> None:
    made = NeuralStatistician(8, D, C, LATENT, 16)
    rows = torch.rand(500, D, generator=torch.Generator().manual_seed(0)) * torch.arange(1, D + 1)
    made.start(rows)
    drawn = made.draw(normal(C), normal(200, LATENT))
    torch.testing.assert_close(drawn.mean(0), rows.mean(0), rtol=0.2, atol=0.1)
