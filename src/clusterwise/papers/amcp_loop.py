"""The cluster-wise loop of AMCP (Algorithm 1): InterCC chooses a seed, IntraCM says who joins it.

``amcp.py`` has the network, IntraCM, the objective and the readings of the paper. Here are Eqs 8-10 and the
bookkeeping: similarity of unassigned to assigned points without their matrix, the draw of a seed, the first
cluster by k-means as printed, and the loop itself for many paths at once, in numpy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.amcp_mixing import ABSENT, UNASSIGNED, Encodings, IntraCM, SeedWeights
from clusterwise.papers.model import Inference, Step
from clusterwise.papers.paths import drawn_points

__all__ = [
    "Loop",
    "first_by_k_means",
    "loops",
    "seed_logits",
    "shared_out",
    "similarity_in_torch",
    "similarity_to_assigned",
    "uniform_numbers",
]

# Projections nearer to the middle of the cube than rounding tells count as this near.
SMALLEST_SQUARE = 1e-6
# Points of the data sets whose clusters are generated together; more of them would only take more memory.
POINTS_AT_A_TIME = 16384


def similarity_to_assigned(plan: np.ndarray, centres: np.ndarray, assigned: np.ndarray) -> np.ndarray:
    """Column means of M (Eq 9) for every point, (P, N), without M.

    ``plan`` is (P, J, N), ``centres`` (P, J, D), ``assigned`` (P, N). With r_i the normalized barycentric
    projection sum_j q_ij centre_j, the mean over assigned a of r_a . r_i is one product with the mean of
    the r_a. All of them are combinations of the J centres, so that the products of those are enough.
    """
    centred = centres - 0.5
    products = centred @ centred.transpose(0, 2, 1)  # (P, J, J)
    squares = ((products @ plan) * plan).sum(axis=1)  # |sum_j q_ij centre_j|^2, (P, N)
    inverse_norms = 1 / np.sqrt(np.maximum(squares, SMALLEST_SQUARE))
    sums = plan @ (assigned * inverse_norms)[..., None]  # of the r_a, in terms of the centres, (P, J, 1)
    similarity = ((products @ sums).transpose(0, 2, 1) @ plan)[:, 0] * inverse_norms
    return similarity / np.maximum(assigned.sum(axis=1, keepdims=True, dtype=plan.dtype), 1)


def similarity_in_torch(plan: Tensor, centres: Tensor, assigned: Tensor) -> Tensor:
    """``similarity_to_assigned`` with gradients: ``plan`` (B, N, J), ``centres`` (B, J, D), (B, N)."""
    centred = centres - 0.5
    products = centred @ centred.transpose(1, 2)  # (B, J, J)
    projected = plan @ products  # (B, N, J)
    inverse_norms = (projected * plan).sum(2).clamp(min=SMALLEST_SQUARE).rsqrt()
    sums = (assigned * inverse_norms).unsqueeze(1) @ plan  # (B, 1, J)
    similarity = (projected @ sums.transpose(1, 2)).squeeze(2) * inverse_norms
    return similarity / assigned.sum(1, keepdim=True).clamp(min=1)


def uniform_numbers(seed: int, n_draws: int, n_steps: int) -> np.ndarray:
    """Random numbers of the seeds: one row per path; the first path takes the likeliest, marked by -1."""
    numbers = np.full((1 + n_draws, n_steps), -1, dtype=np.float32)
    if n_draws > 0:
        numbers[1:] = torch.rand(n_draws, n_steps, generator=torch.Generator().manual_seed(seed)).numpy()
    return numbers


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


def seed_logits(
    similarity: np.ndarray, log_seed_loss: np.ndarray, unassigned: np.ndarray, weights: SeedWeights
) -> np.ndarray:
    """Logits of Eq 10 for all points (P, N), -inf for those that are not ``unassigned``."""
    logits = (1 - similarity) * weights.dissimilarity - log_seed_loss * weights.expected_loss
    logits[~unassigned] = -np.inf
    return logits


def shared_out(x: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Columns (N,) after unassigned points joined the cluster with the nearest mean of encodings (N, D)."""
    used = np.unique(columns[columns >= 0])
    members = (columns == used[:, None]).astype(x.dtype)
    means = members @ x / members.sum(axis=1, keepdims=True)
    nearest = (0.5 * np.vecdot(means, means) - x @ means.T).argmin(axis=1)
    return np.where(columns == UNASSIGNED, used[nearest], columns)


class Loop:
    """Algorithm 1 for P paths at once, which go through one data set, or through one each."""

    def __init__(
        self,
        intra: IntraCM,
        points: Encodings,
        mask: np.ndarray,
        log_seed_loss: np.ndarray,
        uniform: np.ndarray,
    ) -> None:
        """``mask`` and ``log_seed_loss`` are (S, N), ``uniform`` (P, steps)."""
        self.intra, self.points, self.uniform = intra, points, uniform
        self.update = intra.options.update
        self.shared, shape = len(mask) == 1, (len(uniform), mask.shape[1])
        self.log_seed_loss = np.broadcast_to(log_seed_loss, shape)
        self.absent = None if mask.all() else np.broadcast_to(~mask, shape)
        self.columns = np.full(shape, UNASSIGNED, dtype=np.int32)  # the cluster of each point so far
        if self.absent is not None:
            self.columns[self.absent] = ABSENT
        self.similarity = np.zeros(shape, log_seed_loss.dtype)
        # What makes a ``Step``, for each path or, if they go through the same data set, for the first one.
        self.steps: list[list[tuple[np.ndarray, np.ndarray, int | None]]] = [[] for _ in mask]
        self.capped: np.ndarray = np.zeros(len(uniform), dtype=bool)

    def run(self, first: np.ndarray | None) -> None:
        """Generate clusters until no point is left; ``first`` (S, N) marks a cluster found otherwise."""
        k = 0
        if first is not None:
            self.columns[np.broadcast_to(first, self.columns.shape)] = 0
            for steps, members in zip(self.steps, first, strict=True):
                steps.append((members, members.astype(self.similarity.dtype), None))
            k = 1
        paths = np.arange(len(self.columns))
        points, left = self.points, np.logical_or.reduce(self.columns == UNASSIGNED, axis=1)
        while k < self.uniform.shape[1]:
            if not left.all():
                paths, points = paths[left], points.of_paths(left)
            if len(paths) == 0:
                return
            left = self._step(points, paths, k)
            k += 1
        for path in paths[left]:
            x = self.points.x[0 if self.shared else path]
            self.columns[path] = shared_out(x, self.columns[path])
        self.capped[paths[left]] = True

    def _step(self, points: Encodings, paths: np.ndarray, k: int) -> np.ndarray:
        """InterCC and IntraCM for cluster number k (from 0) of some paths; return which have points left."""
        # Most often all paths go on, and nothing needs to be copied.
        rows = slice(None) if len(paths) == len(self.columns) else paths
        before = self.columns[rows]
        unassigned = before == UNASSIGNED
        logits = seed_logits(
            self.similarity[rows], self.log_seed_loss[rows], unassigned, self.intra.seed_weights
        )
        seeds = drawn_points(logits, self.uniform[rows, k])
        mixed = self.intra.run(points, before, seeds, k)
        clusters, rest = mixed.scores[:, :-1], mixed.scores[:, -1]
        highest = clusters.max(axis=1)
        refused = unassigned & (rest > highest)
        # The first cluster with the highest score; argmax would go through the clusters point by point.
        countdown = np.arange(k, -1, -1, dtype=before.dtype)[:, None]
        best = k - ((clusters == highest[:, None]) * countdown).max(axis=1)
        if self.update:
            # Earlier clusters keep their points or exchange them among each other and with the new one.
            columns = np.where(refused, UNASSIGNED, best)
            if self.absent is not None:
                columns[self.absent[rows]] = ABSENT
        else:
            columns = np.where(unassigned & ~refused & (best == k), k, before)
        columns[np.arange(len(seeds)), seeds] = k  # so that every step makes progress
        self.columns[rows] = columns
        self._record(paths, columns == k, mixed.plan[:, k] * unassigned, seeds)
        left: np.ndarray = np.logical_or.reduce(columns == UNASSIGNED, axis=1)
        if left.any():  # somebody will need a seed
            centres = self.intra.centres(mixed.references)
            self.similarity[rows] = similarity_to_assigned(mixed.plan, centres, columns >= 0)
        return left

    def _record(
        self, paths: np.ndarray, members: np.ndarray, probabilities: np.ndarray, seeds: np.ndarray
    ) -> None:
        """Keep what a step did."""
        for i, path in enumerate(paths[:1] if self.shared else paths):
            if path < len(self.steps):
                self.steps[path].append((members[i], probabilities[i], int(seeds[i])))

    def inference(self, b: int, device: torch.device) -> Inference:
        """What the paths through data set b say."""
        paths = slice(None) if self.shared else slice(b, b + 1)
        columns = self.columns[paths]
        used = columns[:, None, :] == np.arange(columns.max() + 1)[:, None]  # (P, K, N)
        numbers = used.any(axis=2).cumsum(axis=1) - 1  # from 0 on, of the clusters in use
        found = torch.from_numpy(np.take_along_axis(numbers, np.maximum(columns, 0), axis=1)).to(device)
        steps = tuple(
            Step(torch.from_numpy(members).to(device), torch.from_numpy(probabilities).to(device), seed)
            for members, probabilities, seed in self.steps[b]
        )
        return Inference(found[0], steps, None, bool(self.capped[paths][0]), tuple(found[1:]))


def loops(
    intra: IntraCM,
    encodings: Tensor,
    log_seed_loss: Tensor,
    present: np.ndarray,
    first: Tensor | None,
    uniform: Sequence[np.ndarray],
) -> list[Inference]:
    """What the loop says about B data sets, with any of its options.

    ``encodings`` are (B, N, D), ``uniform`` (P, steps) of each data set, all else (B, N); ``first`` is a
    cluster found otherwise.
    """
    x, expected = encodings.cpu().numpy(), log_seed_loss.cpu().numpy()
    found = []
    # Together go the paths through one data set or, if there is one path each, several data sets.
    single = all(len(numbers) == 1 for numbers in uniform)
    at_a_time = max(1, POINTS_AT_A_TIME // max(1, x.shape[1])) if single else 1
    for start in range(0, len(x), at_a_time):
        sets = slice(start, start + at_a_time)
        points = Encodings.of(x[sets], present[sets], intra.precision)
        loop = Loop(intra, points, present[sets], expected[sets], np.concatenate(uniform[sets]))
        loop.run(None if first is None else first[sets].cpu().numpy())
        found += [loop.inference(b, encodings.device) for b in range(len(x[sets]))]
    return found
