"""Coordinates to vectors, and the encoder: points in any order, absent points unread."""

from __future__ import annotations

import math

import pytest
import torch

from clusterwise.nn.encoder import CoordinateEmbedding, SetEncoder


def test_no_wavelengths_is_the_linear_map_of_the_papers() -> None:
    embed, points = CoordinateEmbedding(3, 5, n_wavelengths=0), torch.randn(2, 4, 3)
    torch.testing.assert_close(embed(points), points @ embed.linear.weight.T + embed.linear.bias)


def test_waves_against_a_loop() -> None:
    torch.manual_seed(0)
    embed, points = (
        CoordinateEmbedding(2, 5, n_wavelengths=3, longest=8.0).double(),
        torch.randn(1, 3, 2).double(),
    )
    result = embed(points)
    for i in range(3):
        x = points[0, i].tolist()
        angles = [2 * math.pi * coordinate / wavelength for coordinate in x for wavelength in (8.0, 4.0, 2.0)]
        row = x + [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
        expected = embed.linear.weight @ torch.tensor(row, dtype=torch.float64) + embed.linear.bias
        torch.testing.assert_close(result[0, i], expected, rtol=1e-6, atol=1e-6)  # wavelengths are float32


@pytest.mark.parametrize("n_wavelengths", [1, 4])
def test_the_longest_wavelength_is_a_period_of_all_waves(n_wavelengths: int) -> None:
    torch.manual_seed(0)
    embed = CoordinateEmbedding(2, 6, n_wavelengths, longest=8.0).double()
    points = torch.randn(1, 5, 2).double()
    step = embed.linear.weight[:, :2].sum(1) * 8.0  # what the linear part adds
    torch.testing.assert_close(embed(points + 8.0), embed(points) + step, rtol=1e-5, atol=1e-5)


def test_weights_hold_no_wavelengths() -> None:
    """They follow from the config, and files stay readable if their number format changes."""
    assert set(CoordinateEmbedding(2, 4, 6).state_dict()) == {"linear.weight", "linear.bias"}


def test_permutation_and_masking() -> None:
    torch.manual_seed(0)
    encoder = SetEncoder(3, 8, 2, 4, 2, 2).double()
    points = torch.randn(2, 20, 3, dtype=torch.float64)
    order = torch.randperm(20)
    torch.testing.assert_close(encoder(points)[:, order], encoder(points[:, order]))
    mask = torch.arange(20) < 13
    masked = encoder(points, mask.expand(2, -1))[:, mask]
    torch.testing.assert_close(masked, encoder(points[:, mask]))
    assert not torch.allclose(masked, encoder(points)[:, mask])  # absent points would have mattered
