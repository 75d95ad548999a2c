"""Masked autoregressive flow (Papamakarios et al. 2017): a density of any shape, given a context vector.

    log p(x; theta) = log Normal(u; 0, I) - sum_i log sigma_i,  u_i = (x_i - mu_i) / sigma_i

in each of several blocks, where mu_i and log sigma_i are functions of the x that come before x_i and of the
context theta (DAC, Eqs 14-15). Every other block takes the features in the opposite order. A block computes
all of its mu and sigma in one pass, by a network some of whose weights are masked out (MADE, Germain et al.
2015).

The paper leaves the first feature of a block as it is; here the context moves and scales it too, so that the
flow can start with the place and the size of the cluster.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise._tensors import to_numpy
from clusterwise.nn.flow_clusters import ConditionedFlow

__all__ = ["MaskedAutoregressiveFlow", "autoregressive_masks"]

# No block stretches by more than exp of this.
LARGEST_LOG_SCALE = 5.0


def autoregressive_masks(order: Tensor, n_hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of three layers: features (d) to hidden, hidden to hidden, hidden to features.

    ``order`` (d,) says as which each feature comes, 0 .. d-1; an output sees the features before its own.
    """
    d = len(order)
    hidden = torch.arange(n_hidden) % max(1, d - 1)  # a unit of degree g sees the features 0 .. g
    return (
        (order[None, :] <= hidden[:, None]).float() * (d > 1),
        (hidden[None, :] <= hidden[:, None]).float(),
        (hidden[None, :] < order[:, None]).float(),
    )


class _Block(nn.Module):
    """One MADE with two hidden layers; the context is added before each activation."""

    first_mask: Tensor
    second_mask: Tensor
    last_mask: Tensor

    def __init__(self, n_context: int, n_hidden: int, order: Tensor) -> None:
        super().__init__()
        d = len(order)
        self.order: list[int] = order.tolist()
        first, second, last = autoregressive_masks(order, n_hidden)
        self.register_buffer("first_mask", first, persistent=False)
        self.register_buffer("second_mask", second, persistent=False)
        self.register_buffer("last_mask", last.repeat(2, 1), persistent=False)
        self.first = nn.Linear(d, n_hidden, bias=False)
        self.second = nn.Linear(n_hidden, n_hidden, bias=False)
        self.last = nn.Linear(n_hidden, 2 * d, bias=False)
        self.context = nn.Linear(n_context, 2 * n_hidden + 2 * d)
        with torch.no_grad():  # near the identity at first
            self.last.weight.mul_(0.1)
            self.context.weight[-2 * d :].mul_(0.1)
            self.context.bias[-2 * d :].zero_()

    def shift_and_log_scale(self, points: Tensor, from_context: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and log sigma (..., n, d) of points (..., n, d); ``from_context`` is (..., 1, c)."""
        n_hidden = self.first.out_features
        one, two, three = from_context.split([n_hidden, n_hidden, 2 * points.shape[-1]], dim=-1)
        h = torch.relu(functional.linear(points, self.first.weight * self.first_mask) + one)
        h = torch.relu(functional.linear(h, self.second.weight * self.second_mask) + two)
        raw = functional.linear(h, self.last.weight * self.last_mask) + three
        shift, log_scale = raw.chunk(2, dim=-1)
        return shift, LARGEST_LOG_SCALE * torch.tanh(log_scale / LARGEST_LOG_SCALE)

    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """Masked weights of the three layers, one row for each unit that a layer reads."""
        layers = (self.first, self.first_mask), (self.second, self.second_mask), (self.last, self.last_mask)
        first, second, last = ((layer.weight * mask).T for layer, mask in layers)
        return first, second, last


class MaskedAutoregressiveFlow(nn.Module):
    """A density over d features, given a context."""

    def __init__(self, n_features: int, n_context: int, n_blocks: int = 4, n_hidden: int = 64) -> None:
        super().__init__()
        self.n_features = n_features
        order = torch.arange(n_features)
        self.blocks = nn.ModuleList(
            _Block(n_context, n_hidden, order.flip(0) if b % 2 else order) for b in range(n_blocks)
        )

    def _in_order(self) -> list[_Block]:
        return [block for block in self.blocks if isinstance(block, _Block)]

    def forward(self, points: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Map points (..., n, d) to noise (..., n, d) and the log determinants (..., n); context (..., c)."""
        log_determinant = points.new_zeros(points.shape[:-1])
        for block in self._in_order():
            shift, log_scale = block.shift_and_log_scale(points, block.context(context).unsqueeze(-2))
            points = (points - shift) * torch.exp(-log_scale)
            log_determinant = log_determinant - log_scale.sum(-1)
        return points, log_determinant

    def log_density(self, points: Tensor, context: Tensor) -> Tensor:
        """Log density (..., n) of points (..., n, d), given a context (..., c)."""
        noise, log_determinant = self(points, context)
        return log_determinant - 0.5 * noise.square().sum(-1) - 0.5 * self.n_features * math.log(2 * math.pi)

    @torch.no_grad()
    def given(self, contexts: Tensor, means: Tensor, maps: Tensor) -> ConditionedFlow:
        """The flow with K contexts (K, c) after u = map (x - mean), as arrays; see ``ConditionedFlow``."""
        blocks = self._in_order()
        first, second, last = map(torch.stack, zip(*(block.weights() for block in blocks), strict=True))
        added = torch.stack([block.context(contexts) for block in blocks], dim=1)
        return ConditionedFlow(
            features=np.array([np.argsort(block.order) for block in blocks]),
            first=to_numpy(first.contiguous(), np.float64),
            second=to_numpy(second.contiguous(), np.float64),
            last=to_numpy(last.contiguous(), np.float64),
            contexts=to_numpy(added.contiguous(), np.float64),
            largest_log_scale=LARGEST_LOG_SCALE,
            means=to_numpy(means, np.float64),
            maps=to_numpy(maps, np.float64),
        )

    def inverse(self, noise: Tensor, context: Tensor) -> Tensor:
        """Map noise (..., n, d) to the points that ``forward`` maps to it, one feature after the other."""
        points = noise
        for block in reversed(self._in_order()):
            from_context = block.context(context).unsqueeze(-2)
            noise, points = points, torch.zeros_like(points)
            for place in range(self.n_features):
                feature = block.order.index(place)
                shift, log_scale = block.shift_and_log_scale(points, from_context)
                value = noise[..., feature] * torch.exp(log_scale[..., feature]) + shift[..., feature]
                points = points.clone()
                points[..., feature] = value
        return points
