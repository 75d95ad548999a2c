"""The encoder of a point set: an embedding of the coordinates and a stack of ISABs, run once per data set."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clusterwise.nn.attention import InducedSetAttentionBlock
from clusterwise.nn.embedding import CoordinateEmbedding

__all__ = ["SetEncoder"]

# Points of the sets that the CPU encodes at a time: what passes between the layers then stays in its cache.
POINTS_AT_A_TIME = 1024


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
        """Map (B, N, n_features) to (B, N, width); absent points are ignored."""
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
