"""Cluster densities p(x; theta) that a network can output."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["DiagonalGaussianHead", "diagonal_gaussian_log_density"]


def diagonal_gaussian_log_density(points: Tensor, means: Tensor, log_sds: Tensor) -> Tensor:
    """log N(x; mu, diag(sd^2)) over the last axis, the leading axes broadcast."""
    standardized = (points - means) * torch.exp(-log_sds)
    return -(0.5 * standardized.square() + log_sds).sum(-1) - 0.5 * points.shape[-1] * math.log(2 * math.pi)


class DiagonalGaussianHead(nn.Module):
    """theta = rFF(H_theta): the mean and the log standard deviation of a diagonal Gaussian."""

    def __init__(self, width: int, n_features: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.parameters_of_gaussian = nn.Linear(width, 2 * n_features)

    def forward(self, h_theta: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations, both (..., d), of H_theta (..., width)."""
        raw = self.parameters_of_gaussian(torch.relu(self.hidden(h_theta)))
        means, log_sds = raw.chunk(2, dim=-1)
        # Data are scaled to unit spread; nothing narrower than exp(-7) or wider than exp(2) is a cluster.
        return means, log_sds.clamp(-7.0, 2.0)
