"""The objective of a training step of DAC, and the data sets that it looks at.

With m the membership probabilities and theta the parameters of the cluster that a pass takes:

    Eq 5 (minimum loss)  min_j [ 1/n sum_i BCE(m_i, 1{y_i=j}) - 1/n_j sum_{i|y_i=j} log p(x_i; theta) ]
    Eq 7 (anchored)      the same with j = j_a, the cluster of the anchor a
    Eq 9 (no density)    both without the second term

Readings of ours. (1) Eq 9 sums over points where Eqs 5 and 7 average; the average is used throughout.
(2) A step removes a random number of true clusters first, because that is what the second and later passes
see at test time, on data scaled once. (3) Where the density is a flow, it is learned on each true cluster by
itself, with a theta of its members alone (``nn.densities``): a step teaches dozens of clusters, not one for
each data set, and clusters that no pass has found have a density, too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.nn.densities import ClusterFlow

__all__ = [
    "Remaining",
    "filtering_loss",
    "flow_loss",
    "members_of_clusters",
    "remaining_points",
    "remove_random_clusters",
]

# Data sets of a training step are run in this many parts, sorted by how many points are left, and these
# numbers are rounded up to this many different ones: kernels are built for each shape.
N_PARTS, N_WIDTHS = 2, 8
# Clusters that a flow learns from in a step, members of each, and the smallest share of them that it is
# made from: it learns to describe the others.
FLOW_CLUSTERS, FLOW_MEMBERS, MIN_SHARE_SEEN = 24, 128, 0.3
MIN_LOG_DENSITY = -50.0  # of a point that counts in the loss


def filtering_loss(
    logits: Tensor, log_density: Tensor | None, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> Tensor:
    """Eqs 5, 7 and 9 for B data sets; shape (B,).

    ``logits`` (B, N) are those of the memberships, ``log_density`` (B, N) is log p(x; theta), or None;
    ``labels`` and ``mask`` are (B, N), ``anchors`` (B,) indices or None for the minimum loss.
    """
    one_hot = functional.one_hot(labels).to(logits.dtype) * mask.unsqueeze(-1)  # (B, N, K)
    sizes = one_hot.sum(1)  # n_{X|j}, (B, K)
    logits = logits.masked_fill(~mask, 0.0)
    n_left = mask.sum(1, keepdim=True)
    # BCE(m, t) = softplus(logit) - t * logit
    if_outside = (functional.softplus(logits) * mask).sum(1, keepdim=True)
    of_cluster = torch.matmul(logits.unsqueeze(1), one_hot).squeeze(1)  # sum of the logits inside cluster j
    loss = (if_outside - of_cluster) / n_left
    if log_density is not None:
        in_cluster = torch.matmul(log_density.unsqueeze(1), one_hot).squeeze(1)
        loss = loss - in_cluster / sizes.clamp(min=1)
    if anchors is None:
        return loss.masked_fill(sizes == 0, torch.inf).amin(1)
    return loss.gather(1, labels.gather(1, anchors.unsqueeze(1))).squeeze(1)


def flow_loss(flow: ClusterFlow, points: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Minus the mean log density of members by others of their cluster; points (B, N, d), labels (B, N)."""
    index, mask = members_of_clusters(labels, FLOW_MEMBERS)
    some = torch.randperm(len(index), generator=generator)[:FLOW_CLUSTERS]
    index, mask = index[some], mask[some]
    share = MIN_SHARE_SEEN + (1 - MIN_SHARE_SEEN) * torch.rand(len(index), 1, generator=generator)
    seen = mask & (torch.rand(mask.shape, generator=generator) < share)
    seen[:, 0] = True
    hidden = mask & ~seen
    members = points.flatten(0, 1)[index]
    log_density = flow.log_density(members, members, seen).clamp(min=MIN_LOG_DENSITY)
    n_hidden = hidden.sum(1)
    of_clusters = (log_density * hidden).sum(1) / n_hidden.clamp(min=1)
    return -of_clusters.sum() / (n_hidden > 0).sum().clamp(min=1)


def members_of_clusters(labels: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Places (C, width) of the first members of each of the C clusters of B data sets, and a mask (C, width).

    ``labels`` is (B, N); places are those of the flattened labels.
    """
    n_labels = int(labels.max()) + 1
    keys = (labels + n_labels * torch.arange(len(labels), device=labels.device)[:, None]).flatten()
    order = keys.argsort(stable=True)
    _, cluster, sizes = torch.unique_consecutive(keys[order], return_inverse=True, return_counts=True)
    place = torch.arange(len(order), device=labels.device) - (sizes.cumsum(0) - sizes)[cluster]
    first = place < width
    index = order.new_zeros(len(sizes), width)
    index[cluster[first], place[first]] = order[first]
    return index, torch.arange(width, device=labels.device) < sizes[:, None]


# -- data sets of a step -----------------------------------------------------------------------------


def remove_random_clusters(labels: Tensor, n_clusters: Tensor, generator: torch.Generator) -> Tensor:
    """Keep between one and all clusters of each set, uniformly many; a mask (B, N) of what is left."""
    n_sets, k_max = len(labels), int(n_clusters.max())
    exists = torch.arange(k_max, device=labels.device) < n_clusters[:, None]
    order = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0).argsort().argsort()
    n_kept = 1 + (torch.rand(n_sets, 1, generator=generator) * n_clusters[:, None]).long()
    return (order < n_kept).gather(1, labels)


class Remaining(NamedTuple):
    """The points that are left of S data sets of a step, packed to the size of the largest."""

    points: Tensor  # (S, n, d)
    labels: Tensor  # (S, n)
    mask: Tensor  # (S, n), no point where a smaller set has ended


def remaining_points(points: Tensor, labels: Tensor, mask: Tensor) -> list[Remaining]:
    """The points left of B data sets, those of similar size together, so that removed points cost little.

    To mask a point is the same as to delete it, so that the loss does not change.
    """
    n_left = mask.sum(1)
    grain = -(-mask.shape[1] // N_WIDTHS)
    packed = []
    for sets in n_left.argsort(stable=True).tensor_split(min(N_PARTS, len(mask))):
        width = min(mask.shape[1], -(-int(n_left[sets[-1]]) // grain) * grain)
        index = (~mask[sets]).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
        rows = sets.unsqueeze(1), index
        packed.append(Remaining(points[rows], labels[rows], mask[rows]))
    return packed
