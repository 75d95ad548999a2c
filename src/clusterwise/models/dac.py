"""Deep Amortized Clustering (Lee, Lee & Teh 2019): one cluster per pass, until no point is left.

Objective of a pass (``filtering_loss``), with m the membership probabilities and theta the
cluster's parameters:

    Eq 5 (minimum loss)  min_j [ 1/n sum_i BCE(m_i, 1{y_i=j}) - 1/n_j sum_{i|y_i=j} log p(x_i; theta) ]
    Eq 7 (anchored)      the same with j = j_a, the cluster of the anchor a
    Eq 9 (no density)    both without the second term

===============  ==========================================================  ======================
symbol           meaning                                                     here
===============  ==========================================================  ======================
H_X              encoded data, ISAB_L(X)                                     ``encode``
H_{X|a}          MAB(H_X, h_a), anchored filtering only                      ``decode``
H_theta, theta   PMA_1(H_X), rFF(H_theta)                                    ``decode``
H_m, m           ISAB_L'(MAB(H_X, H_theta)), sigmoid(rFF(H_m))               ``decode`` (as logits)
===============  ==========================================================  ======================

Readings of ours. (1) Eq 9 sums over points where Eqs 5 and 7 average; the average is used
throughout. (2) A pass of training removes a random number of true clusters first, because that is
what the second and later passes see at test time, on data scaled once. (3) A pass that takes no
point at the threshold 0.5 takes the points with at least half of the largest probability, so that
the loop always ends. (4) Eq 7 draws one anchor; one between two clusters leads to both. Several may be tried
on the same encoding at test time, and the cluster counts of which the network is surest: that with the
fewest errors to expect, sum_i min(m_i, 1 - m_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.components.flows import ConditionedFlow
from clusterwise.models.base import AmortizedModel, Inference, Step, TrainingTask
from clusterwise.nn.attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
)
from clusterwise.nn.densities import DiagonalGaussianHead, diagonal_gaussian_log_density
from clusterwise.nn.embedding import CoordinateEmbedding
from clusterwise.nn.flows import FlowHead

__all__ = ["DAC", "DACConfig", "Filtered", "filtering_loss", "remove_random_clusters"]


# Data sets of a training step are run in this many parts, sorted by how many points are left, and these
# numbers are rounded up to this many different ones.
SIZES_AT_ONCE, ROUNDED_TO = 2, 8


@dataclass(frozen=True)
class DACConfig:
    """What defines a DAC network; stored in the header of its weights file."""

    n_features: int = 2
    filtering: Literal["minimum-loss", "anchored"] = "minimum-loss"
    density: Literal["diagonal-gaussian", "flow", "none"] = "diagonal-gaussian"
    width: int = 128
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 4  # L
    n_decoder_blocks: int = 2  # L'
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    layer_norm: bool = False
    n_anchors: int = 1  # anchors per data set in a training step; they share its encoding
    n_context: int = 128  # length of theta if the density is a flow (App. D), its blocks, their width
    n_flow_blocks: int = 4
    flow_width: int = 64
    density_weight: float = 1.0  # of log p in the loss; Eqs 5 and 7 have 1


class Filtered(NamedTuple):
    """Output of one pass over B data sets."""

    logits: Tensor  # (B, N), logit of the membership probability m
    means: Tensor | None = None  # (B, d) of the Gaussian density
    log_sds: Tensor | None = None  # (B, d)
    context: Tensor | None = None  # (B, c), theta of the flow


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


class DAC(AmortizedModel):
    """The filtering network, Eq 6 (minimum loss) and Eq 8 (anchored)."""

    method = "dac"
    config_class = DACConfig

    def __init__(self, config: DACConfig) -> None:
        super().__init__()
        self.config = config
        width, heads, norm = config.width, config.n_heads, config.layer_norm

        def stack(n_blocks: int) -> nn.ModuleList:
            return nn.ModuleList(
                InducedSetAttentionBlock(width, heads, config.n_inducing, norm) for _ in range(n_blocks)
            )

        self.embed = CoordinateEmbedding(config.n_features, width, config.n_wavelengths)
        self.encoder = stack(config.n_encoder_blocks)
        self.pool = PoolingByMultiheadAttention(width, heads, 1, norm)
        self.condition = MultiheadAttentionBlock(width, heads, norm)
        self.decoder = stack(config.n_decoder_blocks)
        self.membership = nn.Linear(width, 1)
        self.anchor = MultiheadAttentionBlock(width, heads, norm) if config.filtering == "anchored" else None
        self.density = (
            DiagonalGaussianHead(width, config.n_features) if config.density == "diagonal-gaussian" else None
        )
        self.flow = (
            FlowHead(width, config.n_features, config.n_context, config.n_flow_blocks, config.flow_width)
            if config.density == "flow"
            else None
        )

    def encode(self, points: Tensor, mask: Tensor) -> Tensor:
        """H_X = ISAB_L(X), (B, N, width)."""
        h = self.embed(points)
        for block in self.encoder:
            h = block(h, mask)
        return h

    def decode(self, h_x: Tensor, mask: Tensor, anchors: Tensor | None) -> Filtered:
        """Cluster parameters and membership logits from encoded data (B, N, width)."""
        if self.anchor is not None:
            if anchors is None:
                raise ValueError("anchored filtering needs one anchor per data set")
            h_a = h_x[torch.arange(len(h_x)), anchors].unsqueeze(1)
            h_x = self.anchor(h_x, h_a)
        h_theta = self.pool(h_x, mask)
        means, log_sds = self.density(h_theta.squeeze(1)) if self.density is not None else (None, None)
        context = self.flow.context(h_theta.squeeze(1)) if self.flow is not None else None
        h_m = self.condition(h_x, h_theta)
        for block in self.decoder:
            h_m = block(h_m, mask)
        return Filtered(self.membership(h_m).squeeze(-1), means, log_sds, context)

    def log_density(self, points: Tensor, filtered: Filtered) -> Tensor | None:
        """log p(x; theta) of points (B, N, d) under the cluster that was found, (B, N), or None."""
        if self.flow is not None and filtered.context is not None:
            return self.flow.log_density(points, filtered.context)
        if filtered.means is None or filtered.log_sds is None:
            return None
        return diagonal_gaussian_log_density(
            points, filtered.means.unsqueeze(1), filtered.log_sds.unsqueeze(1)
        )

    def filter(self, points: Tensor, mask: Tensor, anchors: Tensor | None = None) -> Filtered:
        """One pass over B data sets: points (B, N, d), mask (B, N), anchors (B,)."""
        return self.decode(self.encode(points, mask), mask, anchors)

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        mask = remove_random_clusters(task.labels, task.n_clusters, generator)
        anchors = None
        if self.anchor is not None:
            n_anchors = self.config.n_anchors
            anchors = torch.multinomial(
                mask.to(torch.float32), n_anchors, replacement=True, generator=generator
            )
        parts = [
            self._loss_of_sets(part, None if anchors is None else part.place_of(anchors)).sum()
            for part in remaining_points(task.points, task.labels, mask)
        ]
        return torch.stack(parts).sum() / (len(mask) * (1 if anchors is None else anchors.shape[1]))

    def _loss_of_sets(self, sets: Remaining, anchors: Tensor | None) -> Tensor:
        """Losses of one pass over S sets, (S,), or over each set with each of its anchors (S, A)."""
        points, labels, mask = sets.points, sets.labels, sets.mask
        h_x = self.encode(points, mask)
        if anchors is not None:
            points, labels, mask, h_x = (
                tensor.repeat_interleave(anchors.shape[1], dim=0) for tensor in (points, labels, mask, h_x)
            )
            anchors = anchors.flatten()
        filtered = self.decode(h_x, mask, anchors)
        density = self.log_density(points, filtered)
        if density is not None:
            density = self.config.density_weight * density
        return filtering_loss(filtered.logits, density, labels, mask, anchors)

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
        n_anchors: int = 1,
    ) -> list[Inference]:
        """Partition B data sets; with anchors ``n_draws`` more times, each with other ones.

        A pass of the answer itself tries ``n_anchors``, one of a draw has a single one.
        """
        seeds = seeds or [0] * len(points)
        if n_draws == 0 or self.anchor is None:
            tried = [n_anchors] * len(points)
            return self._filter(points, mask, seeds, max_clusters, tried)
        paths = 1 + n_draws
        points, mask = (tensor.repeat_interleave(paths, dim=0) for tensor in (points, mask))
        seeds = [s for seed in seeds for s in _seeds(seed, n_draws)]
        tried = ([n_anchors] + [1] * n_draws) * (len(points) // paths)
        found = self._filter(points, mask, seeds, max_clusters, tried)
        return [
            replace(
                found[start],
                draws=tuple(one.labels for one in found[start + 1 : start + paths]),
                densities=sum((one.densities for one in found[start : start + paths]), ()),
            )
            for start in range(0, len(found), paths)
        ]

    def _filter(
        self, points: Tensor, mask: Tensor, seeds: Sequence[int], max_clusters: int, n_anchors: Sequence[int]
    ) -> list[Inference]:
        """Filter each of B data sets until no point is left."""
        traces = [_Trace(*one) for one in zip(mask, seeds, n_anchors, strict=True)]
        for _ in range(max_clusters):
            active = [b for b, trace in enumerate(traces) if trace.left.any()]
            if not active:
                break
            self._filter_once(points, [traces[b] for b in active], active)
        return [
            replace(trace.finish(points[b]), densities=self._densities(trace.contexts))
            for b, trace in enumerate(traces)
        ]

    def _densities(self, contexts: list[Tensor]) -> tuple[ConditionedFlow, ...]:
        """Densities of the clusters that were found, if they are flows."""
        return () if self.flow is None or not contexts else (self.flow.flow.given(torch.stack(contexts)),)

    def _filter_once(self, points: Tensor, traces: list[_Trace], active: list[int]) -> None:
        """Run one pass over the points that are left, gathered so that taken points cost nothing."""
        left = [trace.left.nonzero().squeeze(1) for trace in traces]
        gathered = nn.utils.rnn.pad_sequence(
            [points[b, index] for b, index in zip(active, left, strict=True)], batch_first=True
        )
        sizes = torch.tensor([len(index) for index in left], device=points.device)
        mask = torch.arange(gathered.shape[1], device=points.device) < sizes[:, None]
        if self.anchor is None:
            sets, anchors = list(range(len(traces))), None
            filtered = self.filter(gathered, mask)
        else:
            drawn = [trace.draw_anchors(len(index)) for trace, index in zip(traces, left, strict=True)]
            sets = [row for row, own in enumerate(drawn) for _ in own]  # of each anchor
            anchors = torch.tensor([anchor for own in drawn for anchor in own], device=points.device)
            h_x = self.encode(gathered, mask)
            if len(sets) > len(traces):
                h_x, mask = h_x[sets], mask[sets]
            filtered = self.decode(h_x, mask, anchors)
        probabilities = torch.sigmoid(filtered.logits)
        errors = (torch.minimum(probabilities, 1 - probabilities) * mask).sum(1).tolist()
        for row, (trace, index) in enumerate(zip(traces, left, strict=True)):
            surest = min((one for one, of in enumerate(sets) if of == row), key=errors.__getitem__)
            anchor = None if anchors is None else int(anchors[surest])
            trace.take(probabilities[surest, : len(index)], index, anchor)
            if filtered.context is not None:
                trace.contexts.append(filtered.context[surest])


def _seeds(seed: int, n_draws: int) -> list[int]:
    """The seed itself, and one for each draw."""
    generator = torch.Generator().manual_seed(seed)
    return [seed, *torch.randint(2**31 - 1, (n_draws,), generator=generator).tolist()]


class _Trace:
    """The filtering of one data set so far."""

    def __init__(self, mask: Tensor, seed: int, n_anchors: int) -> None:
        self.left, self.n_anchors = mask.clone(), n_anchors
        self.generator = torch.Generator().manual_seed(seed)
        self.steps: list[Step] = []
        self.contexts: list[Tensor] = []  # theta of each step, if the density is a flow

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
