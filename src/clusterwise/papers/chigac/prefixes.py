"""A training step of CHiGac: states that its loop could be in, and the objective there.

The order of clusters is not given by the data. So a state assigns random clusters, of which a few points were
missed as at test time, and several of the others are tried as the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.chigac.bound import TAU, Gaussian, Scene, log_likelihood, objective

if TYPE_CHECKING:
    from clusterwise.papers.chigac.chigac import CHiGacNetwork, Representations

__all__ = [
    "NextClusters",
    "Prefix",
    "central_scores",
    "direction_of_pioneers",
    "masked_mean",
    "next_clusters",
    "objectives",
    "random_prefix",
]

# Temperature of the Gumbel-Softmax that draws pioneers in training.
GUMBEL_TEMPERATURE = 0.5
# How much pioneers are central members: at twice the mean squared distance the chance is exp(-2) as large.
CENTRALITY = 2.0
# How much pioneers of easy clusters are preferred: a power of their likelihood.
EASE = 0.2
# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4


class Prefix(NamedTuple):
    """A state that the loop could be in, for each of R data sets."""

    clusters: Tensor  # (R, K, N), True for the points of each cluster, in the order of assignment
    n_assigned: Tensor  # (R,), how many of them are assigned
    left: Tensor  # (R, N), True for points in S_k, stragglers included
    sizes: Tensor  # (R, K), points of each assigned cluster that were not missed; zero for the others
    members: Tensor  # (R, S, N), true members of S clusters that may come next
    is_over: Tensor  # (R,), True where only stragglers are left

    def assigned_sums(self, sums: Tensor) -> Tensor:
        """Sums (R, K, width) of whole clusters, scaled to the points that were not missed."""
        whole = self.clusters.sum(-1).clamp(min=1)
        return sums * (self.sizes / whole).unsqueeze(-1)


def random_prefix(labels: Tensor, n_clusters: Tensor, n_states: int, generator: torch.Generator) -> Prefix:
    """Assign uniformly many true clusters of each set, 0 .. K, and miss some of their points.

    ``labels`` is (R, N), ``n_clusters`` (R,). The next cluster is one of the others, with equal chances;
    the ``n_states`` candidates are different ones where there are as many.
    """
    n_sets = len(labels)
    k_max = int(n_clusters.max())
    exists = torch.arange(k_max) < n_clusters[:, None]
    rank = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0).argsort().argsort()
    n_assigned = (torch.rand(n_sets, generator=generator) * (n_clusters + 1)).long()
    rank_of_point = rank.gather(1, labels)
    clusters = functional.one_hot(rank_of_point, k_max).transpose(1, 2).bool()
    taken = rank_of_point < n_assigned[:, None]
    missed_share = 0.1 * torch.rand(n_sets, 1, generator=generator) ** 2
    missed = torch.rand(labels.shape, generator=generator) < missed_share
    missed &= clusters.sum(-1).gather(1, rank_of_point) >= 8  # a cluster that was assigned has some points
    left = ~taken | missed
    sizes = (clusters & ~left.unsqueeze(1)).sum(-1)
    n_left = (n_clusters - n_assigned).clamp(min=1)
    next_rank = n_assigned[:, None] + torch.arange(n_states) % n_left[:, None]
    members = rank_of_point.unsqueeze(1) == next_rank.unsqueeze(-1)
    return Prefix(clusters, n_assigned, left, sizes, members, n_assigned == n_clusters)


class NextClusters(NamedTuple):
    """S clusters that may come next in each of R data sets, with a pioneer drawn in each."""

    scene: Scene
    psi: Gaussian  # (R, S, D), psi_0
    of_pioneer: Tensor  # (R, S), - KL(q(I), p(I))
    regularizer: Tensor  # (), the mean of the second term of Eq 11 as printed, times tau


def next_clusters(
    network: CHiGacNetwork, encoded: Representations, prefix: Prefix, generator: torch.Generator
) -> NextClusters:
    """The clusters that may come next, with a pioneer drawn in each and what follows from it."""
    h, members = encoded.h, prefix.members.to(encoded.h.dtype)
    sums = prefix.clusters.to(h.dtype) @ h  # (R, K, width), in the order of assignment
    direction, nobody, regularizer = direction_of_pioneers(network, h, prefix, sums)
    scores = (encoded.pioneering @ direction.unsqueeze(-1)).squeeze(-1) / TAU + encoded.central
    scores = scores.masked_fill(~prefix.left, NEVER)
    log_p = torch.log_softmax(torch.cat([scores, nobody.unsqueeze(1)], dim=1), dim=1)  # (R, N + 1)

    own_scores = central_scores(h, members)
    log_q = torch.log_softmax(own_scores, dim=-1)
    of_pioneer = (torch.exp(log_q) * members * (log_p[:, None, :-1] - log_q)).sum(-1)
    # Where only stragglers are left, the one thing to learn is that nobody is a pioneer.
    of_pioneer = torch.where(prefix.is_over.unsqueeze(1), log_p[:, -1:], of_pioneer)

    hard, pioneer = _gumbel_softmax(own_scores, generator)
    context = network.context(h, prefix.assigned_sums(sums), prefix.sizes, prefix.left)
    prior, w = network.prior(h, context, pioneer @ h, pioneer @ encoded.sphere)
    counts = prefix.left.unsqueeze(1) & ~hard.bool() & ~prefix.is_over[:, None, None]
    scene = network.scene(encoded.sphere, context, prior, members, counts.to(h.dtype))
    return NextClusters(scene, network.posterior(encoded, members, w), of_pioneer, regularizer)


def direction_of_pioneers(
    network: CHiGacNetwork, h: Tensor, prefix: Prefix, sums: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """m^k minus the mean of the earlier prototypes (R, D); the score of nobody (R,); the regularizer."""
    sizes = prefix.clusters.sum(-1, keepdim=True).to(h.dtype)
    zero = torch.zeros_like(sums[:, :1])
    before = torch.cat([zero, sums.cumsum(1)], dim=1)  # (R, K + 1, width)
    n_before = torch.cat([zero[..., :1], sizes.cumsum(1)], dim=1)
    left = before[:, -1:] - before
    n_left = n_before[:, -1:] - n_before
    # The state itself, with its stragglers, replaces the clean one.
    here = functional.one_hot(prefix.n_assigned, before.shape[1]).unsqueeze(-1).to(h.dtype)
    mean_assigned = before / n_before.clamp(min=1)
    mean_left = left / n_left.clamp(min=1)
    mean_assigned = mean_assigned + here * (masked_mean(h, ~prefix.left).unsqueeze(1) - mean_assigned)
    mean_left = mean_left + here * (masked_mean(h, prefix.left).unsqueeze(1) - mean_left)
    prototypes, nobody = network.prototypes(mean_assigned, mean_left)
    own = (here * prototypes).sum(1)
    earlier = torch.arange(before.shape[1], device=h.device) < prefix.n_assigned.unsqueeze(1)
    others = masked_mean(prototypes, earlier)
    return own - others, (here.squeeze(-1) * nobody).sum(1), (own * others).sum(-1).mean()


def objectives(
    network: CHiGacNetwork, candidates: NextClusters, prefix: Prefix, generator: torch.Generator
) -> Tensor:
    """The objective of each of the next clusters, (R, S), as the strategy prescribes."""
    config, scene, psi = network.config, candidates.scene, candidates.psi
    n_states = prefix.members.shape[1]
    shape = (config.n_inner_steps + 2, *psi.mean.shape)
    noise = torch.randn(shape, generator=generator, dtype=psi.mean.dtype).to(psi.mean.device)
    update = network.learned_update if config.inference == "iterative" else None
    bound = objective(config.inference, scene, psi, noise[:-1], config.inner_rate, update)
    bound = bound * ~prefix.is_over.unsqueeze(1)
    generated = log_likelihood(scene, scene.prior.at(noise[-1]))
    # The order of clusters is latent too: among the candidates, easy ones are the likelier next.
    ease = n_states * torch.softmax(EASE * generated.detach(), dim=1)
    if config.hybrid:
        bound = bound + generated
    return bound + ease * candidates.of_pioneer


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of values (R, N, .) where mask (R, N) is true; zero where it never is."""
    weights = mask.to(values.dtype)
    return (weights.unsqueeze(1) @ values).squeeze(1) / weights.sum(1, keepdim=True).clamp(min=1)


@torch.no_grad()
def central_scores(h: Tensor, members: Tensor) -> Tensor:
    """Scores of q(I), (R, S, N): the nearer to the mean of the ``members`` (R, S, N) in h, the higher.

    Squared distances are in units of the cluster's own mean one; points of other clusters are never drawn.
    """
    sizes = members.sum(-1, keepdim=True).clamp(min=1)
    means = members @ h / sizes
    apart = torch.cdist(means, h).square()  # (R, S, N)
    spread = (members * apart).sum(-1, keepdim=True) / sizes
    return (-CENTRALITY * apart / spread.clamp(min=1e-9)).masked_fill(members == 0, NEVER)


def _gumbel_softmax(scores: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw one point by scores (..., N): one-hot, and the same with the gradient of a soft choice."""
    uniform = torch.rand(scores.shape, generator=generator, dtype=scores.dtype).to(scores.device)
    gumbel = -torch.log(-torch.log(uniform + 1e-9) + 1e-9)
    soft = torch.softmax((scores + gumbel) / GUMBEL_TEMPERATURE, dim=-1)
    hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
    return hard, hard + soft - soft.detach()
