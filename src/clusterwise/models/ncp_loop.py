"""The sequential part of the Neural Clustering Process: many orders of many data sets, point by point.

``ncp.py`` has the networks and the objective. Here is the loop over the points, which keeps what the
choices need as running sums: W H_k of every cluster, its vote V g(H_k), the sum of the votes, and what f
reads in U. A step weighs K + 1 choices for every order of every data set, all as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clusterwise.models.base import Inference, Step

if TYPE_CHECKING:
    from clusterwise.models.ncp import NCP

__all__ = ["PartitionDraws", "draw_partitions", "inference_from_draws"]


@dataclass(frozen=True)
class PartitionDraws:
    """S partitions of one data set of N points, each found in an order of its own."""

    labels: Tensor  # (S, N) int64, clusters named in the order of their birth; 0 for absent points
    log_probability: Tensor  # (S,) float64, of the partition given the data and the order
    probabilities: Tensor  # (S, N), of each point's label when it was chosen; 0 for absent points
    cap_reached: Tensor  # (S,) bool


def _random_orders(mask: Tensor, seed: int, n_orders: int) -> tuple[Tensor, Tensor]:
    """Orders (S, N) of the points, absent ones last, and numbers (S, N) that draw the labels."""
    present = mask.nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(n_orders, len(present), generator=generator).argsort(1)
    numbers = torch.rand(n_orders, len(present), generator=generator)
    absent = (~mask).nonzero().squeeze(1).expand(n_orders, -1)
    padding = (0, len(mask) - len(present))
    return torch.cat([present[orders.to(mask.device)], absent], 1), torch.nn.functional.pad(numbers, padding)


def draw_partitions(
    model: NCP,
    points: Tensor,
    mask: Tensor,
    seeds: Sequence[int],
    max_clusters: int,
    n_orders: int,
    greedy: bool,
) -> list[PartitionDraws]:
    """Partition B data sets, points (B, N, d) and mask (B, N), in ``n_orders`` random orders each."""
    sizes = mask.sum(1)
    by_size = sizes.argsort(descending=True, stable=True)  # sets that are through drop off the end
    drawn = [_random_orders(mask[b], seeds[b], n_orders) for b in by_size.tolist()]
    orders = torch.cat([order for order, _ in drawn])  # (R, N), a row for each order of each data set
    numbers = torch.cat([number for _, number in drawn]).to(points.device)
    encoded = model.encode(points[by_size])
    set_of_row = torch.arange(len(points), device=points.device).repeat_interleave(n_orders)
    loop = _Loop(model, encoded.in_cluster, encoded.in_rest, mask[by_size], set_of_row, max_clusters)
    n_rows = (n_orders * (sizes[:, None] > torch.arange(mask.shape[1], device=sizes.device)).sum(0)).tolist()
    for place, rows in enumerate(n_rows):
        if rows == 0:
            break
        loop.step(orders[:rows, place], None if greedy else numbers[:rows, place])
    results: list[PartitionDraws | None] = [None] * len(points)
    for position, b in enumerate(by_size.tolist()):
        rows = slice(position * n_orders, (position + 1) * n_orders)
        results[b] = PartitionDraws(
            loop.labels[rows], loop.log_probability[rows], loop.probabilities[rows], loop.cap_reached[rows]
        )
    return [result for result in results if result is not None]


class _Loop:
    """Running sums of R orders; ``step`` gives one more point of each order a label."""

    def __init__(
        self, model: NCP, in_cluster: Tensor, in_rest: Tensor, mask: Tensor, set_of_row: Tensor, cap: int
    ) -> None:
        self.model, self.cap, self.set_of_row = model, cap, set_of_row
        self.in_cluster, self.in_rest = in_cluster, in_rest
        self.vote_map = model.vote_map()
        self.alone = model.cluster_votes(in_cluster, self.vote_map)  # votes of clusters of one point
        n_rows, n_points, width = len(set_of_row), *in_cluster.shape[1:]
        # Clusters come first, so that the ones in use are one block of memory.
        self.summed = in_cluster.new_zeros(8, n_rows, width)
        self.votes = in_cluster.new_zeros(8, n_rows, width)
        # Thousands of additions and removals: in double precision the sum over nothing is nothing.
        present = mask.unsqueeze(-1).to(torch.float64)
        self.rest = (in_rest.to(torch.float64) * present).sum(1)[set_of_row]
        self.total = torch.zeros_like(self.rest)  # of the votes
        self.n_clusters = torch.zeros(n_rows, dtype=torch.int64, device=mask.device)
        self.labels = torch.zeros(n_rows, n_points, dtype=torch.int64, device=mask.device)
        self.probabilities = in_cluster.new_zeros(n_rows, n_points)
        self.log_probability = torch.zeros(n_rows, dtype=torch.float64, device=mask.device)
        self.cap_reached = torch.zeros(n_rows, dtype=torch.bool, device=mask.device)
        self.k_max = 0  # over all rows

    def step(self, point: Tensor, number: Tensor | None) -> None:
        """Give ``point`` (r,) of the first r rows a label: drawn by ``number`` (r,), or the likeliest."""
        r, k_max = len(point), self.k_max
        row = torch.arange(r, device=point.device)
        of_set = self.set_of_row[:r]
        own, alone = self.in_cluster[of_set, point], self.alone[of_set, point]  # (r, width)
        self.rest[:r] -= self.in_rest[of_set, point]
        after = self.model.cluster_votes(self.summed[:k_max, :r] + own, self.vote_map)  # (K, r, width)
        gain = torch.cat([after - self.votes[:k_max, :r], alone.unsqueeze(0)])
        read = gain + (self.total[:r] + self.rest[:r]).to(gain.dtype)
        logits = self.model.logits(read)  # (K + 1, r)
        choice_exists = torch.arange(k_max + 1, device=point.device)[:, None] < self.n_clusters[:r]
        choice_exists[k_max] = self.n_clusters[:r] < self.cap
        # A cap that keeps the likeliest choice away is one that the user should hear of.
        log_p = torch.log_softmax(logits.masked_fill(~choice_exists, -torch.inf), dim=0)
        if number is None:
            choice = log_p.argmax(0)
        else:
            choice = (log_p.exp().cumsum(0)[:-1] < number).sum(0)
        chosen = log_p[choice, row]
        is_new = choice == k_max
        cluster = torch.where(is_new, self.n_clusters[:r], choice)
        self.k_max = max(k_max, int(cluster.max()) + 1)
        if self.k_max > len(self.summed):
            self._make_room()
        self.summed[cluster, row] += own
        self.votes[cluster, row] += gain[choice, row]
        self.total[:r] += gain[choice, row]
        self.n_clusters[:r] += is_new
        self.labels[row, point] = cluster
        self.probabilities[row, point] = chosen.exp()
        self.log_probability[:r] += chosen

    def _make_room(self) -> None:
        self.summed = torch.cat([self.summed, torch.zeros_like(self.summed)])
        self.votes = torch.cat([self.votes, torch.zeros_like(self.votes)])


def inference_from_draws(draws: PartitionDraws, points: Tensor, mask: Tensor) -> Inference:
    """Let the likeliest of S partitions win; the others are draws from the posterior."""
    best = int(draws.log_probability.argmax())
    labels = draws.labels[best]
    n_clusters = int(labels[mask].max()) + 1
    counts = torch.bincount(labels[mask], minlength=n_clusters).to(torch.float32)
    steps = tuple(
        Step(mask & (labels == k), torch.where(mask & (labels == k), draws.probabilities[best], 0.0))
        for k in range(n_clusters)
    )
    return Inference(
        labels,
        None,
        torch.log(counts / counts.sum()),
        steps,
        cap_reached=bool(draws.cap_reached[best]),
        draws=tuple(draws.labels),
        log_probability=float(draws.log_probability[best]),
    )
