"""What ``amcp_revision`` decides by, with gradients: the fixed point of EM among all clusters, and its bound.

When no point is left, IntraCM goes on with a reference for each cluster and without the rest, and its bound
says whether a cluster is two. Both are part of the loss (``AMCP.loss``), or encodings in which a true
partition is no fixed point, or in which one cluster pays for two references, would cost nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.models.amcp_mixing import NEVER
from clusterwise.models.amcp_revision import AXIS_STEPS, FEWEST, PART_STEPS

__all__ = ["decision_loss", "drift_loss", "gain_of_two_parts"]

# Prices of a second reference, in nats and for each point of the smaller part. The revision asks for more:
# its own were chosen on validation data, where pairs that look like one cluster are rarer.
SPLIT_PRICE, PRICE_PER_POINT = 14.0, 0.1
# How sharply the logarithm of gain over price decides.
SHARPNESS = 3.0
# A single cluster counts more: most that the revision looks at are one.
WEIGHT_OF_ONE = 8.0
# What any decision counts beside what it costs.
LEAST_WEIGHT = 0.05
# Share of true points in a cluster that counts as one.
PURE = 0.9


def drift_loss(
    x: Tensor, labels: Tensor, n_clusters: int, precision: Tensor, n_steps: int
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of true labels (B, N) under the plan to which EM drifts from them, and the plan's labels.

    ``x`` (B, N, D) are encodings. Averaged over the steps, later ones counting more.
    """
    members = functional.one_hot(labels, n_clusters).to(x.dtype)
    own = labels.unsqueeze(2)
    plan, losses = members, []
    for _ in range(n_steps):
        mass = plan.sum(1)  # (B, K)
        means = plan.transpose(1, 2) @ x / (mass.unsqueeze(2) + 1e-6)
        shares = torch.where(mass > 1e-3, torch.log(mass.clamp(min=1e-9) / x.shape[1]), NEVER)
        offsets = shares - 0.5 * precision * means.square().sum(2)
        log_plan = torch.log_softmax(
            torch.baddbmm(offsets.unsqueeze(1), precision * x, means.transpose(1, 2)), dim=2
        )
        losses.append(-log_plan.gather(2, own).mean())
        plan = torch.exp(log_plan)
    weights = torch.arange(1, n_steps + 1, dtype=x.dtype, device=x.device)
    return torch.stack(losses) @ (weights / weights.sum()), log_plan.argmax(2)


def gain_of_two_parts(
    x: Tensor, members: Tensor, precision: Tensor, first: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What two references gain over one for ``members`` (B, N) of encodings (B, N, D), and the smaller share.

    The parts are ``first`` (B, N) and the other members or, without it, those of ``_two_parts`` of the
    revision: EM that begins on both sides of the mean, along the longest axis. These are held fixed for the
    gradient; where EM has come to rest, the gain does not depend on them.
    """
    weight = members.to(x.dtype)
    n = weight.sum(1, keepdim=True).clamp(min=1)  # (B, 1)
    mean = (weight.unsqueeze(1) @ x) / n.unsqueeze(2)
    apart = (x - mean) * weight.unsqueeze(2)  # absent ones at the mean
    if first is None:
        with torch.no_grad():
            first = _along_the_longest_axis(apart) * weight
            for _ in range(PART_STEPS):
                _, first, _ = _parts(apart, first, weight, n, precision)
    gain, _, share = _parts(apart, first.to(x.dtype), weight, n, precision)
    return gain, share


def _along_the_longest_axis(apart: Tensor) -> Tensor:
    """Give 1 to points (B, N, D) on one side of their mean, the origin, along the longest axis, else 0."""
    farthest = apart.square().sum(2).argmax(1)
    axis = apart[torch.arange(len(apart)), farthest].unsqueeze(2)  # (B, D, 1)
    for _ in range(AXIS_STEPS):
        axis = apart.transpose(1, 2) @ (apart @ axis)
        axis = axis / axis.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return ((apart @ axis).squeeze(2) > 0).to(apart.dtype)


def _parts(
    apart: Tensor, first: Tensor, weight: Tensor, n: Tensor, precision: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gain (B,) of two parts, the next weights (B, N) of the first of them, and the smaller share (B,)."""
    both = torch.stack([first, weight - first], dim=1)  # (B, 2, N)
    mass = both.sum(2).clamp(min=1e-3)
    centres = both @ apart / mass.unsqueeze(2)  # (B, 2, D)
    share = mass / n
    offsets = torch.log(share) - 0.5 * precision * centres.square().sum(2)
    scores = precision * (apart @ centres.transpose(1, 2)) + offsets.unsqueeze(1)  # (B, N, 2)
    gain = (torch.logsumexp(scores, dim=2) * weight).sum(1)
    return gain, torch.softmax(scores, dim=2)[..., 0] * weight, share.amin(1)


def decision_loss(
    x: Tensor,
    labels: Tensor,
    drifted: Tensor,
    n_clusters: Tensor,
    precision: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """Logistic loss of the decision whether a cluster is two, for true clusters and for two taken as one.

    Of each data set: the two clusters with the nearest encodings, a drawn cluster with its neighbour, and
    two drawn clusters by themselves, with the points that they have in ``drifted`` (B, N). The logit is the
    logarithm of the gain over the price; a decision counts by what it costs in ARI if it is wrong.
    """
    with torch.no_grad():
        one, other, valid = _candidates(x, labels, n_clusters, generator)  # (B, C)
        two = one != other
        true, now = labels.unsqueeze(1), drifted.unsqueeze(1)
        united = (true == one.unsqueeze(2)) | (true == other.unsqueeze(2))
        alone = now == one.unsqueeze(2)
        # A cluster that has drifted to where another is says nothing about one cluster.
        pure = (alone & (true == one.unsqueeze(2))).sum(2) > PURE * alone.sum(2)
        valid &= two | (pure & (alone.sum(2) >= FEWEST))
        members = torch.where(two.unsqueeze(2), united, alone).flatten(0, 1)[valid.flatten()]
        sets = torch.arange(len(x)).unsqueeze(1).expand_as(one)[valid]
        all_pairs = functional.one_hot(labels, int(n_clusters.max())).sum(1).square().sum(1)[sets]
        target = two[valid].to(x.dtype)
        true_part = (true == one.unsqueeze(2)).flatten(0, 1)[valid.flatten()]
    gain, share = gain_of_two_parts(x[sets], members, precision)
    share, n = share.detach(), members.sum(1)
    losses = _logistic(gain, share, n, target)
    # EM may find no two parts where there are two, and then has no gradient: the true parts have one.
    pairs = target > 0
    of_truth = gain_of_two_parts(x[sets[pairs]], members[pairs], precision, true_part[pairs])
    losses = losses.index_put((pairs,), 0.5 * (losses[pairs] + _logistic(*of_truth, n[pairs], target[pairs])))
    share = share.index_put((pairs,), of_truth[1].detach())
    weight = LEAST_WEIGHT + _cost(all_pairs, share * (1 - share) * n.square(), pairs, x.shape[1])
    weight = torch.where(pairs, weight, WEIGHT_OF_ONE * weight)
    return (weight * losses).sum() / weight.sum().clamp(min=1e-9)


def _logistic(gain: Tensor, share: Tensor, n: Tensor, target: Tensor) -> Tensor:
    """Logistic loss of the logarithm of gains over their prices; linear where nothing is gained."""
    price = (PRICE_PER_POINT * n * share.detach()).clamp(min=SPLIT_PRICE)
    of_gain = torch.where(gain > 0, torch.log1p(gain.clamp(min=0)), gain)
    logits = SHARPNESS * (of_gain - torch.log1p(price))
    return functional.binary_cross_entropy_with_logits(logits, target, reduction="none")


def _cost(together: Tensor, divided: Tensor, united: Tensor, n_points: int) -> Tensor:
    """What ARI loses if two clusters are ``united``, or a single one is cut, all (C,).

    ``together`` are the pairs of points within clusters, twice, and ``divided`` those between the two parts.
    """
    found = torch.where(united, together + 2 * divided, together - 2 * divided)
    both = torch.minimum(together, found)
    by_chance = together * found / n_points**2
    return 1 - (both - by_chance) / (0.5 * (together + found) - by_chance).clamp(min=1e-6)


def _candidates(
    x: Tensor, labels: Tensor, n_clusters: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs of clusters, the same one twice for a single one, and whether there are such, all (B, 4)."""
    k_max = int(n_clusters.max())
    one_hot = functional.one_hot(labels, k_max)  # (B, N, K)
    sizes = one_hot.sum(1)
    exists = sizes >= FEWEST
    means = one_hot.to(x.dtype).transpose(1, 2) @ x / sizes.unsqueeze(2).clamp(min=1)
    absent = ~(exists.unsqueeze(1) & exists.unsqueeze(2)) | torch.eye(k_max, dtype=torch.bool)
    nearest, neighbour = torch.cdist(means, means).masked_fill(absent, torch.inf).min(2)  # (B, K)
    by_size = torch.rand(len(x), 1, generator=generator) < 0.5
    chances = torch.where(by_size, sizes.to(x.dtype), 1.0) * exists + 1e-9
    drawn = torch.multinomial(chances, min(3, k_max), generator=generator)
    drawn = drawn[:, torch.arange(3) % drawn.shape[1]]  # (B, 3)
    one = torch.cat([nearest.argmin(1, keepdim=True), drawn], dim=1)  # (B, 4)
    other = torch.cat([neighbour.gather(1, one[:, :2]), one[:, 2:]], dim=1)
    valid = exists.gather(1, one) & exists.gather(1, other)
    valid[:, :2] &= one[:, :2] != other[:, :2]  # the only cluster has no neighbour
    return one, other, valid
