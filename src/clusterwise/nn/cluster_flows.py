"""The density of a cluster by its members: a flow in coordinates of the cluster's own.

Members are moved to mean zero, turned to their principal axes and scaled to unit variance along each. In
these coordinates clusters of all places, sizes and directions look alike, and a flow near the identity is a
Gaussian with the covariance of the members: what is left to learn is how they are bent. A small set network
reads that from the members and gives the context theta of a masked autoregressive flow (``nn.flows``).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clusterwise.nn.attention import PoolingByMultiheadAttention
from clusterwise.nn.encoder import SetEncoder
from clusterwise.nn.flow_clusters import ConditionedFlow
from clusterwise.nn.flows import MaskedAutoregressiveFlow

__all__ = ["ClusterFlow", "own_coordinates"]

# Variances of n members grow by the first share of their largest, and by the second of it and of a typical
# one over n: two members lie on a line, one has no variance at all.
LEAST_SHARE, SHARE_OF_FEW, TYPICAL_VARIANCE = 1e-4, 0.1, 0.04
# The set network of a cluster.
WIDTH, HEADS, INDUCING, BLOCKS, WAVELENGTHS = 64, 4, 16, 2, 4


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
    largest = variances[:, :1]
    variances = variances + LEAST_SHARE * largest + SHARE_OF_FEW / sizes * (largest + TYPICAL_VARIANCE)
    third = (offsets @ axes).pow(3).sum(1)
    signs = torch.where(third < 0, -1.0, 1.0)
    return means, (axes * (signs * variances.rsqrt()).unsqueeze(1)).transpose(1, 2)


class ClusterFlow(nn.Module):
    """theta of members, and the density that they have with it."""

    def __init__(self, n_features: int, n_context: int, n_blocks: int, n_hidden: int) -> None:
        super().__init__()
        self.encoder = SetEncoder(n_features, WIDTH, HEADS, INDUCING, BLOCKS, WAVELENGTHS)
        self.pool = PoolingByMultiheadAttention(WIDTH, HEADS)
        self.of_size = nn.Linear(1, WIDTH)  # attention does not count
        self.to_context = nn.Linear(WIDTH, n_context)
        self.flow = MaskedAutoregressiveFlow(n_features, n_context, n_blocks, n_hidden)

    def context(self, members: Tensor, mask: Tensor) -> Tensor:
        """Contexts (C, c) of C clusters by their members (C, m, d) in their own coordinates, mask (C, m)."""
        pooled = self.pool(self.encoder(members, mask), mask).squeeze(1)
        log_size = mask.sum(1, keepdim=True).to(members.dtype).log() / 5
        context: Tensor = self.to_context(torch.relu(pooled + self.of_size(log_size)))
        return context

    def log_density(self, points: Tensor, members: Tensor, mask: Tensor) -> Tensor:
        """Log density (C, n) of points (C, n, d) under clusters with members (C, m, d), mask (C, m)."""
        means, maps = own_coordinates(members, mask)
        context = self.context(_mapped(members, means, maps), mask)
        own = _mapped(points, means, maps)
        return self.flow.log_density(own, context) + torch.linalg.slogdet(maps).logabsdet.unsqueeze(1)

    @torch.no_grad()
    def given(self, members: Tensor, mask: Tensor) -> ConditionedFlow:
        """The flows of C clusters, as arrays."""
        means, maps = own_coordinates(members, mask)
        return self.flow.given(self.context(_mapped(members, means, maps), mask), means, maps)


def _mapped(points: Tensor, means: Tensor, maps: Tensor) -> Tensor:
    """Points (C, n, d) in the coordinates of their clusters; absent ones are somewhere."""
    return (points - means.unsqueeze(1)) @ maps.transpose(1, 2)
