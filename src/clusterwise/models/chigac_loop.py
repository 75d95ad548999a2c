"""The cluster-wise loop of CHiGac: pioneer, cluster vector, members, until no point is left.

``chigac.py`` has the network and the readings of the paper. Here is the bookkeeping for many data sets and
many paths at once. The first path of a data set takes the likeliest pioneers and the means of the cluster
vectors; the others draw both (Eq 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clusterwise.models.base import Inference, Step
from clusterwise.models.chigac_inference import TAU
from clusterwise.models.paths import compact_labels, summarized_paths

if TYPE_CHECKING:
    from clusterwise.models.chigac import CHiGac, Encoded

__all__ = ["Loop"]

# A point joins the cluster if its membership probability is above this.
THRESHOLD = 0.5


class Loop:
    """Clusters of B data sets one by one, along 1 + ``n_draws`` paths of each, which stand together."""

    def __init__(
        self,
        model: CHiGac,
        encoded: Encoded,
        mask: Tensor,
        seeds: Sequence[int],
        n_draws: int,
        max_clusters: int,
        until_empty: bool,
    ) -> None:
        self.model, self.max_clusters, self.until_empty = model, max_clusters, until_empty
        self.paths = 1 + n_draws
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        rows = torch.arange(len(mask)).repeat_interleave(self.paths)
        self.encoded = encoded if self.paths == 1 else encoded.rows(rows)
        self.present = mask if self.paths == 1 else mask[rows]
        self.left = self.present.clone()
        self.columns = torch.full(self.left.shape, -1, dtype=torch.int64)
        self.wanted = torch.full(self.left.shape, -torch.inf)  # largest logit of any cluster so far
        self.wanted_by = torch.zeros_like(self.columns)
        n_rows, width = len(rows), encoded.h.shape[-1]
        self.sums = encoded.h.new_zeros(n_rows, 0, width)
        self.sizes = encoded.h.new_zeros(n_rows, 0)
        self.sum_all = (self.present.to(encoded.h.dtype).unsqueeze(1) @ self.encoded.h).squeeze(1)
        self.n_all = self.present.sum(1)
        self.sum_prototypes = encoded.h.new_zeros(n_rows, encoded.sphere.shape[-1])
        self.steps: list[list[Step]] = [[] for _ in seeds]

    def run(self, points: Tensor) -> list[Inference]:
        """Generate clusters until every path is over."""
        active = self.left.any(1)
        for k in range(self.max_clusters):
            rows = active.nonzero().squeeze(1)
            if len(rows) == 0:
                break
            goes_on = self._step(rows, k)
            active[rows] = goes_on & self.left[rows].any(1)
        return self._finish(points, active)

    def _step(self, rows: Tensor, k: int) -> Tensor:
        """Cluster number k (from 0) of the paths in ``rows``; returns which of them go on, (len(rows),)."""
        everyone = len(rows) == len(self.left)
        encoded = self.encoded if everyone else self.encoded.rows(rows)
        left, sums, sizes = self.left[rows], self.sums[rows], self.sizes[rows]
        drawn = rows % self.paths > 0
        chosen, is_over, prototype = self._choose_pioneer(encoded, rows, k, left, sums, sizes, drawn)
        at = torch.arange(len(rows))
        context = self.model.context(encoded.h, sums, sizes, left)
        h_pioneer, e_pioneer = encoded.h[at, chosen].unsqueeze(1), encoded.sphere[at, chosen].unsqueeze(1)
        prior, _ = self.model.prior(encoded.h, context, h_pioneer, e_pioneer)
        scene = self.model.scene(encoded, context, prior, left, left)
        logits = scene.typical_logits().squeeze(1)
        if self.paths > 1:
            z = prior.at(self._normal(rows, prior.mean.shape[-1]).unsqueeze(1))
            logits = torch.where(drawn.unsqueeze(1), scene.logits(z).squeeze(1), logits)
        joins = left & (logits > 0)
        joins[at, chosen] = True  # so that every step makes progress
        joins &= ~is_over.unsqueeze(1)
        self.columns[rows] = torch.where(joins, k, self.columns[rows])
        more = (logits > self.wanted[rows]) & ~is_over.unsqueeze(1)
        self.wanted[rows] = torch.where(more, logits, self.wanted[rows])
        self.wanted_by[rows] = torch.where(more, k, self.wanted_by[rows])
        members = joins.to(logits.dtype)
        new_sums = torch.zeros_like(self.sum_all)
        new_sums[rows] = (members.unsqueeze(1) @ encoded.h).squeeze(1)
        new_sizes = torch.zeros(len(self.left))
        new_sizes[rows] = members.sum(1)
        self.sums = torch.cat([self.sums, new_sums.unsqueeze(1)], dim=1)
        self.sizes = torch.cat([self.sizes, new_sizes.unsqueeze(1)], dim=1)
        self.sum_prototypes[rows] += prototype
        self.left[rows] = left & ~joins
        self._record(rows, joins, torch.sigmoid(logits) * left, chosen, is_over)
        return ~is_over

    def _choose_pioneer(
        self, encoded: Encoded, rows: Tensor, k: int, left: Tensor, sums: Tensor, sizes: Tensor, drawn: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Eq 11: the pioneers (R,), whether nobody is one (R,), and the prototypes (R, D)."""
        sum_assigned, n_assigned = sums.sum(1), sizes.sum(1, keepdim=True)
        mean_assigned = sum_assigned / n_assigned.clamp(min=1)
        mean_left = (self.sum_all[rows] - sum_assigned) / (self.n_all[rows].unsqueeze(1) - n_assigned).clamp(
            min=1
        )
        prototype, nobody = self.model.prototypes(mean_assigned, mean_left)
        direction = prototype - self.sum_prototypes[rows] / max(k, 1)
        scores = (encoded.pioneering @ direction.unsqueeze(-1)).squeeze(-1) / TAU
        scores = scores.masked_fill(~left, -torch.inf)
        is_over = nobody > torch.logsumexp(scores, dim=1)
        if k == 0 or self.until_empty:
            is_over = torch.zeros_like(is_over)
        if self.paths > 1:
            uniform = self._uniform(rows, scores.shape[1]).clamp(1e-9, 1 - 1e-7)
            gumbel = -torch.log(-torch.log(uniform))
            scores = scores + gumbel * drawn.unsqueeze(1)
        return scores.argmax(1), is_over, prototype

    def _uniform(self, rows: Tensor, n: int) -> Tensor:
        sets = torch.stack([torch.rand(self.paths, n, generator=g) for g in self.generators])
        return sets.flatten(0, 1)[rows]

    def _normal(self, rows: Tensor, n: int) -> Tensor:
        sets = torch.stack([torch.randn(self.paths, n, generator=g) for g in self.generators])
        return sets.flatten(0, 1)[rows]

    def _record(
        self, rows: Tensor, members: Tensor, probabilities: Tensor, pioneers: Tensor, is_over: Tensor
    ) -> None:
        """Keep the steps of the first path of each data set."""
        for position, row in enumerate(rows.tolist()):
            if row % self.paths == 0 and not is_over[position]:
                step = Step(members[position], probabilities[position], int(pioneers[position]))
                self.steps[row // self.paths].append(step)

    def _finish(self, points: Tensor, active: Tensor) -> list[Inference]:
        """Label every point; what is left joins the cluster that wanted it most."""
        self.columns = torch.where(self.left, self.wanted_by, self.columns)
        labels = [compact_labels(*row) for row in zip(self.columns, self.present, strict=True)]
        capped = active[:: self.paths].tolist()
        return [
            summarized_paths(
                points[b], present, labels[b * self.paths :][: self.paths], self.steps[b], capped[b]
            )
            for b, present in enumerate(self.present[:: self.paths])
        ]
