"""The encoder of a point set: an embedding of the coordinates and a stack of ISABs, run once per data set."""

from __future__ import annotations

from torch import Tensor, nn

from clusterwise.nn.attention import InducedSetAttentionBlock
from clusterwise.nn.embedding import CoordinateEmbedding

__all__ = ["SetEncoder"]


class SetEncoder(nn.Module):
    """H = ISAB_L(embed(X)): every point described in the light of all others, in time linear in N."""

    def __init__(
        self, n_features: int, width: int, n_heads: int, n_inducing: int, n_blocks: int, n_wavelengths: int
    ) -> None:
        super().__init__()
        self.embed = CoordinateEmbedding(n_features, width, n_wavelengths)
        self.blocks = nn.ModuleList(
            InducedSetAttentionBlock(width, n_heads, n_inducing) for _ in range(n_blocks)
        )

    def forward(self, points: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (B, N, n_features) to (B, N, width); absent points are read by nobody."""
        h: Tensor = self.embed(points)
        for block in self.blocks:
            h = block(h, mask)
        return h
