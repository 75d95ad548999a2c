"""Show each found cluster to the network again, by itself and at its own scale.

A network sees a data set at unit spread. Two clusters close to each other are then small and hard to
tell apart, but easy once they are the whole data set. Each cluster takes one to three
more passes over its own points. Any method can use it; the papers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clusterwise.models.base import AmortizedModel

__all__ = ["batches_of_similar_size", "zoom_in"]

# Fewer points than this cannot show two clusters.
SMALLEST_CLUSTER = 10
# A found cluster hides one or two others at most; a longer loop would only chase its outermost points.
MOST_PARTS = 3


def batches_of_similar_size(sizes: Sequence[int], points_per_batch: int) -> Iterator[list[int]]:
    """Group the indices of data sets of similar size, so that little of a padded batch is padding."""
    batch: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if batch and (len(batch) + 1) * sizes[index] > points_per_batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _scaled(points: Tensor) -> Tensor:
    """Bring (n, d) points to mean zero and unit spread."""
    centred = points - points.mean(0)
    centred = centred / centred.abs().max()  # the squares of tiny numbers would be zero
    return centred / centred.square().mean().sqrt()


def zoom_in(
    model: AmortizedModel,
    sets: Sequence[Tensor],
    labels: Sequence[Tensor],
    seeds: Sequence[int],
    points_per_batch: int,
    is_worth_it: Callable[[Tensor], bool] | None = None,
) -> list[Tensor]:
    """Split every cluster of B partitions as the network would partition it alone.

    ``sets`` are (n_b, d) points, ``labels`` (n_b,) labels 0 .. K_b - 1; new labels are returned.
    ``is_worth_it`` may spare clusters, told by their points, a second look.
    """
    parts = [
        (b, members)
        for b, (points, of_set) in enumerate(zip(sets, labels, strict=True))
        for members in (torch.nonzero(of_set == j).squeeze(1) for j in range(int(of_set.max()) + 1))
        if len(members) >= SMALLEST_CLUSTER
        and bool((points[members] != points[members[0]]).any())
        and (is_worth_it is None or is_worth_it(points[members]))
    ]
    found = [of_set.clone() for of_set in labels]
    for batch in batches_of_similar_size([len(members) for _, members in parts], points_per_batch):
        padded = pad_sequence([_scaled(sets[b][members]) for b, members in (parts[i] for i in batch)], True)
        sizes = torch.tensor([len(parts[i][1]) for i in batch], device=padded.device)
        mask = torch.arange(padded.shape[1], device=padded.device) < sizes[:, None]
        inferences = model.infer(padded, mask, [seeds[parts[i][0]] for i in batch], MOST_PARTS)
        for i, inference in zip(batch, inferences, strict=True):
            b, members = parts[i]
            within = inference.labels[: len(members)]
            # The first part keeps the cluster's name, the others get new ones.
            new = int(found[b].max()) + torch.arange(1, int(within.max()) + 1)
            names = torch.cat([found[b][members[:1]].cpu(), new])
            found[b][members] = names.to(found[b].device)[within]
    return found
