"""The sequential part of the Neural Clustering Process: many orders of many data sets, point by point.

``ncp.py`` has the networks and the objective. Here is the loop over the points, which keeps what the
choices need as running sums: W H_k of every cluster, its vote V g(H_k), the sum of the votes, and what f
reads in U. A step weighs K + 1 choices for every order of every data set, all as one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from clusterwise.papers.model import Inference, Step

if TYPE_CHECKING:
    from clusterwise.papers.ncp import NCP

__all__ = ["PartitionDraws", "Winner", "binder_losses", "draw_partitions", "inference_from_draws"]

# Which of several drawn partitions is the answer: that with the highest probability, as in the paper, or that
# which agrees most with the others, the likelier ones above all.
Winner = Literal["likeliest", "agreeing"]
# How much likelier ones count: by the power 1/T of their probability, which is far too sure of itself. Chosen
# on validation data.
TEMPERATURE = 14.0

# Orders of different data sets that run as one batch: more of them no longer fit the processor's cache.
ROWS_AT_ONCE = 256
FIRST_SLOTS = 8  # doubled when an order has more clusters


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
    # Sets of similar size go together; the smaller ones of a batch drop off its end when they are through.
    by_size = mask.sum(1).argsort(descending=True, stable=True).tolist()
    per_batch = max(1, ROWS_AT_ONCE // n_orders)
    results: dict[int, PartitionDraws] = {}
    for start in range(0, len(by_size), per_batch):
        sets = by_size[start : start + per_batch]
        drawn = [_random_orders(mask[b], seeds[b], n_orders) for b in sets]
        orders, numbers = (torch.cat(of_sets) for of_sets in zip(*drawn, strict=True))
        loop = _Loop(model, points[sets], mask[sets], orders, None if greedy else numbers, max_clusters)
        results.update(zip(sets, loop.run(), strict=True))
    return [results[b] for b in range(len(points))]


class _Loop:
    """Running sums of R orders (R, N): equally many of each of B data sets, the largest set first.

    ``numbers`` (R, N) draw the labels; without them the likeliest ones are taken.

    A slot holds one cluster of every order. The first slot without a cluster is the new one: its sum and
    its vote are zero, so that it needs no treatment of its own.
    """

    def __init__(
        self,
        model: NCP,
        points: Tensor,
        mask: Tensor,
        orders: Tensor,
        numbers: Tensor | None,
        max_clusters: int,
    ) -> None:
        n_orders = len(orders) // len(points)
        self.model, self.max_clusters, self.n_orders = model, max_clusters, n_orders
        sizes = mask.sum(1)
        n_points = int(sizes[0])
        self.orders = orders[:, :n_points]
        self.numbers = None if numbers is None else numbers.to(points)
        places = torch.arange(n_points, device=mask.device)
        self.n_rows: list[int] = (n_orders * (sizes[:, None] > places).sum(0)).tolist()  # at every place

        encoded = model.encode(points)
        n_rows, width = len(self.orders), encoded.in_rest.shape[-1]
        self.first_point = torch.arange(len(points), device=mask.device).repeat_interleave(n_orders)
        self.first_point *= mask.shape[1]
        # One look-up for both that a point adds.
        self.added = torch.cat([encoded.in_cluster, encoded.in_rest], dim=-1).flatten(0, 1)
        self.vote_map = model.vote_map()
        self.summed = encoded.in_rest.new_zeros(FIRST_SLOTS, n_rows, width)  # W H_k
        self.votes = torch.zeros_like(self.summed)  # V g(H_k)
        # Thousands of additions and removals: in double precision the sum over nothing is nothing.
        of_set = torch.where(mask.unsqueeze(-1), encoded.in_rest, 0.0).to(torch.float64).sum(1)
        self.read = of_set.repeat_interleave(n_orders, dim=0) + model.f.first.bias  # what f reads in G and U

        self.n_clusters = torch.zeros(n_rows, dtype=torch.int64, device=mask.device)
        self.labels = torch.zeros(n_rows, mask.shape[1], dtype=torch.int64, device=mask.device)
        self.probabilities = encoded.in_rest.new_zeros(n_rows, mask.shape[1])
        self.log_probability = self.read.new_zeros(n_rows)
        self.cap_reached = torch.zeros(n_rows, dtype=torch.bool, device=mask.device)
        self.slots = torch.arange(FIRST_SLOTS, device=mask.device).unsqueeze(1)
        self.rows = torch.arange(n_rows, device=mask.device)
        self.n_slots = 1  # in use by any order, the new one included

    def run(self) -> list[PartitionDraws]:
        """Label all points of all orders; return the partitions of each data set."""
        for place, n_rows in enumerate(self.n_rows):
            self._step(place, n_rows)
        kept = (self.labels, self.log_probability, self.probabilities, self.cap_reached)
        by_set = zip(*(values.split(self.n_orders) for values in kept), strict=True)
        return [PartitionDraws(*of_set) for of_set in by_set]

    def _step(self, place: int, r: int) -> None:
        """Give the point at this place of each of the first r orders a label."""
        k, point, row = self.n_slots, self.orders[:r, place], self.rows[:r]
        in_cluster, in_rest = self.added[self.first_point[:r] + point].tensor_split(2, dim=1)  # (r, width)
        self.read[:r] -= in_rest
        after = self.model.cluster_votes(
            self.summed[:k, :r] + (in_cluster + self.model.g.first.bias), self.vote_map
        )
        gain = after.sub_(self.votes[:k, :r])  # (k, r, width)
        logits = self.model.logits(gain + self.read[:r].to(gain.dtype))  # (k, r)
        log_p = torch.log_softmax(
            logits.masked_fill_(self.slots[:k] > self.n_clusters[:r], -torch.inf), dim=0
        )
        slot = self._choose(log_p, place)
        if k > self.max_clusters:
            # The cap is felt only where the choice is a cluster beyond it: then one of the others is chosen.
            beyond = slot == self.max_clusters
            if beyond.any():
                self.cap_reached[:r] |= beyond
                within = torch.log_softmax(log_p[: self.max_clusters], dim=0)
                log_p = torch.where(beyond, torch.nn.functional.pad(within, (0, 0, 0, 1)), log_p)
                slot = torch.where(beyond, self._choose(within, place), slot)
        chosen, gain = log_p[slot, row], gain[slot, row]
        self.summed[slot, row] += in_cluster
        self.votes[slot, row] += gain
        self.read[:r] += gain
        self.n_clusters[:r] += slot == self.n_clusters[:r]
        self.labels[row, point] = slot
        self.probabilities[row, point] = chosen.exp()
        self.log_probability[:r] += chosen
        self.n_slots = max(k, int(slot.max()) + 2)
        if self.n_slots > len(self.summed):
            self._make_room()

    def _choose(self, log_p: Tensor, place: int) -> Tensor:
        """Slots (r,) by their log probabilities (k, r): the likeliest, or drawn by inversion."""
        if self.numbers is None:
            return log_p.argmax(0)
        edges = log_p.exp().cumsum(0)
        # Scaled to the last edge: a number above all of them would choose a slot that is none.
        return (self.numbers[: log_p.shape[1], place] * edges[-1] >= edges[:-1]).sum(0)

    def _make_room(self) -> None:
        self.summed = torch.cat([self.summed, torch.zeros_like(self.summed)])
        self.votes = torch.cat([self.votes, torch.zeros_like(self.votes)])
        self.slots = torch.arange(len(self.summed), device=self.slots.device).unsqueeze(1)


def inference_from_draws(draws: PartitionDraws, mask: Tensor, winner: Winner = "agreeing") -> Inference:
    """Let one of S partitions win; all of them are kept as draws."""
    of_points = draws.labels[:, mask]
    best = int(draws.log_probability.argmax())
    if winner == "agreeing":
        weights = torch.softmax(draws.log_probability / TEMPERATURE, dim=0)
        best = int(binder_losses(of_points, weights).argmin())
    labels, probabilities = draws.labels[best], draws.probabilities[best]
    of_cluster = [mask & (labels == k) for k in range(int(labels[mask].max()) + 1)]
    steps = tuple(Step(members, torch.where(members, probabilities, 0.0)) for members in of_cluster)
    # An order that a cap kept from opening a cluster has another probability than without it.
    cap_reached = bool(draws.cap_reached.any())
    log_probability = float(draws.log_probability[best])
    return Inference(labels, steps, None, cap_reached, tuple(draws.labels), log_probability=log_probability)


def binder_losses(labels: Tensor, weights: Tensor) -> Tensor:
    """Pairs of points that each of S partitions (S, N) treats differently from the others.

    Twice the mean over these by their weights (S,): pairs are counted in both directions. By the sizes of
    clusters and of their intersections, without the pairs themselves.
    """
    k = int(labels.max()) + 1
    members = torch.nn.functional.one_hot(labels, k).transpose(1, 2).flatten(0, 1).to(torch.float64)
    shared = (members @ members.T).square().unflatten(0, (-1, k)).unflatten(2, (-1, k)).sum((1, 3))  # (S, S)
    own = shared.diagonal()
    return own * weights.sum() + own @ weights - 2 * shared @ weights
