"""The encoder of a few data sets of one size in numpy, without gradients.

A call of torch takes about as long as its arithmetic on a few hundred points; numpy takes a fraction of that.
Points are columns here, (B, width, N): sums over channels, heads and inducing points then run along the
points. Each data set comes out as it does alone, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from clusterwise.nn.attention import InducedSetAttentionBlock, MultiheadAttentionBlock, SetEncoder

__all__ = ["NumpyEncoder"]


class NumpyEncoder:
    """What ``SetEncoder`` does, with its parameters at the time of making."""

    @torch.no_grad()
    def __init__(self, encoder: SetEncoder) -> None:
        blocks = cast("list[InducedSetAttentionBlock]", encoder.blocks)
        self.folded = [FoldedISAB(block) for block in blocks]
        linear = encoder.embed.linear
        self.frequencies = _array(encoder.embed.frequencies)
        self.weight, self.bias = _array(linear.weight), _array(linear.bias)[:, None]
        self.blocks = [_Block(folded) for folded in self.folded]
        self._embedding = linear.weight, linear.bias
        self._state = self._state_of_embedding()

    def _state_of_embedding(self) -> list[int]:
        return [number for p in self._embedding for number in (p._version, p.data_ptr())]

    def holds(self) -> bool:
        """Whether the parameters are still what they were."""
        return self._state == self._state_of_embedding() and all(folded.holds() for folded in self.folded)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Map points (B, N, n_features) to (B, width, N)."""
        n_sets, n_points, _ = points.shape
        columns = np.ascontiguousarray(points.swapaxes(1, 2), dtype=np.float32)
        phases = (columns[:, :, None] * self.frequencies[:, None]).reshape(n_sets, -1, n_points)
        h: np.ndarray = self.weight @ np.concatenate([columns, np.sin(phases), np.cos(phases)], axis=1)
        h += self.bias
        for block in self.blocks:
            h = block(h)
        return h


class _Block:
    """MAB(X, MAB(I, X)); see ``FoldedISAB``, whose products of parameters these are."""

    def __init__(self, folded: FoldedISAB) -> None:
        self.n_heads, self.few = folded.n_heads, folded.few
        self.queries = _array(folded.queries[0])  # (few * H, width)
        self.pooled_to_output, self.start = _array(folded.pooled_to_output), _array(folded.start)
        self.keys_values, self.beyond = _array(folded.keys_values), _array(folded.beyond)
        self.share_of_bias = _array(folded.share_of_bias)
        first, second = folded.ends
        self.first = _array(first.weight), _array(first.bias)
        self.second = _array(second.weight.T), _array(second.bias)[:, None]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Map (B, width, N) to (B, width, N)."""
        keys, values = self._keys_and_values(self._gather(x))
        return self._spread(x, keys, values)

    def _gather(self, x: np.ndarray) -> np.ndarray:
        """MAB(I, X), (B, few, width)."""
        weights = self.queries @ x
        weights -= weights.max(axis=2, keepdims=True)
        np.exp(weights, out=weights)
        pooled = weights @ x.swapaxes(1, 2)
        pooled /= weights.sum(axis=2, keepdims=True)
        h = pooled.reshape(len(x), self.few, -1) @ self.pooled_to_output
        h += self.start
        weight, bias = self.first
        return np.maximum(h @ weight + bias, h)

    def _keys_and_values(self, summary: np.ndarray) -> np.ndarray:
        """Folded keys and values of the second half, (2, B, H * few, width)."""
        n_sets = len(summary)
        projected = (summary @ self.keys_values).reshape(n_sets, self.few, 2 * self.n_heads, -1)
        folded = projected.swapaxes(1, 2) @ self.beyond  # (B, 2 H, few, width)
        return folded.reshape(n_sets, 2, self.n_heads * self.few, -1).swapaxes(0, 1)

    def _spread(self, x: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """MAB(X, summary), (B, width, N)."""
        scores = keys @ x
        by_head = scores.reshape(len(x), self.n_heads, self.few, -1)
        by_head -= by_head.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        by_head /= by_head.sum(axis=2, keepdims=True)
        h = (values + self.share_of_bias).swapaxes(1, 2) @ scores
        h += x
        weight, bias = self.second
        output = weight @ h
        output += bias
        return np.maximum(output, h, out=output)


class FoldedISAB:
    """Products of two parameters of MAB(X, MAB(I, X)), with which it takes few operations.

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


class _End:
    """What an attention block does after the attention: from x + attention to its output, (rows, width)."""

    def __init__(self, block: MultiheadAttentionBlock) -> None:
        self.weight = block.feed_forward.weight.T.contiguous()
        self.weight.diagonal().add_(1)
        self.bias = block.feed_forward.bias.detach()


def _array(tensor: Tensor) -> Any:
    """A copy in single precision, row by row."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float32)
