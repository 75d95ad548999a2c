"""Coordinates to vectors: the layer before the first attention block."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["CoordinateEmbedding"]


class CoordinateEmbedding(nn.Module):
    """A linear map of the coordinates and, optionally, of their sines and cosines.

    Clusters are an order of magnitude narrower than the data set, which a linear map of the
    coordinates resolves only after long training. Sines and cosines at wavelengths
    ``longest, longest / 2, longest / 4, ...`` give that resolution from the first step.
    ``n_wavelengths = 0`` is the plain linear map of the papers.
    """

    frequencies: Tensor

    def __init__(self, n_features: int, width: int, n_wavelengths: int, longest: float = 8.0) -> None:
        super().__init__()
        wavelengths = longest / 2.0 ** torch.arange(n_wavelengths)
        self.register_buffer("frequencies", 2 * math.pi / wavelengths, persistent=False)
        self.linear = nn.Linear(n_features * (1 + 2 * n_wavelengths), width)

    def forward(self, points: Tensor) -> Tensor:
        """Map (B, N, n_features) to (B, N, width)."""
        phases = (points.unsqueeze(-1) * self.frequencies).flatten(-2)
        return self.linear(torch.cat([points, torch.sin(phases), torch.cos(phases)], dim=-1))
