"""The passes of DAC over many data sets and paths: each takes a cluster, until no point is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clusterwise.papers.model import Inference, Step

if TYPE_CHECKING:
    from clusterwise.papers.dac.dac import DACNetwork

__all__ = ["FilteredSet", "path_seeds", "run_passes"]


def run_passes(
    network: DACNetwork, points: Tensor, filtered: list[FilteredSet], max_clusters: int
) -> list[Inference]:
    """Partitions of B data sets (B, N, d) by passes until no point is left."""
    for _ in range(max_clusters):
        active = [b for b, one in enumerate(filtered) if one.left.any()]
        if not active:
            break
        _run_pass(network, points, [filtered[b] for b in active], active)
    return [one.finish(points[b]) for b, one in enumerate(filtered)]


def _run_pass(network: DACNetwork, points: Tensor, filtered: list[FilteredSet], active: list[int]) -> None:
    """Run one pass over the points that are left, gathered so that taken points cost nothing."""
    left = [one.left.nonzero().squeeze(1) for one in filtered]
    gathered = nn.utils.rnn.pad_sequence(
        [points[b, index] for b, index in zip(active, left, strict=True)], batch_first=True
    )
    sizes = torch.tensor([len(index) for index in left], device=points.device)
    mask = torch.arange(gathered.shape[1], device=points.device) < sizes[:, None]
    h_x, anchors, sets = network.encode(gathered, mask), None, list(range(len(filtered)))
    if network.anchor is not None:
        drawn = [one.draw_anchors(len(index)) for one, index in zip(filtered, left, strict=True)]
        sets = [row for row, own in enumerate(drawn) for _ in own]  # of each anchor
        anchors = torch.tensor([anchor for own in drawn for anchor in own], device=points.device)
        if len(sets) > len(filtered):
            h_x, mask = h_x[sets], mask[sets]
    probabilities = torch.sigmoid(network.decode(h_x, mask, anchors).logits)
    errors = (torch.minimum(probabilities, 1 - probabilities) * mask).sum(1).tolist()
    for row, (data_set, index) in enumerate(zip(filtered, left, strict=True)):
        best = min((place for place, of in enumerate(sets) if of == row), key=errors.__getitem__)
        anchor = None if anchors is None else int(anchors[best])
        data_set.take(probabilities[best, : len(index)], index, anchor)


def path_seeds(seed: int, n_paths: int) -> list[int]:
    """The seed itself, and one for each of the other paths."""
    generator = torch.Generator().manual_seed(seed)
    return [seed, *torch.randint(2**31 - 1, (n_paths - 1,), generator=generator).tolist()]


class FilteredSet:
    """The filtering of one data set so far."""

    def __init__(self, mask: Tensor, seed: int, n_anchors: int) -> None:
        self.left, self.n_anchors = mask.clone(), n_anchors
        self.generator = torch.Generator().manual_seed(seed)
        self.steps: list[Step] = []

    def draw_anchors(self, n_left: int) -> list[int]:
        """Draw from the points that are left, uniformly, by the data set's own generator."""
        shape = (min(self.n_anchors, n_left),)
        anchors: list[int] = torch.randint(n_left, shape, generator=self.generator).tolist()
        return anchors

    def take(self, probabilities: Tensor, index: Tensor, anchor: int | None) -> None:
        """Give the points at ``index`` with a probability above 0.5 to the next cluster."""
        joins = probabilities > 0.5
        if anchor is not None:
            joins[anchor] = True
        elif not joins.any():
            joins = probabilities >= 0.5 * probabilities.max()
        members = torch.zeros_like(self.left)
        members[index[joins]] = True
        everyone = probabilities.new_zeros(len(self.left))
        everyone[index] = probabilities
        self.left &= ~members
        self.steps.append(Step(members, everyone, None if anchor is None else int(index[anchor])))

    def finish(self, points: Tensor) -> Inference:
        """Label every point; what a cap left over joins the cluster with the nearest mean."""
        labels = torch.zeros(len(self.left), dtype=torch.int64, device=self.left.device)
        for k, step in enumerate(self.steps):
            labels[step.members] = k
        cap_reached = bool(self.left.any())
        if cap_reached:
            centres = torch.stack([points[step.members].mean(0) for step in self.steps])
            labels[self.left] = torch.cdist(points[self.left], centres).argmin(1)
        return Inference(labels, tuple(self.steps), cap_reached=cap_reached)
