"""What DAC may do when no point is left: divide and unite clusters by the likelihood of its own densities.

A pass takes what it is sure of, and nothing puts it right later: two clusters side by side go as one, and
points between two clusters to the one that comes first. But the network says what a cluster is, theta, of any
set of points, and a mixture of these densities judges the whole partition:

    L = sum_i log sum_j n_j/n p(x_i; theta_j)      theta_j from a pass over the points of cluster j alone

1. Points go to the cluster with the largest n_j p(x_i; theta_j), and theta is asked for again, a few times.
2. Each cluster is cut in two across its longest axis; both parts settle in the same way. It stays two if L
   rises by more than a price.
3. Two neighbours become one if L falls by less than the price.

Nothing of this is in the paper. It is hard EM with the network as the M-step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from clusterwise.nn.densities import diagonal_gaussian_log_density

if TYPE_CHECKING:
    from clusterwise.papers.dac import DAC

__all__ = ["PRICE", "revised"]

# Nats by which L must rise for one more cluster, at least; and for each point of its smaller part.
PRICE, PRICE_PER_POINT = 16.0, 0.2
# Rounds in which the points settle: all of them, and those of a cluster in two parts.
ROUNDS, PART_ROUNDS = 2, 3
# How often clusters that came out of a cut are cut again.
CUTS = 3
# Neighbours: each cluster with the nearest, and all that are nearer than this; squared distance of the means
# over the sum of variances.
FAR_APART = 12.0
# Clusters are described in this many batches, by size, so that less of them is padding.
BATCHES = 2


class Mixture(NamedTuple):
    """Densities of K clusters."""

    means: Tensor  # (K, d)
    log_sds: Tensor  # (K, d)
    log_shares: Tensor  # (K,); -inf for a cluster without points

    def log_joint(self, points: Tensor) -> Tensor:
        """log n_j/n p(x; theta_j), (n, K), of points (n, d)."""
        return self.log_shares + diagonal_gaussian_log_density(points.unsqueeze(1), self.means, self.log_sds)


def revised(
    network: DAC, points: Tensor, labels: Tensor, max_clusters: int, price: float = PRICE
) -> tuple[Tensor, bool]:
    """Labels (n,) of points (n, d) after cuts and unions, from 0 on; whether a cap stood in the way."""
    capped = False
    labels = _settled(network, points, labels)
    for _ in range(CUTS):
        cut = _cut(network, points, labels, price)
        capped = cut is not None and int(cut.max()) >= max_clusters
        if cut is None or capped:
            break
        labels = _settled(network, points, cut)
    labels = _united(network, points, labels, price)
    return _compact(_described(network, points, labels).log_joint(points).argmax(1)), capped


def _compact(labels: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1."""
    return torch.unique(labels, return_inverse=True)[1]


def _described(network: DAC, points: Tensor, labels: Tensor, n_names: int = 0) -> Mixture:
    """What the network says of each cluster by its members alone; a name without members has no share."""
    sizes = torch.bincount(labels, minlength=n_names)
    order = labels.argsort(stable=True)
    sets = points[order].split(sizes.tolist())
    means = points.new_zeros(len(sizes), points.shape[1])
    log_sds = torch.zeros_like(means)
    used = sizes.argsort()
    for batch in used[sizes[used] > 0].tensor_split(BATCHES):
        if len(batch) > 0:
            padded = nn.utils.rnn.pad_sequence([sets[j] for j in batch.tolist()], batch_first=True)
            mask = torch.arange(padded.shape[1], device=points.device) < sizes[batch, None]
            means[batch], log_sds[batch] = network.describe(padded, mask)
    return Mixture(means, log_sds, torch.log(sizes / len(labels)))


def _settled(network: DAC, points: Tensor, labels: Tensor) -> Tensor:
    """Points go where they are likeliest, a few times."""
    for _ in range(ROUNDS):
        labels = _described(network, points, labels := _compact(labels)).log_joint(points).argmax(1)
    return _compact(labels)


def _cut(network: DAC, points: Tensor, labels: Tensor, price: float) -> Tensor | None:
    """Labels after every cluster that is better as two was cut, or None if there is none."""
    rows, k = torch.arange(len(labels), device=points.device), int(labels.max()) + 1
    whole = _described(network, points, labels)
    as_one = whole.log_joint(points)[rows, labels] - whole.log_shares[labels]
    second = _beyond_the_middle(points, labels, k)
    for step in range(PART_ROUNDS + 1):
        parts = _described(network, points, 2 * labels + second, 2 * k)
        of_parts = parts.log_joint(points).unflatten(1, (-1, 2))[rows, labels]
        if step < PART_ROUNDS:
            second = of_parts.argmax(1)
    of_parts = torch.logsumexp(of_parts, dim=1) - whole.log_shares[labels]
    gains = points.new_zeros(k).index_add_(0, labels, of_parts - as_one)
    in_second = torch.bincount(labels, second, minlength=k)
    smaller = torch.minimum(in_second, torch.bincount(labels, minlength=k) - in_second)
    better = (gains > torch.clamp(PRICE_PER_POINT * smaller, min=price)) & (smaller > 0)
    if not better.any():
        return None
    return _compact(torch.where(better[labels], 2 * labels + second, 2 * labels))


def _beyond_the_middle(points: Tensor, labels: Tensor, k: int) -> Tensor:
    """Which points (n,), 0 or 1, lie beyond the mean of their cluster along its longest axis."""
    members = nn.functional.one_hot(labels, k).to(points.dtype)  # (n, K)
    means = members.T @ points / members.sum(0).unsqueeze(1)
    apart = points - means[labels]
    scatter = torch.einsum("nk,ni,nj->kij", members, apart, apart)
    longest = torch.linalg.eigh(scatter)[1][..., -1]
    return ((apart * longest[labels]).sum(1) > 0).to(labels.dtype)


def _united(network: DAC, points: Tensor, labels: Tensor, price: float) -> Tensor:
    """Labels after the cheapest unions, one after the other, as long as they cost less than the price."""
    while int(labels.max()) > 0:
        mixture = _described(network, points, labels)
        squared = (mixture.means.unsqueeze(1) - mixture.means).square()
        variances = torch.exp(2 * mixture.log_sds)
        distances = (squared / (variances.unsqueeze(1) + variances)).sum(2)
        distances.fill_diagonal_(torch.inf)
        near = distances < FAR_APART
        near |= nn.functional.one_hot(distances.argmin(1), len(near)).bool()
        pairs = torch.triu(near | near.T).nonzero()
        joint = mixture.log_joint(points)
        evidence = torch.logsumexp(joint, dim=1)
        costs = []
        of_pairs = _described_together(network, points, labels, pairs)
        for (one, other), log_joint in zip(pairs.tolist(), of_pairs.log_joint(points).T, strict=True):
            without = joint.clone()
            without[:, one], without[:, other] = log_joint, -torch.inf
            costs.append(float((evidence - torch.logsumexp(without, dim=1)).sum()))
        cheapest = min(range(len(costs)), key=costs.__getitem__)
        one, other = pairs[cheapest].tolist()
        smaller = float(torch.exp(mixture.log_shares[[one, other]].min())) * len(labels)
        if costs[cheapest] >= max(price, PRICE_PER_POINT * smaller):
            break
        labels = _compact(torch.where(labels == other, one, labels))
    return labels


def _described_together(network: DAC, points: Tensor, labels: Tensor, pairs: Tensor) -> Mixture:
    """What the network says of pairs (P, 2) of clusters as one; shares are those of both."""
    inside = (labels == pairs[:, :1]) | (labels == pairs[:, 1:])  # (P, n)
    of_pair, rows = inside.nonzero(as_tuple=True)
    mixture = _described(network, points[rows], of_pair)
    return mixture._replace(log_shares=torch.log(inside.sum(1) / len(labels)))
