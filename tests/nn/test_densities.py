"""Diagonal Gaussian densities against scipy, and the head that outputs them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm

from clusterwise.nn.densities import DiagonalGaussianHead, diagonal_gaussian_log_density


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_log_density_is_scipys(n_features: int) -> None:
    rng = np.random.default_rng(n_features)
    points, means, log_sds = rng.normal(size=(3, 7, n_features))
    expected = norm.logpdf(points, means, np.exp(log_sds)).sum(axis=1)
    result = diagonal_gaussian_log_density(*map(torch.from_numpy, (points, means, log_sds)))
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_leading_axes_broadcast() -> None:
    torch.manual_seed(0)
    points, means, log_sds = torch.randn(2, 5, 1, 3), torch.randn(2, 1, 4, 3), torch.randn(2, 1, 4, 3)
    result = diagonal_gaussian_log_density(points, means, log_sds)
    assert result.shape == (2, 5, 4)
    one = diagonal_gaussian_log_density(points[1, 3, 0], means[1, 0, 2], log_sds[1, 0, 2])
    torch.testing.assert_close(result[1, 3, 2], one)


def test_head_keeps_widths_sensible() -> None:
    torch.manual_seed(0)
    head = DiagonalGaussianHead(8, 3)
    means, log_sds = head(1e4 * torch.randn(6, 2, 8))
    assert means.shape == log_sds.shape == (6, 2, 3)
    assert means.abs().max() > 100  # only the widths are bounded
    assert log_sds.min() == -7.0
    assert log_sds.max() == 2.0
