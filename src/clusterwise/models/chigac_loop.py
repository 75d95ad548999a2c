"""The cluster-wise loop of CHiGac: pioneer, cluster vector, members, until no point is left.

``chigac.py`` has the network and the readings of the paper. Here is the bookkeeping for many data sets and
many paths at once. The first path of a data set takes the likeliest pioneers and the means of the cluster
vectors; the others draw both (Eq 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.models.base import Inference, Step
from clusterwise.models.chigac_inference import TAU
from clusterwise.models.paths import compact_labels, drawn_index, summarized_paths

if TYPE_CHECKING:
    from clusterwise.models.chigac import CHiGac, Encoded
    from clusterwise.models.chigac_inference import Scene

__all__ = ["Loop"]


class _Paths(NamedTuple):
    """Paths that go on, one row each."""

    row: Tensor  # (R,), which path it is: paths of one data set stand together
    h: Tensor  # (R, N, width), encodings
    sphere: Tensor  # (R, N, D)
    pioneering: Tensor  # (R, N, D)
    left: Tensor  # (R, N), True for points in S_k
    columns: Tensor  # (R, N), the cluster of each point so far
    wanted: Tensor  # (R, N), the largest membership logit of each point so far
    wanted_by: Tensor  # (R, N), and the cluster that it belongs to
    sums: Tensor  # (R, k, width), of the encodings in each cluster
    sizes: Tensor  # (R, k)
    total: Tensor  # (R, width), the sum over all points
    n_points: Tensor  # (R, 1)
    prototypes: Tensor  # (R, D), the sum of m^1 .. m^(k-1)

    def select(self, index: Tensor) -> _Paths:
        return _Paths(*(tensor[index] for tensor in self))


class Loop:
    """Clusters of B data sets one by one, along 1 + ``n_draws`` paths of each."""

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
        self.encoded, self.present = encoded, mask
        self.n_paths = 1 + n_draws
        # Each data set draws from its own generator, once in every step, whoever its neighbours are.
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.columns = torch.zeros(
            len(mask) * self.n_paths, mask.shape[1], dtype=torch.int64, device=mask.device
        )
        self.steps: list[list[Step]] = [[] for _ in seeds]

    def run(self, points: Tensor) -> list[Inference]:
        """Generate clusters until every path is over."""
        paths = self._start()
        capped = [False] * len(points)
        for k in range(self.max_clusters):
            paths, is_over = self._step(paths, k)
            over = is_over | ~paths.left.any(1)
            if bool(over.any()):
                self._settle(paths if bool(over.all()) else paths.select(over))
                paths = paths.select(~over)
            if len(paths.row) == 0:
                break
        else:
            self._settle(paths)
            for row in paths.row.tolist():
                capped[row // self.n_paths] |= row % self.n_paths == 0
        return [self._inference(b, points[b], capped[b]) for b in range(len(points))]

    def _start(self) -> _Paths:
        mask, h = self.present, self.encoded.h
        weights = mask.to(h.dtype)
        start = _Paths(
            torch.arange(len(mask), device=mask.device) * self.n_paths,
            *self.encoded,
            mask,
            torch.zeros_like(mask, dtype=torch.int64),
            torch.full_like(weights, -torch.inf),
            torch.zeros_like(mask, dtype=torch.int64),
            h.new_zeros(len(mask), 0, h.shape[-1]),
            h.new_zeros(len(mask), 0),
            (weights.unsqueeze(1) @ h).squeeze(1),
            weights.sum(1, keepdim=True),
            h.new_zeros(len(mask), self.encoded.sphere.shape[-1]),
        )
        if self.n_paths == 1:
            return start
        several = start.select(torch.arange(len(mask), device=mask.device).repeat_interleave(self.n_paths))
        return several._replace(row=torch.arange(len(several.row), device=mask.device))

    def _step(self, paths: _Paths, k: int) -> tuple[_Paths, Tensor]:
        """Cluster number k (from 0) of every path; also says which paths were over before it, (R,)."""
        model, h, left = self.model, paths.h, paths.left
        numbers, noise = self._random_numbers(paths.row)
        prototype, pioneers, is_over = self._choose_pioneers(paths, k, numbers)
        at = torch.arange(len(left), device=left.device)
        context = model.context(h, paths.sums, paths.sizes, left)
        prior, _ = model.prior(
            h, context, h[at, pioneers].unsqueeze(1), paths.sphere[at, pioneers].unsqueeze(1)
        )
        scene = model.scene(paths.sphere, context, prior, left, left)
        logits = scene.logits_along(scene.typical_direction() if noise is None else _direction(scene, noise))
        logits = logits.squeeze(1)
        joins = left & (logits > 0)
        joins[at, pioneers] = True  # so that every step makes progress
        if k > 0 and not self.until_empty:
            joins &= ~is_over.unsqueeze(1)
        self._record(paths.row, joins, torch.sigmoid(logits) * left, pioneers, is_over)
        more = (logits > paths.wanted) & ~is_over.unsqueeze(1)
        members = joins.to(h.dtype).unsqueeze(1)
        after = paths._replace(
            left=left & ~joins,
            columns=paths.columns.masked_fill(joins, k),
            wanted=torch.where(more, logits, paths.wanted),
            wanted_by=paths.wanted_by.masked_fill(more, k),
            sums=torch.cat([paths.sums, members @ h], dim=1),
            sizes=torch.cat([paths.sizes, members.sum(-1)], dim=1),
            prototypes=paths.prototypes + prototype,
        )
        return after, is_over

    def _choose_pioneers(
        self, paths: _Paths, k: int, numbers: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Eq 11: the prototypes (R, D), the pioneers (R,), and where there is none to choose, (R,)."""
        assigned, n_assigned = paths.sums.sum(1), paths.sizes.sum(1, keepdim=True)
        mean_assigned = assigned / n_assigned.clamp(min=1)
        mean_left = (paths.total - assigned) / (paths.n_points - n_assigned).clamp(min=1)
        prototype, nobody = self.model.prototypes(mean_assigned, mean_left)
        direction = (prototype - paths.prototypes / max(k, 1)) / TAU
        scores = (paths.pioneering @ direction.unsqueeze(-1)).squeeze(-1)
        scores = scores.masked_fill(~paths.left, -torch.inf)
        may_stop = k > 0 and not self.until_empty
        if not may_stop:
            nobody = torch.full_like(nobody, -torch.inf)
        # The likeliest path is over if more likely than not nobody is a pioneer.
        is_over = nobody > torch.logsumexp(scores, dim=1)
        if numbers is None:
            return prototype, scores.argmax(1), is_over
        chosen = drawn_index(torch.cat([scores, nobody.unsqueeze(1)], dim=1), numbers)
        is_over = torch.where(numbers < 0, is_over, chosen == scores.shape[1])
        return prototype, torch.where(numbers < 0, scores.argmax(1), chosen.masked_fill(is_over, 0)), is_over

    def _random_numbers(self, row: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """For each path a number that draws its pioneer, (R,), and noise of its cluster vector, (R, 1, D).

        The first path of a data set draws nothing: its number is -1 and its noise NaN.
        """
        if self.n_paths == 1:
            return None, None
        like = self.encoded.h
        numbers, noise = [], []
        for generator in self.generators:
            drawn = torch.rand(self.n_paths, generator=generator, dtype=torch.float64)
            drawn[0] = -1.0
            numbers.append(drawn)
            vectors = torch.randn(self.n_paths, self.encoded.sphere.shape[-1], generator=generator)
            vectors[0] = torch.nan
            noise.append(vectors)
        return torch.cat(numbers).to(like.device)[row], torch.cat(noise).to(like)[row].unsqueeze(1)

    def _record(
        self, rows: Tensor, members: Tensor, probabilities: Tensor, pioneers: Tensor, is_over: Tensor
    ) -> None:
        """Keep the steps of the first path of each data set."""
        for position, (row, over) in enumerate(zip(rows.tolist(), is_over.tolist(), strict=True)):
            if row % self.n_paths == 0 and not over:
                step = Step(members[position], probabilities[position], int(pioneers[position]))
                self.steps[row // self.n_paths].append(step)

    def _settle(self, paths: _Paths) -> None:
        """Store the columns of paths that are over; what is left joins the cluster that wanted it most."""
        self.columns[paths.row] = torch.where(paths.left, paths.wanted_by, paths.columns)

    def _inference(self, b: int, points: Tensor, cap_reached: bool) -> Inference:
        present = self.present[b]
        rows = self.columns[b * self.n_paths : (b + 1) * self.n_paths]
        labels = [compact_labels(columns, present) for columns in rows]
        return summarized_paths(points, present, labels, self.steps[b], cap_reached)


def _direction(scene: Scene, noise: Tensor) -> Tensor:
    """Directions of drawn cluster vectors (R, 1, D), typical ones where the noise is NaN."""
    drawn = functional.normalize(scene.prior.at(noise), dim=-1)
    return torch.where(noise.isnan(), scene.typical_direction(), drawn)
