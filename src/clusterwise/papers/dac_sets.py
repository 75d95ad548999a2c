"""Data sets of DAC's training steps: what earlier passes took, what is left, members of clusters."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Remaining", "members_of_clusters", "remaining_points", "remove_random_clusters"]

# Data sets of a training step are run in this many parts, sorted by how many points are left, and these
# numbers are rounded up to this many different ones.
SIZES_AT_ONCE, ROUNDED_TO = 2, 8


def remove_random_clusters(labels: Tensor, n_clusters: Tensor, generator: torch.Generator) -> Tensor:
    """Keep between one and all clusters of each set, uniformly many; a mask (B, N) of what is left."""
    n_sets, k_max = len(labels), int(n_clusters.max())
    exists = torch.arange(k_max, device=labels.device) < n_clusters[:, None]
    order = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0).argsort().argsort()
    n_kept = 1 + (torch.rand(n_sets, 1, generator=generator) * n_clusters[:, None]).long()
    return (order < n_kept).gather(1, labels)


class Remaining(NamedTuple):
    """What is left of S of the data sets of a step, packed to the size of the largest."""

    sets: Tensor  # (S,) which they are
    points: Tensor  # (S, n, d)
    labels: Tensor  # (S, n)
    mask: Tensor  # (S, n), no point where a smaller set has ended
    places: Tensor  # (S, N) of the points among those that are left

    def place_of(self, anchors: Tensor) -> Tensor:
        """Indices (S, A) of the anchors, (B, A) indices before packing."""
        return self.places.gather(1, anchors[self.sets])


def remaining_points(points: Tensor, labels: Tensor, mask: Tensor) -> list[Remaining]:
    """Sort B data sets by what is left of them, a few at a time, so that removed points cost next to nothing.

    To mask a point is the same as to delete it, so that the loss does not change.
    """
    n_left, n_points = mask.sum(1), mask.shape[1]
    by_size = n_left.argsort(stable=True)
    places = mask.cumsum(1) - 1
    packed = []
    for sets in by_size.tensor_split(min(SIZES_AT_ONCE, len(by_size))):
        # Rounded up: few different shapes, because kernels are built for each.
        grain = -(-n_points // ROUNDED_TO)
        width = min(n_points, -(-int(n_left[sets[-1]]) // grain) * grain)
        index = (~mask[sets]).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        packed.append(
            Remaining(
                sets,
                points[sets].gather(1, index.unsqueeze(-1).expand(-1, -1, points.shape[-1])),
                labels[sets].gather(1, index),
                mask[sets].gather(1, index),
                places[sets],
            )
        )
    return packed


def members_of_clusters(labels: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Places (C, most) of the first members of each of the C clusters of B data sets, and a mask (C, most).

    ``labels`` is (B, N); places are those of the flattened labels.
    """
    n_labels = int(labels.max()) + 1
    keys = (labels + n_labels * torch.arange(len(labels), device=labels.device)[:, None]).flatten()
    order = keys.argsort(stable=True)
    _, cluster, sizes = torch.unique_consecutive(keys[order], return_inverse=True, return_counts=True)
    place = torch.arange(len(order), device=labels.device) - (sizes.cumsum(0) - sizes)[cluster]
    first = place < most
    index = order.new_zeros(len(sizes), most)
    index[cluster[first], place[first]] = order[first]
    return index, torch.arange(most, device=labels.device) < sizes[:, None]
