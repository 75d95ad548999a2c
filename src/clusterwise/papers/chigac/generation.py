"""The cluster-wise loop of CHiGac: pioneer, cluster vector, members, until no point is left.

``chigac.py`` has the network and the readings of the paper. Here is the bookkeeping for many data sets and
many paths at once. The first path of a data set takes the likeliest pioneers and the means of the cluster
vectors; the others draw both (Eq 10).

Eq 11 likes pioneers that are easy to name, which are outlying points more often than not. So a cluster is
generated again from its own most central member, ``recentre`` times; 0 is the printed loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.chigac.bound import TAU
from clusterwise.papers.model import Inference, Step, compact_labels, drawn_points

if TYPE_CHECKING:
    from clusterwise.papers.chigac.chigac import CHiGacNetwork, Representations, StepContext

__all__ = ["Loop"]


class _Paths(NamedTuple):
    """Paths that go on, one row each."""

    row: Tensor  # (R,), which path it is: paths of one data set stand together
    h: Tensor  # (R, N, width), encodings
    sphere: Tensor  # (R, N, D)
    pioneering: Tensor  # (R, N, D)
    central: Tensor  # (R, N)
    left: Tensor  # (R, N), True for points in S_k
    columns: Tensor  # (R, N), the cluster of each point so far
    largest: Tensor  # (R, N), the largest membership logit of each point so far
    largest_by: Tensor  # (R, N), and the cluster that it belongs to
    sums: Tensor  # (R, k, width), of the encodings in each cluster
    sizes: Tensor  # (R, k)
    total: Tensor  # (R, width), the sum over all points
    n_points: Tensor  # (R, 1)
    prototypes: Tensor  # (R, D), the sum of m^1 .. m^(k-1)

    def select(self, index: Tensor) -> _Paths:
        return _Paths(*(tensor[index] for tensor in self))


class _Choice(NamedTuple):
    """Pioneers of the next cluster, one for each path."""

    prototypes: Tensor  # (R, D), m^k
    pioneers: Tensor  # (R,)
    noise: Tensor | None  # (R, 1, D), of the cluster vectors; NaN for paths that take the mean

    def select(self, index: Tensor) -> _Choice:
        noise = None if self.noise is None else self.noise[index]
        return _Choice(self.prototypes[index], self.pioneers[index], noise)


class Loop:
    """Clusters of B data sets one by one, along 1 + ``n_draws`` paths of each."""

    def __init__(
        self,
        model: CHiGacNetwork,
        encoded: Representations,
        mask: Tensor,
        seeds: Sequence[int],
        n_draws: int,
        max_clusters: int,
    ) -> None:
        self.model, self.max_clusters = model, max_clusters
        self.encoded, self.present = encoded, mask
        self.n_paths = 1 + n_draws
        # Each data set draws from its own generator, once in every step, whoever its neighbours are.
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.columns = torch.zeros(
            len(mask) * self.n_paths, mask.shape[1], dtype=torch.int64, device=mask.device
        )
        self.steps: list[list[Step]] = [[] for _ in seeds]

    def run(self) -> list[Inference]:
        """Generate clusters until every path is over."""
        paths = self._start()
        for k in range(self.max_clusters):
            choice, is_over = self._choose(paths, k)
            if bool(is_over.any()):  # only stragglers are left
                paths, choice = self._end(paths, is_over), choice.select(~is_over)
            if len(paths.row) > 0:
                paths = self._grow(paths, choice, k)
                is_empty = ~paths.left.any(1)
                if bool(is_empty.any()):
                    paths = self._end(paths, is_empty)
            if len(paths.row) == 0:
                break
        capped = {row // self.n_paths for row in paths.row.tolist() if row % self.n_paths == 0}
        self._end(paths, torch.ones_like(paths.row, dtype=torch.bool))
        return [self._inference(b, b in capped) for b in range(len(self.present))]

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

    def _choose(self, paths: _Paths, k: int) -> tuple[_Choice, Tensor]:
        """Eq 11 before cluster number k (from 0): pioneers, and which paths are over, (R,)."""
        assigned, n_assigned = paths.sums.sum(1), paths.sizes.sum(1, keepdim=True)
        mean_assigned = assigned / n_assigned.clamp(min=1)
        mean_left = (paths.total - assigned) / (paths.n_points - n_assigned).clamp(min=1)
        prototypes, nobody = self.model.prototypes(mean_assigned, mean_left)
        direction = (prototypes - paths.prototypes / max(k, 1)) / TAU
        scores = (paths.pioneering @ direction.unsqueeze(-1)).squeeze(-1) + paths.central
        scores = scores.masked_fill(~paths.left, -torch.inf)
        if k == 0 or self.model.config.stop == "empty":
            nobody = torch.full_like(nobody, -torch.inf)
        # The likeliest path is over if more likely than not nobody is a pioneer.
        is_over = nobody > torch.logsumexp(scores, dim=1)
        numbers, noise = self._random_numbers(paths.row)
        pioneers = scores.argmax(1)
        if numbers is not None:
            logits = torch.cat([scores, nobody.unsqueeze(1)], dim=1)
            drawn = drawn_points(logits, numbers)
            is_over = torch.where(numbers < 0, is_over, drawn == scores.shape[1])
            pioneers = torch.where(numbers < 0, pioneers, drawn)
        return _Choice(prototypes, pioneers, noise), is_over

    def _members(self, paths: _Paths, context: StepContext, choice: _Choice) -> tuple[Tensor, Tensor]:
        """Eqs 12 and 13: membership logits of the pioneers' clusters, and who joins them, both (R, N)."""
        model, h, sphere, pioneers = self.model, paths.h, paths.sphere, choice.pioneers
        at = torch.arange(len(h), device=h.device)
        prior, _ = model.prior(h, context, h[at, pioneers].unsqueeze(1), sphere[at, pioneers].unsqueeze(1))
        scene = model.scene(sphere, context, prior, paths.left, paths.left)
        direction = scene.typical_direction()
        if choice.noise is not None:
            drawn = functional.normalize(prior.at(choice.noise), dim=-1)
            direction = torch.where(choice.noise.isnan(), direction, drawn)
        logits = scene.logits_along(direction).squeeze(1)
        joins = paths.left & (logits > 0)
        joins[at, pioneers] = True  # so that every step makes progress
        return logits, joins

    def _grow(self, paths: _Paths, choice: _Choice, k: int) -> _Paths:
        """Cluster number k (from 0) of every path."""
        h, left = paths.h, paths.left
        context = self.model.context(h, paths.sums, paths.sizes, left)
        logits, joins = self._members(paths, context, choice)
        for _ in range(self.model.config.recentre):
            choice = choice._replace(pioneers=_central(paths.sphere, joins, choice.pioneers))
            logits, joins = self._members(paths, context, choice)
        self._record(paths.row, joins, torch.sigmoid(logits) * left, choice.pioneers)
        more = logits > paths.largest
        members = joins.to(h.dtype).unsqueeze(1)
        return paths._replace(
            left=left & ~joins,
            columns=paths.columns.masked_fill(joins, k),
            largest=torch.where(more, logits, paths.largest),
            largest_by=paths.largest_by.masked_fill(more, k),
            sums=torch.cat([paths.sums, members @ h], dim=1),
            sizes=torch.cat([paths.sizes, members.sum(-1)], dim=1),
            prototypes=paths.prototypes + choice.prototypes,
        )

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

    def _record(self, rows: Tensor, members: Tensor, probabilities: Tensor, pioneers: Tensor) -> None:
        """Keep the steps of the first path of each data set."""
        for position, row in enumerate(rows.tolist()):
            if row % self.n_paths == 0:
                step = Step(members[position], probabilities[position], int(pioneers[position]))
                self.steps[row // self.n_paths].append(step)

    def _end(self, paths: _Paths, over: Tensor) -> _Paths:
        """Store the columns of paths that are over, and return the others.

        What is left joins the cluster of its largest membership.
        """
        ended = paths.select(over)
        self.columns[ended.row] = torch.where(ended.left, ended.largest_by, ended.columns)
        return paths.select(~over)

    def _inference(self, b: int, cap_reached: bool) -> Inference:
        rows = self.columns[b * self.n_paths : (b + 1) * self.n_paths]
        labels, *draws = (compact_labels(columns, self.present[b]) for columns in rows)
        return Inference(labels, tuple(self.steps[b]), cap_reached=cap_reached, draws=tuple(draws))


def _central(sphere: Tensor, members: Tensor, pioneers: Tensor) -> Tensor:
    """The member (R,) of each set of ``members`` (R, N) whose representation is nearest to their mean."""
    means = members.to(sphere.dtype).unsqueeze(1) @ sphere  # (R, 1, D)
    likeness = (sphere @ means.transpose(1, 2)).squeeze(-1)
    central = likeness.masked_fill(~members, -torch.inf).argmax(1)
    # Two members are equally near to their mean: rounding must not decide between them.
    return torch.where(members.sum(1) > 2, central, pioneers)
