"""Algorithm 1 of AMCP: seed a cluster by coupling, mix, take it out, until no point is left.

``network`` has the equations of both steps, InterCC and IntraCM, and the readings of the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.model import Step, compact_labels, drawn_points

if TYPE_CHECKING:
    from clusterwise.papers.amcp.network import AMCPNetwork, Encodings

__all__ = [
    "ABSENT",
    "NEVER",
    "UNASSIGNED",
    "Paths",
    "columns_of",
    "first_by_k_means",
    "generate_clusters",
    "similarity_to_assigned",
    "uniform_numbers",
    "with_nearest",
]

# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4
# Columns of points that belong to no cluster.
UNASSIGNED, ABSENT = -1, -2
# Projections nearer to the middle of the cube than rounding tells count as this near.
MIN_SQUARE = 1e-6


class Paths(NamedTuple):
    """What P paths of the loop lead to."""

    labels: Tensor  # (P, N), 0 .. K-1
    capped: Tensor  # (P,) bool, whether there would have been more clusters
    steps: list[list[Step]]


def generate_clusters(
    network: AMCPNetwork, points: Encodings, log_seed_loss: Tensor, columns: Tensor, uniform: Tensor
) -> Paths:
    """Algorithm 1 for P paths at once: one cluster after the other until no point is left, or to the cap.

    ``columns`` (P, N) are UNASSIGNED, ABSENT or 0 for a first cluster that was found otherwise; ``uniform``
    (P, steps) draw the seeds, or take the likeliest where they are below zero.
    """
    everything, present = points, columns != ABSENT
    final = columns.clone()
    steps: list[list[Step]] = [[] for _ in columns]
    similarity, paths = torch.zeros_like(log_seed_loss), torch.arange(len(columns), device=columns.device)
    k = int(columns.max()) + 1
    for path, members in enumerate(columns == 0 if k > 0 else ()):
        steps[path].append(Step(members, members.to(similarity.dtype)))
    left = (columns == UNASSIGNED).any(1)
    while k < uniform.shape[1]:
        if not bool(left.all()):  # some paths have come to their end
            final[paths] = columns
            points, paths, columns = points.rows(left), paths[left], columns[left]
            log_seed_loss, similarity, uniform = log_seed_loss[left], similarity[left], uniform[left]
        if len(paths) == 0:
            break
        unassigned = columns == UNASSIGNED
        seeds = drawn_points(network.seed_logits(similarity, log_seed_loss, unassigned), uniform[:, k])
        mixing = network.intra_cluster_mixing(points, columns, seeds, k)[-1]
        plan = torch.exp(mixing.log_plan)
        columns = columns_of(mixing.log_plan, columns, seeds, network.config.update)
        step = (columns == k, plan[:, k] * unassigned, seeds.tolist())
        for path, *of_path in zip(paths.tolist(), *step, strict=True):
            steps[path].append(Step(*of_path))
        left = (columns == UNASSIGNED).any(1)
        similarity = similarity_to_assigned(plan, network.decoder(mixing.references), columns >= 0)
        k += 1
    final[paths] = columns
    capped = (final == UNASSIGNED).any(1)
    for path in capped.nonzero().flatten().tolist():
        final[path] = with_nearest(everything.x[path], final[path])
    labels = [compact_labels(own, there) for own, there in zip(final, present, strict=True)]
    return Paths(torch.stack(labels), capped, steps)


def columns_of(log_plan: Tensor, columns: Tensor, seeds: Tensor, update: bool) -> Tensor:
    """Columns (P, N) after a step with the plan q, (P, k + 2, N): who joins the new cluster k, who moves.

    With ``update`` earlier clusters keep their points or exchange them among each other and with the new one.
    """
    k = log_plan.shape[1] - 2
    (highest, best), rest = log_plan[:, :-1].max(dim=1), log_plan[:, -1]
    unassigned = columns == UNASSIGNED
    refused = unassigned & (rest > highest)
    moves = columns != ABSENT if update else unassigned & (best == k)
    after = torch.where(moves & ~refused, best, columns)
    return after.scatter(1, seeds.unsqueeze(1), k)  # so that every step makes progress


def similarity_to_assigned(plan: Tensor, centres: Tensor, assigned: Tensor) -> Tensor:
    """Column means of M (Eq 9) for every point, (P, N), without M.

    ``plan`` is (P, J, N), ``centres`` (P, J, D), ``assigned`` (P, N). With r_i the normalized barycentric
    projection sum_j q_ij centre_j, the mean over assigned a of r_a . r_i is one product with the mean of
    the r_a. All of them are combinations of the J centres, so that the products of those are enough.
    """
    centred = centres - 0.5
    projected = (centred @ centred.transpose(1, 2)) @ plan  # (P, J, N)
    inverse_norms = (projected * plan).sum(1).clamp(min=MIN_SQUARE).rsqrt()  # (P, N)
    sums = plan @ (assigned * inverse_norms).unsqueeze(2)  # of the r_a, in terms of the centres, (P, J, 1)
    similarity = (projected * sums).sum(1) * inverse_norms
    return similarity / assigned.sum(1, keepdim=True).clamp(min=1)


def with_nearest(x: Tensor, columns: Tensor) -> Tensor:
    """Columns (N,) after unassigned points joined the cluster with the nearest mean of encodings (N, D)."""
    used = columns[columns >= 0].unique()
    members = (columns == used.unsqueeze(1)).to(x.dtype)
    means = members @ x / members.sum(1, keepdim=True)
    return torch.where(columns == UNASSIGNED, used[torch.cdist(x, means).argmin(1)], columns)


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


def uniform_numbers(seed: int, n_draws: int, n_steps: int) -> Tensor:
    """Random numbers of the seeds: one row per path; the first path takes the likeliest, marked by -1."""
    drawn = torch.rand(n_draws, n_steps, generator=torch.Generator().manual_seed(seed))
    return torch.cat([torch.full((1, n_steps), -1.0), drawn])
