"""States that CHiGac's loop could be in, for training: clusters are assigned, some points were missed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Prefix", "random_prefix"]


class Prefix(NamedTuple):
    """A state that the loop could be in, for each of R data sets."""

    clusters: Tensor  # (R, K, N), True for the points of each cluster, in the order of assignment
    n_assigned: Tensor  # (R,), how many of them are assigned
    left: Tensor  # (R, N), True for points in S_k, stragglers included
    sizes: Tensor  # (R, K), points of each assigned cluster that were not missed; zero for the others
    members: Tensor  # (R, S, N), true members of S clusters that may come next
    is_over: Tensor  # (R,), True where only stragglers are left

    def assigned_sums(self, sums: Tensor) -> Tensor:
        """Sums (R, K, width) of whole clusters, scaled to the points that were not missed."""
        whole = self.clusters.sum(-1).clamp(min=1)
        return sums * (self.sizes / whole).unsqueeze(-1)


def random_prefix(labels: Tensor, n_clusters: Tensor, n_states: int, generator: torch.Generator) -> Prefix:
    """Assign uniformly many true clusters of each set, 0 .. K, and miss some of their points.

    ``labels`` is (R, N), ``n_clusters`` (R,). The next cluster is one of the others, with equal chances;
    the ``n_states`` candidates are different ones where there are as many.
    """
    n_sets = len(labels)
    k_max = int(n_clusters.max())
    exists = torch.arange(k_max) < n_clusters[:, None]
    rank = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0).argsort().argsort()
    n_assigned = (torch.rand(n_sets, generator=generator) * (n_clusters + 1)).long()
    rank_of_point = rank.gather(1, labels)
    clusters = functional.one_hot(rank_of_point, k_max).transpose(1, 2).bool()
    taken = rank_of_point < n_assigned[:, None]
    missed_share = 0.1 * torch.rand(n_sets, 1, generator=generator) ** 2
    missed = torch.rand(labels.shape, generator=generator) < missed_share
    missed &= clusters.sum(-1).gather(1, rank_of_point) >= 8  # a cluster that was assigned has some points
    left = ~taken | missed
    sizes = (clusters & ~left.unsqueeze(1)).sum(-1)
    n_left = (n_clusters - n_assigned).clamp(min=1)
    next_rank = n_assigned[:, None] + torch.arange(n_states) % n_left[:, None]
    members = rank_of_point.unsqueeze(1) == next_rank.unsqueeze(-1)
    return Prefix(clusters, n_assigned, left, sizes, members, n_assigned == n_clusters)
