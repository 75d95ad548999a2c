"""Densities p(x; theta) of a cluster that a network can output: a diagonal Gaussian, or a flow.

A *masked autoregressive flow* has any shape, given what the members of a cluster have in common::

    log p(x; theta) = log Normal(u; 0, I) - sum_i log sigma_i,   u_i = (x_i - mu_i) / sigma_i

in each of several blocks, where mu_i and log sigma_i are functions of the x that come before x_i and of the
context theta (Papamakarios et al. 2017; DAC, Eqs 14-15). Every other block takes the features in the opposite
order. A block computes all of its mu and sigma in one pass, by a network some of whose weights are masked out
(MADE, Germain et al. 2015). The paper leaves the first feature of a block as it is; here the context moves
and scales it too, so that the flow can start with the place and the size of the cluster.

``ClusterFlow`` makes theta of the members of a cluster. They are moved to mean zero, turned to their
principal axes and scaled to unit variance along each. In these coordinates clusters of all places, sizes and
directions look alike, and a flow near the identity is a Gaussian with the covariance of the members: what is
left to learn is how they are bent. A small set network reads that from the members.
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.attention import PoolingByMultiheadAttention, SetEncoder

__all__ = [
    "ClusterFlow",
    "DiagonalGaussianHead",
    "MaskedAutoregressiveFlow",
    "autoregressive_masks",
    "diagonal_gaussian_log_density",
    "own_coordinates",
]

# No block stretches by more than exp of this.
MAX_LOG_SCALE = 5.0
# Variances of n members grow by the first share of their largest, and by the second of it and of a typical
# one over n: two members lie on a line, one has no variance at all.
MIN_SHARE, SHARE_OF_FEW, TYPICAL_VARIANCE = 1e-4, 0.1, 0.04
# The set network of a cluster.
WIDTH, HEADS, INDUCING, BLOCKS, WAVELENGTHS = 64, 4, 16, 2, 4


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


def autoregressive_masks(order: Tensor, n_hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of three layers: features (d) to hidden, hidden to hidden, hidden to features.

    ``order`` (d,) is the place of each feature, 0 .. d-1; an output sees the features before its own.
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

    def forward(self, points: Tensor, from_context: Tensor) -> tuple[Tensor, Tensor]:
        """mu and log sigma (..., n, d) of points (..., n, d); ``from_context`` is (..., 1, c)."""
        n_hidden = self.first.out_features
        one, two, three = from_context.split([n_hidden, n_hidden, 2 * points.shape[-1]], dim=-1)
        h = torch.relu(functional.linear(points, self.first.weight * self.first_mask) + one)
        h = torch.relu(functional.linear(h, self.second.weight * self.second_mask) + two)
        raw = functional.linear(h, self.last.weight * self.last_mask) + three
        shift, log_scale = raw.chunk(2, dim=-1)
        return shift, MAX_LOG_SCALE * torch.tanh(log_scale / MAX_LOG_SCALE)


class MaskedAutoregressiveFlow(nn.Module):
    """A density over d features, given a context."""

    def __init__(self, n_features: int, n_context: int, n_blocks: int = 4, n_hidden: int = 64) -> None:
        super().__init__()
        self.n_features = n_features
        order = torch.arange(n_features)
        self.blocks = nn.ModuleList(
            _Block(n_context, n_hidden, order.flip(0) if b % 2 else order) for b in range(n_blocks)
        )

    def forward(self, points: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        """Noise u (..., n, d) of points (..., n, d) and log determinants (..., n); context (..., c)."""
        log_determinant = points.new_zeros(points.shape[:-1])
        for block in cast("list[_Block]", self.blocks):
            shift, log_scale = block(points, block.context(context).unsqueeze(-2))
            points = (points - shift) * torch.exp(-log_scale)
            log_determinant = log_determinant - log_scale.sum(-1)
        return points, log_determinant

    def log_density(self, points: Tensor, context: Tensor) -> Tensor:
        """Log density (..., n) of points (..., n, d), given a context (..., c)."""
        noise, log_determinant = self(points, context)
        return log_determinant - 0.5 * noise.square().sum(-1) - 0.5 * self.n_features * math.log(2 * math.pi)

    def inverse(self, noise: Tensor, context: Tensor) -> Tensor:
        """The points (..., n, d) that ``forward`` maps to this noise, one feature after the other."""
        points = noise
        for block in reversed(cast("list[_Block]", list(self.blocks))):
            from_context = block.context(context).unsqueeze(-2)
            noise, points = points, torch.zeros_like(points)
            for place in range(self.n_features):
                feature = block.order.index(place)
                shift, log_scale = block(points, from_context)
                value = noise[..., feature] * torch.exp(log_scale[..., feature]) + shift[..., feature]
                points = points.clone()
                points[..., feature] = value
        return points


def own_coordinates(points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Means (C, d) and maps (C, d, d) of members (C, m, d) with mask (C, m); u = map (x - mean).

    Axes come from the widest to the narrowest and point where the members' third moment is positive, so that
    an arc is bent the same way however it lies.
    """
    present = mask.unsqueeze(-1).to(points.dtype)
    sizes = present.sum(1)
    means = (points * present).sum(1) / sizes
    offsets = (points - means.unsqueeze(1)) * present
    covariances = offsets.transpose(1, 2) @ offsets / sizes.unsqueeze(-1)
    variances, axes = torch.linalg.eigh(covariances)  # columns of axes, variances rising
    variances, axes = variances.flip(-1), axes.flip(-1)
    variances = variances.clamp(min=0)
    widest = variances[:, :1]
    variances = variances + MIN_SHARE * widest + SHARE_OF_FEW / sizes * (widest + TYPICAL_VARIANCE)
    third = (offsets @ axes).pow(3).sum(1)
    signs = torch.where(third < 0, -1.0, 1.0)
    return means, (axes * (signs * variances.rsqrt()).unsqueeze(1)).transpose(1, 2)


class ClusterFlow(nn.Module):
    """theta of the members of a cluster, and the density that it has with it."""

    def __init__(self, n_features: int, n_context: int, n_blocks: int, n_hidden: int) -> None:
        super().__init__()
        self.encoder = SetEncoder(n_features, WIDTH, HEADS, INDUCING, BLOCKS, WAVELENGTHS)
        self.pool = PoolingByMultiheadAttention(WIDTH, HEADS)
        self.of_size = nn.Linear(1, WIDTH)  # attention does not count
        self.to_context = nn.Linear(WIDTH, n_context)
        self.flow = MaskedAutoregressiveFlow(n_features, n_context, n_blocks, n_hidden)

    def describe(self, members: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Contexts (C, c), means and maps of C clusters by their members (C, m, d), mask (C, m)."""
        means, maps = own_coordinates(members, mask)
        pooled = self.pool(self.encoder(_mapped(members, means, maps), mask), mask).squeeze(1)
        log_size = mask.sum(1, keepdim=True).to(members.dtype).log() / 5
        return self.to_context(torch.relu(pooled + self.of_size(log_size))), means, maps

    def log_density(self, points: Tensor, members: Tensor, mask: Tensor) -> Tensor:
        """Log density (C, n) of points (C, n, d) under clusters with members (C, m, d), mask (C, m)."""
        context, means, maps = self.describe(members, mask)
        own = self.flow.log_density(_mapped(points, means, maps), context)
        return own + torch.linalg.slogdet(maps).logabsdet.unsqueeze(1)


def _mapped(points: Tensor, means: Tensor, maps: Tensor) -> Tensor:
    """Points (C, n, d) in the coordinates of their clusters; absent ones are somewhere."""
    return (points - means.unsqueeze(1)) @ maps.transpose(1, 2)
