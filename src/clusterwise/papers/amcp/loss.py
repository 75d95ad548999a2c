"""Objective of AMCP (Eq 11) at random states of its loop, and what is learned of splits and merges.

The states are drawn from labelled data sets (``random_state``), and the EM steps are unrolled. Of splits and
merges there are two losses:

- *densities:* the likelihood of a whole true cluster, from a random part of it, from all of it with a few
  points of its neighbour, or of two neighbours taken as one (``density_loss``);
- *judge:* logistic loss of the decisions that come up when the loop's clusters of a data set are revised. In
  half of the data sets the truth decides what happens next, in the others the judge as it is now, so that it
  learns from states that it will meet. A decision counts by the pairs of points that it puts right or wrong,
  which is what the adjusted Rand index counts (``judge_loss``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.amcp.mixing import (
    NEVER,
    UNASSIGNED,
    Encodings,
    e_step,
    intra_cluster_mixing,
    log_evidence,
    mixing_of_columns,
    seed_logits,
    similarity_to_assigned,
)
from clusterwise.papers.amcp.revision import (
    ClusterJudge,
    GroupTruth,
    Points,
    context_of,
    moments_of,
    revise_partitions,
)
from clusterwise.papers.model import TrainingTask

if TYPE_CHECKING:
    from clusterwise.papers.amcp.network import AMCPNetwork

__all__ = ["LoopState", "density_loss", "judge_loss", "loop_loss", "random_state", "revision_loss"]

# Weight of the bound per coordinate; the cross-entropy does the work, this keeps encodings compact.
BOUND_WEIGHT = 0.02
# Weight of the head that predicts the loss of a seed; it shares no parameter with the rest.
HEAD_WEIGHT = 0.1
# Weight of the choice of the next seed.
SEED_WEIGHT = 0.1
# Losses below this are all the same to the head; none is larger than that of "never", whatever it predicts.
MIN_LOSS, MAX_LOG_LOSS = 0.01, math.log(-NEVER)
# True clusters of a data set that a training step looks at.
N_EXAMPLES = 6
# Shares of these that are seen in part, with some of a neighbour's points, and with all of them.
IN_PART, WITH_SOME, WITH_ALL = 0.33, 0.2, 0.2
# Share of a neighbour's points that are some of them.
SOME = 0.05
# A log density is no lower than this for the average point of a cluster.
MIN_LOG_DENSITY = -50.0
# What any decision counts, besides the share of pairs that it decides.
MIN_WEIGHT = 0.02


# -- the cluster-wise loop ---------------------------------------------------------------------------


class LoopState(NamedTuple):
    """What is assigned in each of B data sets, where the next cluster starts, and what should come out."""

    columns: Tensor  # (B, N), the cluster of each point so far, 0 .. k - 1, or UNASSIGNED
    target: Tensor  # (B, N), the column that each point should get; k: the new cluster, k + 1: the rest
    seeds: Tensor  # (B,)
    k: int


def loop_loss(network: AMCPNetwork, task: TrainingTask, generator: torch.Generator) -> Tensor:
    """Eq 11, averaged over points, states and EM steps; later steps count more."""
    config = network.config
    encodings, expected = network.encode(task.points, None)
    of_state = torch.arange(len(task.points)).repeat_interleave(config.n_states)
    encodings, expected = encodings.rows(of_state), expected[of_state]
    labels, n_clusters, points = task.labels[of_state], task.n_clusters[of_state], task.points[of_state]
    state = random_state(labels, n_clusters, generator, points, config.merged_share)
    path = intra_cluster_mixing(network, encodings, state.columns, state.seeds, state.k)
    own = state.target.unsqueeze(1)  # the column that each point should get
    of_step = [-mixing.log_plan.gather(1, own).squeeze(1).mean(1) for mixing in path]
    weights = torch.arange(1, len(path) + 1, dtype=expected.dtype)
    of_columns = (torch.stack(of_step, dim=1) @ (weights / weights.sum())).mean()
    # Eq 4: it draws encodings to their references.
    bound = log_evidence(network, encodings, path[-1]).mean() / encodings.x.shape[-1]
    errors = expected.gather(1, state.seeds.unsqueeze(1)).squeeze(1) - torch.log(
        of_step[-1].detach() + MIN_LOSS
    )
    fresh = (state.columns.gather(1, state.seeds.unsqueeze(1)) == UNASSIGNED).squeeze(1)
    of_head = (errors.square() * fresh).sum() / fresh.sum().clamp(min=1)
    of_seed = seed_loss(network, encodings, expected.detach(), state)
    return of_columns - BOUND_WEIGHT * bound + HEAD_WEIGHT * of_head + SEED_WEIGHT * of_seed


def seed_loss(network: AMCPNetwork, points: Encodings, expected: Tensor, state: LoopState) -> Tensor:
    """Minus the log of the chance that a right cluster comes out of a drawn seed, averaged over states.

    That is the sum of the seeds' probabilities over points of clusters not yet taken, each times
    exp(-loss), the likelihood that the head predicts for its cluster; ``expected`` (B, N) is its log loss.
    """
    left = state.columns == UNASSIGNED
    right = left & (state.target >= state.k)
    log_seeds = log_seed_probabilities(network, points, expected, state.columns, state.k)
    log_likelihood = -torch.exp(expected.clamp(max=MAX_LOG_LOSS))
    chance = torch.logsumexp((log_seeds + log_likelihood).masked_fill(~right, NEVER), dim=1)
    some = right.any(1)  # where two clusters are one, nothing is left
    return -(chance * some).sum() / some.sum().clamp(min=1)


def log_seed_probabilities(
    network: AMCPNetwork, points: Encodings, expected: Tensor, columns: Tensor, k: int
) -> Tensor:
    """Eqs 8-10: log probability of each point (B, N) as the next seed, from columns as a step leaves them."""
    mixing = mixing_of_columns(network, points, columns, k)
    plan = torch.exp(e_step(network, points, mixing))
    similarity = similarity_to_assigned(plan, network.decoder(mixing.references), columns != UNASSIGNED)
    return torch.log_softmax(seed_logits(network, similarity, expected, columns == UNASSIGNED), dim=1)


def random_state(
    labels: Tensor, n_clusters: Tensor, generator: torch.Generator, points: Tensor, merged_share: float = 0.0
) -> LoopState:
    """A state that the loop could be in, for labels (B, N) of points (B, N, d).

    Some true clusters are assigned, uniformly many, but some of their points were missed; a seed is
    drawn among the points of the other clusters, by point or by cluster. The target is the column that each
    point should get: its assigned cluster, the seed's cluster (column k) or the rest (column k + 1).

    In ``merged_share`` of the states all clusters are assigned, but the seed's is one with its neighbour: a
    loop that took two clusters for one has to put that right.
    """
    n_sets, n_points = labels.shape
    k_max = int(n_clusters.max())
    one_hot = functional.one_hot(labels, k_max)
    sizes = one_hot.sum(1)  # (B, K)
    exists = torch.arange(k_max) < n_clusters[:, None]

    def uniform(n: int) -> Tensor:
        return torch.rand(n_sets, n, generator=generator)

    order = uniform(k_max).masked_fill(~exists, 2.0)
    n_assigned = (uniform(1) * n_clusters[:, None]).long()  # 0 .. K-1
    merged = torch.zeros(n_sets, 1, dtype=torch.bool)
    if merged_share > 0:
        merged = (uniform(1) < merged_share) & (n_clusters[:, None] > 1)
        distance, neighbour = nearest_clusters(points, one_hot)
        # Half of them the two clusters that are nearest to each other, half any with its neighbour.
        by_chance = uniform(1) < 0.5
        lost = torch.where(by_chance, uniform(k_max).masked_fill(~exists, 2.0), distance).argmin(
            1, keepdim=True
        )
        last = merged & (torch.arange(k_max) == lost)
        order = torch.where(last, 1.5, order)  # of those that exist
        n_assigned = torch.where(merged, n_clusters[:, None] - 1, n_assigned)
    rank = order.argsort().argsort()
    k = int(n_assigned.max())
    rank_of_point = rank.gather(1, labels)
    taken = rank_of_point < n_assigned
    # Seeds: half of the states draw a point, half a cluster first, or tiny clusters were never seen.
    size_of_own = sizes.to(torch.float32).gather(1, labels)
    by_cluster = uniform(1) < 0.5
    seeds = torch.multinomial(
        torch.where(by_cluster, 1.0 / size_of_own, 1.0) * ~taken, 1, generator=generator
    )
    in_new = labels == labels.gather(1, seeds)
    target = torch.where(taken, rank_of_point, torch.where(in_new, k, k + 1))
    missed = uniform(n_points) < 0.1 * uniform(1) ** 2
    missed &= (size_of_own >= 8) & ~merged  # a cluster that was assigned has some points
    columns = torch.where(taken & ~missed, rank_of_point, UNASSIGNED)
    if bool(merged.any()):
        taker = rank.gather(1, neighbour.gather(1, lost))
        columns = torch.where(merged & in_new, taker, columns)
    return LoopState(columns, target, seeds.squeeze(1), k)


def nearest_clusters(points: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
    """Distance of each cluster's mean to the nearest other one, and which that is, both (B, K).

    ``members`` (B, N, K) are one or zero; of clusters without points the distance is infinite.
    """
    sizes = members.sum(1)
    means = members.to(points.dtype).transpose(1, 2) @ points / sizes.unsqueeze(-1).clamp(min=1)
    absent = sizes == 0
    none = absent[:, None, :] | absent[:, :, None] | torch.eye(sizes.shape[1], dtype=torch.bool)
    distance, neighbour = torch.cdist(means, means).masked_fill(none, torch.inf).min(2)
    return distance, neighbour


# -- splits and merges -------------------------------------------------------------------------------


def revision_loss(
    network: AMCPNetwork, judge: ClusterJudge, task: TrainingTask, generator: torch.Generator
) -> Tensor:
    """Densities of clusters, and decisions on the way from what the loop finds.

    The points are taken as they are: an encoder before the network would make clusters denser without end.
    """
    points = task.points.detach()
    # Half of the data sets: decisions are more expensive than densities.
    some = slice(math.ceil(len(points) / 2))
    present = torch.ones_like(task.labels[some], dtype=torch.bool)
    cap = 2 * int(task.n_clusters.max()) + 2
    found = network.infer(points[some], present, max_clusters=cap, revise=False)
    labels = torch.stack([one.labels for one in found])
    of_judge = judge_loss(judge, points[some], task.labels[some], labels)
    return density_loss(judge, points, task.labels, generator) + of_judge


def density_loss(judge: ClusterJudge, x: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Minus the log-likelihood of the average point of a true cluster, from what is seen of it."""
    points = Points.of(x, torch.ones_like(labels, dtype=torch.bool))
    members = functional.one_hot(labels)
    seen, meant = examples(x, members, generator)  # (B, C, N)
    context = context_of(moments_of(points, members.transpose(1, 2).double()))
    _, coefficients = judge.decode(moments_of(points, seen), context)
    of_points = coefficients @ points.monomials.transpose(1, 2)
    average = (of_points * meant).sum(2) / meant.sum(2).clamp(min=1)
    some = seen.sum(2) >= 2
    return -(average.clamp(min=MIN_LOG_DENSITY) * some).sum().to(x.dtype) / some.sum().clamp(min=1)


def judge_loss(judge: ClusterJudge, x: Tensor, labels: Tensor, found: Tensor) -> Tensor:
    """Logistic loss of decisions on the way from the labels ``found`` to the true ones, both (B, N)."""
    sizes = functional.one_hot(labels).sum(1)  # (B, K)
    caps = 2 * (sizes > 0).sum(1) + 2
    truth = GroupTruth(labels, torch.arange(len(x)) % 2 == 0)
    present = torch.ones_like(labels, dtype=torch.bool)
    decisions = revise_partitions(judge, x, present, found, caps, truth=truth)[2]
    if not decisions:  # nothing to cut and nothing to merge
        return x.new_zeros(())
    evidence, apart, n_pairs, of_set = (torch.cat(parts) for parts in zip(*decisions, strict=True))
    share = (n_pairs / sizes.square().sum(1)[of_set]).clamp(max=1) + MIN_WEIGHT
    weight = share * (2 * apart - 1).abs()
    target = (apart > 0.5).to(evidence)
    losses = functional.binary_cross_entropy_with_logits(judge.logits(evidence), target, reduction="none")
    return ((weight * losses).sum() / weight.sum().clamp(min=MIN_WEIGHT)).to(x.dtype)


def examples(points: Tensor, members: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """What is seen of some true clusters, and the points that are meant by it, both (B, C, N).

    ``members`` (B, N, K) are those of the true clusters, some of which may be empty.
    """
    sizes, by_cluster = members.sum(1), members.transpose(1, 2).double()
    drawn = torch.multinomial((sizes >= 2) + 1e-9, N_EXAMPLES, replacement=True, generator=generator)
    neighbour = nearest_clusters(points, members)[1]
    rows = torch.arange(len(points)).unsqueeze(1)
    own, other = by_cluster[rows, drawn], by_cluster[rows, neighbour.gather(1, drawn)]
    kind = torch.rand(drawn.shape, generator=generator).unsqueeze(2)
    kept = 0.1 + 0.9 * torch.rand(drawn.shape, generator=generator).unsqueeze(2)
    part = own * (torch.rand(own.shape, generator=generator) < kept)
    some = other * (torch.rand(own.shape, generator=generator) < SOME)
    both = torch.maximum(own, other)
    united = kind > 1 - WITH_ALL
    seen = torch.where(kind < IN_PART, part, torch.where(united, both, own))
    with_some = ~united & (kind > 1 - WITH_ALL - WITH_SOME)
    return torch.where(with_some, torch.maximum(own, some), seen), torch.where(united, both, own)
