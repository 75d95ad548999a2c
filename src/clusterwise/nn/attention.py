"""Set Transformer (Lee et al. 2019; DAC Eqs 1-2): the blocks MAB, SAB, ISAB, PMA with masks, and the encoder.

Sets are tensors of shape (B, N, width); a mask of shape (B, N) is True where a point is present.
Absent points get an attention weight of exactly zero, so masking a point equals deleting it.

Every attention here has one short side (inducing points, seeds or a few cluster vectors). The
projections of the long side are therefore folded into the short one: with q = x W_q and
k = y W_k, the score q k^T equals x (W_q k^T), and (sum_i a_i y_i) W_v equals sum_i a_i (y_i W_v).
The long side is then touched by plain matrix products only, with no copy per head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = [
    "CoordinateEmbedding",
    "InducedSetAttentionBlock",
    "MultiheadAttentionBlock",
    "PoolingByMultiheadAttention",
    "SetAttentionBlock",
    "SetEncoder",
]

# Points of the sets that the CPU encodes at a time: what passes between the layers then stays in its cache.
POINTS_AT_A_TIME = 1024


class MultiheadAttentionBlock(nn.Module):
    """MAB(X, Y) = H + rFF(H), H = X + rFF(MultiheadAtt(X, Y)); Eq 1."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"width {width} is not a multiple of n_heads {n_heads}")
        self.n_heads = n_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width)
        self.feed_forward = nn.Linear(width, width)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B, n, width) after attention to y (B, m, width); ``mask`` (B, m) marks the present y."""
        if y.shape[1] == 1:
            h = x + self.output(self.value(y))  # with a single key every weight is one
        elif x.shape[1] <= y.shape[1]:
            h = x + self._attend_from_few(x, y, mask)
        else:
            h = self._attend_to_few(x, y, mask)
        return h + torch.relu_(self.feed_forward(h))

    def _heads(self, projected: Tensor) -> Tensor:
        """(B, heads, n, width / heads) of projections (B, n, width)."""
        return projected.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _per_head(self, weight: Tensor) -> Tensor:
        """A (width, width) projection as (heads, width / heads, width)."""
        return weight.unflatten(0, (self.n_heads, -1))

    def _attend_from_few(self, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        batch, few, width = x.shape
        queries = self._heads(self.query(x)) / math.sqrt(width // self.n_heads)
        folded = torch.matmul(queries, self._per_head(self.key.weight))  # (B, heads, few, width)
        scores = torch.matmul(folded.flatten(1, 2), y.transpose(1, 2))  # (B, heads * few, many)
        if mask is not None:
            # The smallest finite number, not -inf: a set with no point left must not give NaN.
            scores = scores.masked_fill(~mask[:, None, :], torch.finfo(scores.dtype).min)
        attention = torch.softmax(scores, dim=-1)
        pooled = torch.matmul(attention, y).unflatten(1, (self.n_heads, few))
        values = torch.matmul(pooled, self._per_head(self.value.weight).transpose(1, 2))
        return self.output(values.transpose(1, 2).reshape(batch, few, width))

    def _attend_to_few(self, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        """x plus what it attends to."""
        few, width = y.shape[1:]
        keys = self._heads(self.key(y)) / math.sqrt(width // self.n_heads)
        # (B, heads * few, width)
        folded = torch.matmul(keys, self._per_head(self.query.weight)).flatten(1, 2)
        scores = torch.matmul(x, folded.transpose(1, 2)).unflatten(-1, (self.n_heads, few))
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], torch.finfo(scores.dtype).min)
        attention = torch.softmax(scores, dim=-1).flatten(-2)  # (B, many, heads * few)
        # (width, heads, width / heads) blocks of the output projection, one per head
        blocks = self.output.weight.unflatten(1, (self.n_heads, -1)).permute(1, 2, 0)
        mixed = torch.matmul(self._heads(self.value(y)), blocks).flatten(1, 2)  # (B, heads * few, width)
        # Weights sum to one in each head, so that the bias may be shared among the values.
        return torch.baddbmm(x, attention, mixed + self.output.bias / self.n_heads)


class SetAttentionBlock(nn.Module):
    """SAB(X) = MAB(X, X)."""

    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.block = MultiheadAttentionBlock(width, n_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, width) of x (B, n, width)."""
        return self.block(x, x, mask)


class InducedSetAttentionBlock(nn.Module):
    """ISAB(X) = MAB(X, MAB(I, X)) with trainable inducing points I; Eq 2, linear in n."""

    def __init__(self, width: int, n_heads: int, n_inducing: int) -> None:
        super().__init__()
        self.inducing = nn.Parameter(torch.empty(1, n_inducing, width))
        nn.init.xavier_uniform_(self.inducing)
        self.gather = MultiheadAttentionBlock(width, n_heads)
        self.spread = MultiheadAttentionBlock(width, n_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, width) of x (B, n, width); absent points are ignored."""
        summary = self.gather(self.inducing.expand(len(x), -1, -1), x, mask)
        return self.spread(x, summary)


class PoolingByMultiheadAttention(nn.Module):
    """PMA_k(X) = MAB(S, X) with k trainable seeds S."""

    def __init__(self, width: int, n_heads: int, n_seeds: int = 1) -> None:
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(1, n_seeds, width))
        nn.init.xavier_uniform_(self.seeds)
        self.block = MultiheadAttentionBlock(width, n_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Summaries (B, n_seeds, width) of x (B, n, width)."""
        return self.block(self.seeds.expand(len(x), -1, -1), x, mask)


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
