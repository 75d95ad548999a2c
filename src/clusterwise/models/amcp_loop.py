"""The cluster-wise loop of AMCP (Algorithm 1): InterCC chooses a seed, IntraCM says who joins it.

``amcp.py`` has the network, IntraCM, the objective and the readings of the paper. Here are Eqs 8-10 and the
bookkeeping: similarity of unassigned to assigned points without their matrix, the draw of a seed, the first
cluster by k-means as printed, and the loop itself for many data sets and many paths at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.models.base import Inference, Step
from clusterwise.models.paths import compact_labels, drawn_index, summarized_paths

if TYPE_CHECKING:
    from clusterwise.models.amcp import AMCP, Encoded, Options

__all__ = ["Loop", "first_by_k_means", "seed_logits", "similarity_to_assigned", "uniform_numbers"]

# Temperatures of Eq 10: of the dissimilarity to what is assigned, and of the log loss expected from a seed.
SIMILARITY_TEMPERATURE = 0.1
SEED_TEMPERATURE = 0.5


def similarity_to_assigned(log_plan: Tensor, centres: Tensor, assigned: Tensor) -> Tensor:
    """Column means of M (Eq 9) for every point, (B, N), without M.

    ``log_plan`` is (B, N, J), ``centres`` (B, J, D), ``assigned`` (B, N). With r_i the normalized
    barycentric projection sum_j q_ij centre_j, the mean over assigned a of r_a . r_i is one product
    with the mean of the r_a.
    """
    projected = functional.normalize(torch.exp(log_plan) @ (centres - 0.5), dim=-1)  # (B, N, D)
    weights = assigned.to(projected.dtype)
    mean = (weights.unsqueeze(1) @ projected) / weights.sum(1).clamp(min=1)[:, None, None]  # (B, 1, D)
    return (projected @ mean.transpose(1, 2)).squeeze(-1)


def uniform_numbers(seed: int, n_draws: int, n_steps: int) -> Tensor:
    """Random numbers of the seeds: one row per path; the first path takes the likeliest, marked by -1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(n_draws, n_steps, generator=generator)
    return torch.cat([torch.full((1, n_steps), -1.0), drawn])


def first_by_k_means(points: Tensor, mask: Tensor, k: int = 8, steps: int = 10) -> Tensor:
    """Members (B, N) of the first cluster as Algorithm 1 prints it: the likeliest cluster of k-means.

    Centres start far from each other; the tightest cluster with at least a fair share of the points wins.
    """
    rows = torch.arange(len(points), device=points.device)
    far = torch.where(mask, torch.inf, -torch.inf)
    start = mask.to(torch.int64).argmax(1)
    centres = [points[rows, start]]
    for _ in range(k - 1):
        far = torch.minimum(far, (points - centres[-1].unsqueeze(1)).square().sum(-1))
        centres.append(points[rows, far.argmax(1)])
    means = torch.stack(centres, dim=1)  # (B, k, d)
    for _ in range(steps):
        distances = torch.cdist(points, means).square()
        members = functional.one_hot(distances.argmin(2), k).to(points.dtype) * mask.unsqueeze(-1)
        sizes = members.sum(1)
        new = members.transpose(1, 2) @ points / sizes.clamp(min=1).unsqueeze(-1)
        means = torch.where(sizes.unsqueeze(-1) > 0, new, means)
    spread = (members * distances).sum(1) / sizes.clamp(min=1)
    spread = spread.masked_fill(sizes < mask.sum(1, keepdim=True) / (2 * k), torch.inf)
    return (members[rows, :, spread.argmin(1)] > 0) & mask


def seed_logits(similarity: Tensor, log_seed_loss: Tensor, unassigned: Tensor) -> Tensor:
    """Logits of Eq 10 over the points, (B, N): dissimilar to what is assigned, and a good seed."""
    logits = (1 - similarity) / SIMILARITY_TEMPERATURE - log_seed_loss / SEED_TEMPERATURE
    return logits.masked_fill(~unassigned, -torch.inf)


class Loop:
    """Algorithm 1 for R paths at once; paths of one data set stand together, ``paths`` of them."""

    def __init__(
        self,
        model: AMCP,
        encoded: Encoded,
        log_seed_loss: Tensor,
        uniform: Tensor,
        options: Options,
        max_clusters: int,
        paths: int,
    ) -> None:
        self.model, self.options, self.max_clusters, self.paths = model, options, max_clusters, paths
        self.encoded, self.log_seed_loss, self.uniform = encoded, log_seed_loss, uniform
        self.x, self.present = encoded.x, encoded.mask
        self.columns = torch.full_like(
            self.present, -1, dtype=torch.int64
        )  # the cluster of each point so far
        self.similarity = torch.zeros_like(log_seed_loss)
        self.steps: list[list[Step]] = [[] for _ in range(len(self.x) // paths)]

    def run(self, first: Tensor | None, points: Tensor) -> list[Inference]:
        """Generate clusters until no point is left; ``first`` (R, N) marks a cluster found otherwise."""
        k = 0
        if first is not None:
            self.columns[first] = 0
            self._record(torch.arange(len(self.x)), first, first.to(self.x.dtype), None)
            k = 1
        while k < self.max_clusters:
            rows = ((self.columns < 0) & self.present).any(1).nonzero().squeeze(1)
            if len(rows) == 0:
                break
            self._step(rows, k)
            k += 1
        return self._finish(points)

    def _step(self, rows: Tensor, k: int) -> None:
        """InterCC and IntraCM for cluster number k (from 0) of the paths that have points left."""
        encoded = self.encoded if len(rows) == len(self.x) else self.encoded.rows(rows)
        present, columns = encoded.mask, self.columns[rows]
        unassigned = (columns < 0) & present
        logits = seed_logits(self.similarity[rows], self.log_seed_loss[rows], unassigned)
        seeds = drawn_index(logits, self.uniform[rows, k])
        columns_now = torch.where(columns < 0, k + 1, columns)
        mixing = self.model.intra_cluster_mixing(encoded, columns_now, seeds, k + 1, self.options)[-1]
        best = mixing.log_plan.argmax(-1)
        if self.options.update:
            # Earlier clusters keep their points or exchange them among each other and with the new one.
            revised = mixing.log_plan[..., :-1].argmax(-1)
            columns = torch.where(unassigned, torch.where(best > k, -1, best), revised)
        else:
            columns = torch.where(unassigned & (best == k), k, columns)
        columns[torch.arange(len(rows)), seeds] = k  # so that every step makes progress
        columns = columns.masked_fill(~present, -1)
        self.columns[rows] = columns
        assigned = columns >= 0
        if not bool((assigned | ~present).all()):  # somebody will need a seed
            centres = self.model.decoder(mixing.references)
            self.similarity[rows] = similarity_to_assigned(mixing.log_plan, centres, assigned)
        probabilities = torch.exp(mixing.log_plan[..., k]) * unassigned
        self._record(rows, columns == k, probabilities, seeds)

    def _record(self, rows: Tensor, members: Tensor, probabilities: Tensor, seeds: Tensor | None) -> None:
        """Keep the steps of the first path of each data set."""
        for position, row in enumerate(rows.tolist()):
            if row % self.paths == 0:
                anchor = None if seeds is None else int(seeds[position])
                self.steps[row // self.paths].append(Step(members[position], probabilities[position], anchor))

    def _finish(self, points: Tensor) -> list[Inference]:
        """Label every point; what a cap left over joins the cluster with the nearest mean encoding."""
        left = (self.columns < 0) & self.present
        for row in left.any(1).nonzero().squeeze(1).tolist():
            mean_of = functional.one_hot(self.columns[row].clamp(min=0)).to(self.x.dtype)
            mean_of = mean_of * (self.columns[row] >= 0).unsqueeze(1)
            centres = (mean_of.T @ self.x[row]) / mean_of.sum(0).clamp(min=1).unsqueeze(1)
            distances = torch.cdist(self.x[row], centres).masked_fill(mean_of.sum(0) == 0, torch.inf)
            self.columns[row] = torch.where(left[row], distances.argmin(1), self.columns[row])
        labels = [compact_labels(*row) for row in zip(self.columns, self.present, strict=True)]
        capped = left[:: self.paths].any(1).tolist()
        return [
            summarized_paths(
                points[b], present, labels[b * self.paths :][: self.paths], self.steps[b], capped[b]
            )
            for b, present in enumerate(self.present[:: self.paths])
        ]
