"""The cluster-wise loop of AMCP (Algorithm 1): InterCC chooses a seed, IntraCM says who joins it.

``amcp.py`` has the network, IntraCM, the objective and the readings of the paper. Here are Eqs 8-10 and the
bookkeeping: similarity of unassigned to assigned points without their matrix, the draw of a seed, the first
cluster by k-means as printed, and the loop itself for all paths through one data set, in numpy.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.models.amcp_mixing import PathsMixing
from clusterwise.models.base import Inference, Step
from clusterwise.models.paths import drawn_points, summarized_paths

__all__ = ["Loop", "first_by_k_means", "seed_logits", "similarity_to_assigned", "uniform_numbers"]

# Temperatures of Eq 10: of the dissimilarity to what is assigned, and of the log loss expected from a seed.
SIMILARITY_TEMPERATURE = 0.1
SEED_TEMPERATURE = 0.5
# Projections nearer to the middle of the cube than rounding tells count as this near.
SMALLEST_SQUARE = 1e-6


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


def seed_logits(similarity: np.ndarray, log_seed_loss: np.ndarray, unassigned: np.ndarray) -> np.ndarray:
    """Logits of Eq 10 over the points, (P, N): dissimilar to what is assigned, and a good seed."""
    logits = (1 - similarity) / SIMILARITY_TEMPERATURE - log_seed_loss / SEED_TEMPERATURE
    logits[~unassigned] = -np.inf
    return logits


class Loop:
    """Algorithm 1 for P paths through one data set of N points, all of them present."""

    def __init__(
        self,
        mixing: PathsMixing,
        log_seed_loss: np.ndarray,
        uniform: np.ndarray,
        update: bool,
        max_clusters: int,
    ) -> None:
        self.mixing, self.log_seed_loss, self.uniform = mixing, log_seed_loss, uniform
        self.update, self.max_clusters = update, max_clusters
        shape = len(uniform), len(log_seed_loss)
        self.columns = np.full(shape, -1, dtype=np.int32)  # the cluster of each point so far
        self.similarity = np.zeros(shape, log_seed_loss.dtype)
        self.steps: list[tuple[np.ndarray, np.ndarray, int | None]] = []  # of the first path, as in ``Step``
        self.cap_reached = False

    def run(self, first: np.ndarray | None) -> None:
        """Generate clusters until no point is left; ``first`` (N,) marks a cluster found otherwise."""
        k = 0
        if first is not None:
            self.columns[:, first] = 0
            self.steps.append((first, first.astype(self.log_seed_loss.dtype), None))
            k = 1
        left: np.ndarray = np.logical_or.reduce(self.columns < 0, axis=1)
        while k < self.max_clusters and left.any():
            # Most often all paths go on, and nothing needs to be copied.
            rows = slice(None) if left.all() else left.nonzero()[0]
            left[rows] = self._step(rows, k)
            k += 1
        for row in left.nonzero()[0].tolist():
            self._share_out(row)
        self.cap_reached = bool(left[0])

    def _step(self, rows: slice | np.ndarray, k: int) -> np.ndarray:
        """InterCC and IntraCM for cluster number k (from 0) of some paths; return which have points left."""
        before = self.columns[rows]
        unassigned = before < 0
        seeds = self._seeds(rows, k, unassigned)
        mixed = self.mixing.run(before, seeds, k)
        clusters, rest = mixed.scores[:, :-1], mixed.scores[:, -1]
        highest = clusters.max(axis=1)
        refused = unassigned & (rest > highest)
        # The first cluster with the highest score; argmax would go through the clusters point by point.
        countdown = np.arange(k, -1, -1, dtype=before.dtype)[:, None]
        best = k - ((clusters == highest[:, None]) * countdown).max(axis=1)
        if self.update:
            # Earlier clusters keep their points or exchange them among each other and with the new one.
            columns = np.where(refused, -1, best)
        else:
            columns = np.where(unassigned & ~refused & (best == k), k, before)
        columns[np.arange(len(seeds)), seeds] = k  # so that every step makes progress
        if isinstance(rows, slice) or rows[0] == 0:
            self.steps.append((columns[0] == k, mixed.plan[0, k] * unassigned[0], int(seeds[0])))
        self.columns[rows] = columns
        assigned = columns >= 0
        left: np.ndarray = ~np.logical_and.reduce(assigned, axis=1)
        if left.any():  # somebody will need a seed
            centres = self.mixing.centres(mixed.references)
            self.similarity[rows] = similarity_to_assigned(mixed.plan, centres, assigned)
        return left

    def _seeds(self, rows: slice | np.ndarray, k: int, unassigned: np.ndarray) -> np.ndarray:
        """A seed among the unassigned points for each path."""
        logits = seed_logits(self.similarity[rows], self.log_seed_loss, unassigned)
        return drawn_points(logits, self.uniform[rows, k])

    def _share_out(self, row: int) -> None:
        """What a cap left over joins the cluster with the nearest mean encoding."""
        x, columns = self.mixing.x, self.columns[row]
        used = np.unique(columns[columns >= 0])
        members = (columns == used[:, None]).astype(x.dtype)
        means = members @ x / members.sum(axis=1, keepdims=True)
        nearest = (0.5 * np.vecdot(means, means) - x @ means.T).argmin(axis=1)
        self.columns[row] = np.where(columns < 0, used[nearest], columns)

    def inference(self, points: Tensor, mask: Tensor) -> Inference:
        """What the paths say about ``points`` (N, d), of which ``mask`` (N,) marks the present ones."""
        present = mask.cpu().numpy().nonzero()[0]

        def everywhere(values: np.ndarray) -> Tensor:
            """Add zeros for the absent points, along the last axis."""
            if len(present) < len(points):
                values, found = np.zeros((*values.shape[:-1], len(points)), values.dtype), values
                values[..., present] = found
            return torch.from_numpy(values).to(points.device)

        steps = [
            Step(everywhere(members), everywhere(probabilities), None if seed is None else int(present[seed]))
            for members, probabilities, seed in self.steps
        ]
        return summarized_paths(points, mask, list(everywhere(self._labels())), steps, self.cap_reached)

    def _labels(self) -> np.ndarray:
        """The clusters in use of each path, numbered 0 .. K-1, (P, N)."""
        rows = np.arange(len(self.columns))[:, None]
        used = np.zeros((len(rows), self.columns.max() + 1), dtype=np.int64)
        used[rows, self.columns] = 1
        labels: np.ndarray = (used.cumsum(axis=1) - 1)[rows, self.columns]
        return labels
