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
the loop always ends. (4) Where the density is a flow, it is learned on each true cluster by itself, with a
theta of its members alone (``nn.cluster_flows``): a step teaches dozens of clusters in place of one for each
data set, and clusters that no pass has found have a density, too.
(5) What a pass took is never put right in the paper. Here the densities of all clusters together may do so
when no point is left, see ``dac_revision`` for Gaussians and ``dac_flows`` for flows.
(6) Eq 7 draws one anchor; one between two clusters leads to both. Several may be tried on the same encoding
at test time, and the cluster counts of which the network is surest: that with the fewest errors to expect,
sum_i min(m_i, 1 - m_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.exceptions import RecipeError
from clusterwise.nn.attention import (
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
)
from clusterwise.nn.densities import DiagonalGaussianHead, diagonal_gaussian_log_density
from clusterwise.nn.encoder import CoordinateEmbedding
from clusterwise.nn.flow_clusters import FlowClusters
from clusterwise.nn.flows import ClusterFlow
from clusterwise.papers.dac_flows import best_partition, compact, flow_loss, members_of_labels, some_members
from clusterwise.papers.dac_revision import revised
from clusterwise.papers.dac_sets import (
    Remaining,
    remaining_points,
    remove_random_clusters,
)
from clusterwise.papers.model import AmortizedModel, Inference, Step, TrainingTask

__all__ = ["DAC", "DACConfig", "Filtered", "filtering_loss"]


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
    n_anchors: int = 1  # anchors per data set in a training step; they share its encoding
    n_context: int = 128  # length of theta if the density is a flow (App. D)
    n_flow_blocks: int = 4
    flow_width: int = 64
    density_weight: float = 1.0  # of log p in the loss; Eqs 5 and 7 have 1
    learns: Literal["both", "density"] = "both"  # "density": memberships stay as they are; for flows


class Filtered(NamedTuple):
    """Output of one pass over B data sets."""

    logits: Tensor  # (B, N), logit of the membership probability m
    means: Tensor | None = None  # (B, d) of the Gaussian density
    log_sds: Tensor | None = None  # (B, d)


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
        width, heads = config.width, config.n_heads

        def stack(n_blocks: int) -> nn.ModuleList:
            return nn.ModuleList(
                InducedSetAttentionBlock(width, heads, config.n_inducing) for _ in range(n_blocks)
            )

        self.embed = CoordinateEmbedding(config.n_features, width, config.n_wavelengths)
        self.encoder = stack(config.n_encoder_blocks)
        self.pool = PoolingByMultiheadAttention(width, heads)
        self.condition = MultiheadAttentionBlock(width, heads)
        self.decoder = stack(config.n_decoder_blocks)
        self.membership = nn.Linear(width, 1)
        self.anchor = MultiheadAttentionBlock(width, heads) if config.filtering == "anchored" else None
        self.density = (
            DiagonalGaussianHead(width, config.n_features) if config.density == "diagonal-gaussian" else None
        )
        self.cluster_flow = (
            ClusterFlow(config.n_features, config.n_context, config.n_flow_blocks, config.flow_width)
            if config.density == "flow"
            else None
        )
        if config.learns == "density" and self.cluster_flow is None:
            raise RecipeError("learns = 'density' goes with density = 'flow'; leave it out.")

    def encode(self, points: Tensor, mask: Tensor) -> Tensor:
        """H_X = ISAB_L(X), (B, N, width)."""
        h = self.embed(points)
        for block in self.encoder:
            h = block(h, mask)
        return h

    def _pooled(self, h_x: Tensor, mask: Tensor, anchors: Tensor | None) -> tuple[Tensor, Tensor]:
        """H_X, or H_{X|a}, and H_theta (B, 1, width)."""
        if self.anchor is not None:
            if anchors is None:
                raise ValueError("anchored filtering needs one anchor per data set")
            h_a = h_x[torch.arange(len(h_x)), anchors].unsqueeze(1)
            h_x = self.anchor(h_x, h_a)
        return h_x, self.pool(h_x, mask)

    def decode(self, h_x: Tensor, mask: Tensor, anchors: Tensor | None) -> Filtered:
        """Cluster parameters and membership logits from encoded data (B, N, width)."""
        h_x, h_theta = self._pooled(h_x, mask, anchors)
        means, log_sds = self.density(h_theta.squeeze(1)) if self.density is not None else (None, None)
        h_m = self.condition(h_x, h_theta)
        for block in self.decoder:
            h_m = block(h_m, mask)
        return Filtered(self.membership(h_m).squeeze(-1), means, log_sds)

    def log_density(self, points: Tensor, filtered: Filtered) -> Tensor | None:
        """log p(x; theta) of points (B, N, d) under the cluster that was found, (B, N), or None."""
        if filtered.means is None or filtered.log_sds is None:
            return None
        return diagonal_gaussian_log_density(
            points, filtered.means.unsqueeze(1), filtered.log_sds.unsqueeze(1)
        )

    def _pooled_members(self, points: Tensor, mask: Tensor) -> Tensor:
        """H_theta (B, width) of B clusters by their members (B, N, d) alone, the middle one as anchor."""
        anchors = None
        if self.anchor is not None:
            middle = (points * mask.unsqueeze(-1)).sum(1, keepdim=True) / mask.sum(1)[:, None, None]
            squared = (points - middle).square().sum(-1)
            anchors = squared.masked_fill(~mask, torch.inf).argmin(1)
        return self._pooled(self.encode(points, mask), mask, anchors)[1].squeeze(1)

    def describe(self, points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations (B, d) of B clusters by their members (B, N, d) alone."""
        if self.density is None:
            raise ValueError("the density of this network is not a Gaussian")
        means, log_sds = self.density(self._pooled_members(points, mask))
        return means, log_sds

    def filter(self, points: Tensor, mask: Tensor, anchors: Tensor | None = None) -> Filtered:
        """One pass over B data sets: points (B, N, d), mask (B, N), anchors (B,)."""
        return self.decode(self.encode(points, mask), mask, anchors)

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        parts = [] if self.config.learns == "density" else [self._loss_of_filtering(task, generator)]
        if self.cluster_flow is not None:
            of_flow = flow_loss(self.cluster_flow, task.points, task.labels, generator)
            parts.append(self.config.density_weight * of_flow)
        return torch.stack(parts).sum()

    def _loss_of_filtering(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eqs 5, 7 and 9, a scalar."""
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
        revise: bool = False,
        n_anchors: int = 1,
        n_starts: int = 0,
    ) -> list[Inference]:
        """Partition B data sets; with anchors ``n_draws`` more times, each with other ones.

        With ``revise``, for Gaussian clusters, partitions are revised when no point is left. A pass of the
        answer itself tries ``n_anchors``, one of a draw has a single one. With flows and ``n_starts`` > 0 a
        search goes on from each partition (``dac_flows``): the answer is the consensus of this many of them.
        """
        seeds = seeds or [0] * len(points)
        if self.anchor is None:  # all would be the same
            n_draws, n_starts = 0, min(1, n_starts)
        if self.cluster_flow is None:
            n_starts = 0
        answers = max(1, n_starts)
        paths = answers + n_draws
        if paths > 1:
            points, mask = (tensor.repeat_interleave(paths, dim=0) for tensor in (points, mask))
            seeds = [s for seed in seeds for s in _seeds(seed, paths - 1)]
        tried = ([n_anchors] * answers + [1] * n_draws) * (len(points) // paths)
        found = self._filter(points, mask, seeds, max_clusters, revise, tried)
        results = []
        for start in range(0, len(found), paths):
            answer, *draws = (
                self._with_flows(points[start], mask[start], own, n_starts > 0)
                for own in (
                    found[start : start + answers],
                    *([one] for one in found[start + answers : start + paths]),
                )
            )
            results.append(
                replace(
                    answer,
                    draws=tuple(one.labels for one in draws),
                    densities=sum((one.densities for one in draws), answer.densities),
                )
            )
        return results

    def _with_flows(
        self, points: Tensor, mask: Tensor, found: Sequence[Inference], searched: bool
    ) -> Inference:
        """Give the clusters found in points (N, d) their densities, after a search or as they are."""
        if self.cluster_flow is None:
            return found[0]
        rows = mask.nonzero().squeeze(1)
        # A flow is made from the first members, and rows may come sorted.
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).to(rows.device)]
        starts = [compact(one.labels[rows]) for one in found]
        own = best_partition(self.cluster_flow, points[rows], starts) if searched else starts[0]
        labels = found[0].labels.clone()
        labels[rows] = own
        index, present = some_members(members_of_labels(own))
        members = points[rows][index]
        densities = FlowClusters.of(self.cluster_flow, points[rows], own, members, present)
        return replace(found[0], labels=labels, densities=(densities,))

    def _filter(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int],
        max_clusters: int,
        revise: bool,
        n_anchors: Sequence[int],
    ) -> list[Inference]:
        """Filter each of B data sets until no point is left."""
        traces = [_Trace(*one) for one in zip(mask, seeds, n_anchors, strict=True)]
        for _ in range(max_clusters):
            active = [b for b, trace in enumerate(traces) if trace.left.any()]
            if not active:
                break
            self._filter_once(points, [traces[b] for b in active], active)
        found = [trace.finish(points[b]) for b, trace in enumerate(traces)]
        if revise:
            for b, (one, present) in enumerate(zip(found, mask, strict=True)):
                labels, capped = revised(self, points[b, present], one.labels[present], max_clusters)
                one.labels[present] = labels
                found[b] = replace(one, cap_reached=one.cap_reached or capped)
        return found

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
