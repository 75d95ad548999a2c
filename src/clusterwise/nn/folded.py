"""ISAB without gradients: products of two parameters are taken once and kept as long as they hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from clusterwise.nn.attention import InducedSetAttentionBlock, MultiheadAttentionBlock

__all__ = ["FoldedISAB"]


class FoldedISAB:
    """MAB(X, MAB(I, X)) with few operations: five matrix products over the points and two softmaxes.

    I does not depend on the data, hence neither do its queries, nor their product with the projection of the
    keys. ``h + relu(h W + b)`` is ``max(h (W + 1) + b, h)``, one pass over the points less. Weights of an
    attention sum to one in each of its H heads, so that a bias of the output may be shared among the values.
    """

    @torch.no_grad()
    def __init__(self, block: InducedSetAttentionBlock) -> None:
        gather, spread, start = block.gather, block.spread, block.inducing[0]
        self.n_heads, (self.few, width) = gather.n_heads, start.shape
        per_head = width // self.n_heads
        scale = 1 / math.sqrt(per_head)

        def by_head(layer: nn.Linear) -> Tensor:
            """Projections of the points, (H, width / H, width)."""
            return layer.weight.view(self.n_heads, per_head, width)

        def output_by_head(layer: nn.Linear) -> Tensor:
            """What each head adds to the output, (H, width / H, width)."""
            return layer.weight.view(width, self.n_heads, per_head).permute(1, 2, 0)

        # Rows are inducing points first, then heads, (few * H, width): what they pool is (few, H * width).
        queries = (scale * gather.query(start)).view(self.few, self.n_heads, 1, per_head)
        self.queries = (queries @ by_head(gather.key)).view(1, -1, width)
        self.pooled_to_output = (by_head(gather.value).mT @ output_by_head(gather.output)).view(-1, width)
        self.start = start + gather.output.bias
        # Of the second half: keys and values of all heads, (width, 2 * width), and what follows them in each.
        self.keys_values = torch.cat([scale * spread.key.weight, spread.value.weight]).T.contiguous()
        self.beyond = torch.cat([by_head(spread.query), output_by_head(spread.output)])
        self.share_of_bias = spread.output.bias / self.n_heads
        self.ends = _End(gather), _End(spread)

        # Walking through the modules each time would take as long as a matrix product.
        self._tables = [module._parameters for module in block.modules() if module._parameters]
        self._kept = [parameter.detach() for parameter in block.parameters()]  # no other gets their address
        self._state = None if block.inducing.is_inference() else self._state_of_parameters()

    def holds(self) -> bool:
        """Whether the parameters are still what they were; a write through ``.data`` goes unnoticed."""
        return self._state is not None and self._state == self._state_of_parameters()

    def _state_of_parameters(self) -> list[int]:
        """Where the parameters lie, and how often each was written to."""
        now = [p for table in self._tables for p in table.values() if p is not None]
        return [p._version for p in now] + [p.data_ptr() for p in now]

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map (B, n, width) to (B, n, width); absent points are ignored."""
        keys, values = self._keys_and_values(self._gather(x, mask))
        return self._spread(x, keys, values)

    def _gather(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """MAB(I, X), (B * few, width)."""
        n_sets, _, width = x.shape
        scores = torch.bmm(self.queries.expand(n_sets, -1, -1), x.transpose(1, 2))  # (B, few * H, n)
        if mask is not None:
            scores.masked_fill_(~mask[:, None, :], torch.finfo(scores.dtype).min)
        pooled = torch.bmm(torch.softmax(scores, dim=-1), x)
        attended = torch.mm(pooled.view(n_sets * self.few, -1), self.pooled_to_output)
        return self.ends[0](attended.view(n_sets, self.few, width).add_(self.start).view(-1, width))

    def _keys_and_values(self, summary: Tensor) -> Tensor:
        """Folded keys and values of the second half for every set, (2, B, H * few, width)."""
        rows, width = summary.shape
        projected = torch.mm(summary, self.keys_values).view(rows, 2 * self.n_heads, -1)
        folded = torch.bmm(projected.transpose(0, 1), self.beyond)  # (2 H, B * few, width)
        by_set = folded.view(2, self.n_heads, -1, self.few, width).transpose(1, 2)
        return by_set.reshape(2, -1, self.n_heads * self.few, width)

    def _spread(self, x: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """MAB(X, summary), (B, n, width)."""
        n_sets, n_points, width = x.shape
        scores = torch.bmm(x, keys.transpose(1, 2))  # (B, n, H * few)
        attention = torch.softmax(scores.view(n_sets, n_points, self.n_heads, self.few), dim=-1)
        h = torch.baddbmm(x, attention.view_as(scores), values + self.share_of_bias)
        return self.ends[1](h.view(-1, width)).view_as(x)


class _End:
    """What an attention block does after the attention: from x + attention to its output, (rows, width)."""

    def __init__(self, block: MultiheadAttentionBlock) -> None:
        self.weight = block.feed_forward.weight.T.contiguous()
        self.weight.diagonal().add_(1)
        self.bias = block.feed_forward.bias.detach()

    def __call__(self, h: Tensor) -> Tensor:
        return torch.maximum(torch.addmm(self.bias, h, self.weight), h)
