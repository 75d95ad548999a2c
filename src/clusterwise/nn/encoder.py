"""The encoder of a point set: an embedding of the coordinates and a stack of ISABs, run once per data set."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from clusterwise.nn.attention import InducedSetAttentionBlock

__all__ = ["CoordinateEmbedding", "SetEncoder"]

# Points of the sets that the CPU encodes at a time: what passes between the layers then stays in its cache.
POINTS_AT_A_TIME = 1024


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
        """Vectors (B, N, width) of points (B, N, n_features)."""
        phases = (points.unsqueeze(-1) * self.frequencies).flatten(-2)
        return self.linear(torch.cat([points, torch.sin(phases), torch.cos(phases)], dim=-1))


class SetEncoder(nn.Module):
    """H = ISAB_L(embed(X)): every point described in the context of all others, in time linear in N."""

    def __init__(
        self, n_features: int, width: int, n_heads: int, n_inducing: int, n_blocks: int, n_wavelengths: int
    ) -> None:
        super().__init__()
        self.embed = CoordinateEmbedding(n_features, width, n_wavelengths)
        self.blocks = nn.ModuleList(
            InducedSetAttentionBlock(width, n_heads, n_inducing) for _ in range(n_blocks)
        )

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """H (B, N, width) of points (B, N, n_features); absent points are ignored."""
        n_sets, n_points, _ = points.shape
        at_a_time = max(1, POINTS_AT_A_TIME // max(1, n_points))
        if n_sets <= at_a_time or torch.is_grad_enabled() or points.device.type != "cpu":
            return self._encode(points, mask)
        masks = [None] * n_sets if mask is None else mask.split(at_a_time)
        parts = zip(points.split(at_a_time), masks, strict=mask is not None)
        return torch.cat([self._encode(*part) for part in parts])

    def _encode(self, points: Tensor, mask: Tensor | None) -> Tensor:
        h: Tensor = self.embed(points)
        for block in self.blocks:
            h = block(h, mask)
        return h
