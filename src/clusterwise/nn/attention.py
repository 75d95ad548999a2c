"""Set Transformer blocks (Lee et al. 2019; DAC Eqs 1-2): MAB, SAB, ISAB, PMA, with masks.

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

from clusterwise.nn.folded import FoldedISAB

__all__ = [
    "InducedSetAttentionBlock",
    "MultiheadAttentionBlock",
    "PoolingByMultiheadAttention",
    "SetAttentionBlock",
]


class MultiheadAttentionBlock(nn.Module):
    """MAB(X, Y) = H + rFF(H), H = X + rFF(MultiheadAtt(X, Y)); Eq 1."""

    def __init__(self, width: int, n_heads: int, layer_norm: bool = False) -> None:
        super().__init__()
        if width % n_heads:
            raise ValueError(f"width {width} is not a multiple of n_heads {n_heads}")
        self.n_heads = n_heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width)
        self.feed_forward = nn.Linear(width, width)
        self.norm_attention: nn.Module = nn.LayerNorm(width) if layer_norm else nn.Identity()
        self.norm_output: nn.Module = nn.LayerNorm(width) if layer_norm else nn.Identity()

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend from x (B, n, width) to y (B, m, width); ``mask`` (B, m) marks the present y."""
        if y.shape[1] == 1:
            attended = self.output(self.value(y))  # with a single key every weight is one
        elif x.shape[1] <= y.shape[1]:
            attended = self._attend_from_few(x, y, mask)
        else:
            attended = self._attend_to_few(x, y, mask)
        h = self.norm_attention(x + attended)
        return self.norm_output(h + torch.relu(self.feed_forward(h)))

    def _heads(self, projected: Tensor) -> Tensor:
        """Split (B, n, width) into (B, heads, n, width / heads)."""
        return projected.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def _per_head(self, weight: Tensor) -> Tensor:
        """View a (width, width) projection as (heads, width / heads, width)."""
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
        return torch.matmul(attention, mixed) + self.output.bias


class SetAttentionBlock(nn.Module):
    """SAB(X) = MAB(X, X)."""

    def __init__(self, width: int, n_heads: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.block = MultiheadAttentionBlock(width, n_heads, layer_norm)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (B, n, width) to (B, n, width)."""
        return self.block(x, x, mask)


class InducedSetAttentionBlock(nn.Module):
    """ISAB(X) = MAB(X, MAB(I, X)) with trainable inducing points I; Eq 2, linear in n."""

    def __init__(self, width: int, n_heads: int, n_inducing: int, layer_norm: bool = False) -> None:
        super().__init__()
        self.inducing = nn.Parameter(torch.empty(1, n_inducing, width))
        nn.init.xavier_uniform_(self.inducing)
        self.gather = MultiheadAttentionBlock(width, n_heads, layer_norm)
        self.spread = MultiheadAttentionBlock(width, n_heads, layer_norm)
        self._folded: FoldedISAB | None = None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (B, n, width) to (B, n, width); absent points are ignored."""
        if not torch.is_grad_enabled():
            return self.folded()(x, mask)
        self._folded = None
        summary = self.gather(self.inducing.expand(len(x), -1, -1), x, mask)
        return self.spread(x, summary)

    def folded(self) -> FoldedISAB:
        """Return the block without gradients; the last one, if no parameter has changed since."""
        if self._folded is None or not self._folded.holds():
            with torch.inference_mode(False):
                self._folded = FoldedISAB(self)
        return self._folded


class PoolingByMultiheadAttention(nn.Module):
    """PMA_k(X) = MAB(S, X) with k trainable seeds S."""

    def __init__(self, width: int, n_heads: int, n_seeds: int = 1, layer_norm: bool = False) -> None:
        super().__init__()
        self.seeds = nn.Parameter(torch.empty(1, n_seeds, width))
        nn.init.xavier_uniform_(self.seeds)
        self.block = MultiheadAttentionBlock(width, n_heads, layer_norm)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Summarize (B, n, width) as (B, n_seeds, width)."""
        return self.block(self.seeds.expand(len(x), -1, -1), x, mask)
