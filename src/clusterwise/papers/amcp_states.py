"""States of AMCP's cluster-wise loop that a training step looks at, drawn from labelled data sets."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["State", "random_state"]


class State(NamedTuple):
    """What is assigned in each of B data sets, where the next cluster starts, and what should come out."""

    columns: Tensor  # (B, N), the cluster of each point so far, 0 .. k-2; k: unassigned
    target: Tensor  # (B, N), the column that each point should get; k - 1: the new cluster, k: the rest
    seeds: Tensor  # (B,)
    k: int


def random_state(
    labels: Tensor,
    n_clusters: Tensor,
    generator: torch.Generator,
    points: Tensor | None = None,
    revising: float = 0.0,
) -> State:
    """Draw a state that the loop could be in, for labels (B, N).

    Some true clusters are assigned, uniformly many, but some of their points were missed; a seed is
    drawn among the points of the other clusters, by point or by cluster. The target is the column that each
    point should get: its assigned cluster, the seed's cluster (column k - 1) or the rest (column k).

    In a share ``revising`` of the states all clusters are assigned, but the seed's is one with its
    neighbour, by ``points`` (B, N, d): what a loop that took two clusters for one has to put right.
    """
    n_sets, n_points = labels.shape
    k_max = int(n_clusters.max())
    one_hot = functional.one_hot(labels, k_max)
    sizes = one_hot.sum(1)  # (B, K)
    exists = torch.arange(k_max) < n_clusters[:, None]
    order = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0)
    n_assigned = (torch.rand(n_sets, 1, generator=generator) * n_clusters[:, None]).long()  # 0 .. K-1
    merged = torch.zeros(n_sets, 1, dtype=torch.bool)
    if points is not None and revising > 0:
        merged = (torch.rand(n_sets, 1, generator=generator) < revising) & (n_clusters[:, None] > 1)
        apart = _distances(points, one_hot, sizes)
        nearest, neighbour = apart.min(2)  # (B, K)
        # Half of them the two clusters that are nearest to each other, half any with its neighbour.
        by_chance = torch.rand(n_sets, 1, generator=generator) < 0.5
        chance = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0)
        lost = torch.where(by_chance, chance, nearest).argmin(1, keepdim=True)
        order = torch.where(
            merged & (torch.arange(k_max) == lost), 1.5, order
        )  # the last of those that exist
        n_assigned = torch.where(merged, n_clusters[:, None] - 1, n_assigned)
    rank = order.argsort().argsort()
    k = int(n_assigned.max()) + 1
    rank_of_point = rank.gather(1, labels)
    taken = rank_of_point < n_assigned
    # Seeds: half of the states draw a point, half a cluster first, or tiny clusters were never seen.
    size_of_own = sizes.to(torch.float32).gather(1, labels)
    by_cluster = torch.rand(n_sets, 1, generator=generator) < 0.5
    seeds = torch.multinomial(
        torch.where(by_cluster, 1.0 / size_of_own, 1.0) * ~taken, 1, generator=generator
    )
    in_new = labels == labels.gather(1, seeds)
    rest = torch.full_like(labels, k)
    target = torch.where(taken, rank_of_point, torch.where(in_new, k - 1, rest))
    missed_share = 0.1 * torch.rand(n_sets, 1, generator=generator) ** 2
    missed = torch.rand(n_sets, n_points, generator=generator) < missed_share
    missed &= (size_of_own >= 8) & ~merged  # a cluster that was assigned has some points
    columns = torch.where(taken & ~missed, rank_of_point, rest)
    if bool(merged.any()):
        taker = rank.gather(1, neighbour.gather(1, lost))
        columns = torch.where(merged & in_new, taker, columns)
    return State(columns, target, seeds.squeeze(1), k)


def _distances(points: Tensor, one_hot: Tensor, sizes: Tensor) -> Tensor:
    """Between the means of clusters, (B, K, K); infinite to itself and to clusters without points."""
    means = one_hot.to(points.dtype).transpose(1, 2) @ points / sizes.unsqueeze(-1).clamp(min=1)
    absent = sizes == 0
    none = absent[:, None, :] | absent[:, :, None] | torch.eye(sizes.shape[1], dtype=torch.bool)
    return torch.cdist(means, means).masked_fill(none, torch.inf)
