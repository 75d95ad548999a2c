"""After the passes of DAC: a search among partitions by the likelihood of its own densities.

A pass takes the points that it is sure of, and nothing in the paper corrects it later: two clusters side by
side go as one, and points between two clusters to the one that comes first. But the network has a density
p(x; theta) for any set of points, by these points alone: a Gaussian or, with ``density = "flow"``, a
normalizing flow. So a partition of n points is a mixture of K densities, and the search changes it as long as

    sum_i log sum_k n_k/n p(x_i; theta_k)

grows by more than the price of its clusters. It is a hard EM with the network as its M-step:

=====================================================================  ====================================
points go to the cluster with the largest n_k p(x_i; theta_k)          ``reassigned``
pairs that one density describes as well merge                         ``merged``
Gaussians: clusters fall into two parts across their longest axis      ``split``
flows: clusters without which the others do as well are left out       ``without_idle``
flows: clusters of several starts, and branches of trees, in one pool  ``pooled``
=====================================================================  ====================================

A price grows with the number of points because no density is exact: two describe a cluster better than one
does, by about as much for each of its points. This is also why flows are not split: two halves of an arc are
always described better than the arc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist, squareform
from torch import Tensor
from torch.nn import functional

from clusterwise.nn.densities import ClusterFlow, diagonal_gaussian_log_density
from clusterwise.nn.flow_clusters import to_numpy

if TYPE_CHECKING:
    from clusterwise.papers.dac.dac import DACNetwork

__all__ = [
    "branches",
    "compact",
    "members_of_labels",
    "regrouped_flows",
    "regrouped_gaussians",
    "some_members",
]

# Members that a density is made from.
MAX_MEMBERS = 192
# What an arc has: place (2), half-axes (2), direction, where on the ellipse and how far along it, thickness.
FLOW_PARAMETERS = 8
# Nats per point that a cluster has to bring besides. Flows of true clusters are 0.1 below the true density.
FLOW_MISFIT = 0.08
# The same for Gaussians: nats that a cluster has to bring, at least, and for each of its points.
GAUSSIAN_PRICE, GAUSSIAN_PRICE_PER_POINT = 16.0, 0.2
# Clusters of fewer points than this are outliers of the others.
MIN_POINTS = 8
EM_STEPS = 3
MAX_SPLITS = 3
MIN_GAIN = 0.5  # in nats, of another step of EM
PAIRS_PER_CLUSTER = 1  # that may merge
SHARE_STEPS, MIN_SHARE = 2, 1e-12
# Mutual reachability distances are those of HDBSCAN with this neighbour.
CORE_NEIGHBOUR = 5
# Divisions of each tree that count, from the top, and the smallest part of one: points, and a share.
MAX_DIVISIONS, MIN_PART, MIN_PART_SHARE = 12, 8, 0.03
CERTAIN = 1 - 1e-6  # memberships above count as this: no logarithm of nothing
# Clusters are described in this many batches, by size, so that less of them is padding.
BATCHES = 2


# -- densities ---------------------------------------------------------------------------------------


class Densities(NamedTuple):
    """The densities that a network makes from members, and what a cluster costs."""

    log_density: Callable[[Tensor], Tensor]  # (n, K) of all points by the members (K, n) of clusters
    price: Callable[[Tensor], Tensor]  # of clusters by their numbers of points


def flow_densities(flow: ClusterFlow, points: Tensor) -> Densities:
    """Flows by members of points (n, d), whose order must be a random one."""

    def log_density(belongs: Tensor) -> Tensor:
        index, mask = some_members(belongs)
        return flow.log_density(points.expand(len(index), -1, -1), points[index], mask).T

    n = len(points)
    price = 0.5 * FLOW_PARAMETERS * math.log(max(2, n)) + FLOW_MISFIT * n
    return Densities(log_density, lambda sizes: torch.full_like(sizes, price, dtype=points.dtype))


def gaussian_densities(network: DACNetwork, points: Tensor) -> Densities:
    """Gaussians by members of points (n, d)."""

    def log_density(belongs: Tensor) -> Tensor:
        means = points.new_zeros(len(belongs), points.shape[1])
        log_sds = torch.zeros_like(means)
        sizes = belongs.sum(1)
        by_size = sizes.argsort()
        for batch in by_size[sizes[by_size] > 0].tensor_split(BATCHES):
            if len(batch) > 0:
                index, mask = some_members(belongs[batch], len(points))
                means[batch], log_sds[batch] = network.describe(points[index], mask)
        return diagonal_gaussian_log_density(points.unsqueeze(1), means, log_sds)

    def price(sizes: Tensor) -> Tensor:
        return (GAUSSIAN_PRICE_PER_POINT * sizes).clamp(min=GAUSSIAN_PRICE)

    return Densities(log_density, price)


def some_members(belongs: Tensor, max_members: int = MAX_MEMBERS) -> tuple[Tensor, Tensor]:
    """Places (K, m) of members of K clusters, and a mask (K, m); ``belongs`` is (K, n)."""
    sizes = belongs.sum(1)
    width = min(max_members, int(sizes.max()))
    index = (~belongs).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    return index, torch.arange(width, device=belongs.device) < sizes.unsqueeze(1)


def members_of_labels(labels: Tensor) -> Tensor:
    """Members (K, n), bool, of the K clusters in ``labels`` (n,)."""
    return functional.one_hot(labels).T.bool()


def compact(labels: Tensor) -> Tensor:
    """Labels with the clusters in use numbered from 0 on."""
    return torch.unique(labels, return_inverse=True)[1]


# -- the search --------------------------------------------------------------------------------------


class DensityMixture(NamedTuple):
    """A partition of n points and the mixture of its clusters."""

    labels: Tensor  # (n,) from 0 to K - 1, all in use
    joint: Tensor  # (n, K) log n_k/n p(x_i; theta_k)
    log_likelihood: float

    @property
    def sizes(self) -> Tensor:
        """Points of each cluster, (K,)."""
        return torch.bincount(self.labels)


@torch.inference_mode()
def regrouped_gaussians(
    network: DACNetwork, points: Tensor, labels: Tensor, max_clusters: int
) -> tuple[Tensor, bool]:
    """Labels (n,) after splits and merges of those of points (n, d), and whether a cap was in the way."""
    densities, capped = gaussian_densities(network, points), False
    best = reassigned(densities, mixture_of(densities, labels))
    for _ in range(MAX_SPLITS):
        divided = split(densities, best, points)
        capped = divided is not None and int(divided.max()) >= max_clusters
        if divided is None or capped:
            break
        best = reassigned(densities, mixture_of(densities, divided))
    return compact(merged(densities, best).joint.argmax(1)), capped


@torch.inference_mode()
def regrouped_flows(
    flow: ClusterFlow, points: Tensor, starts: Sequence[Tensor], max_clusters: int
) -> tuple[Tensor, bool]:
    """Labels (n,) by searches from partitions (n,) of points (n, d), and whether a cap was in the way.

    What one search misses another one may have: the last one starts from the clusters of all of them and from
    the branches of trees.
    """
    densities = flow_densities(flow, points)
    found = [searched(densities, labels) for labels in starts]
    pool = torch.cat([*(members_of_labels(one.labels) for one in found), branches(points)])
    start, capped = pooled(densities, pool, max_clusters)
    best = found[0]
    for one in (*found[1:], searched(densities, start)):
        best = one if gain(densities, one, best) > 0 else best
    return without_tiny(best), capped


def split(densities: Densities, whole: DensityMixture, points: Tensor) -> Tensor | None:
    """Labels (n,) after every cluster that is better as two was split, or None if there is none."""
    labels, k = whole.labels, whole.joint.shape[1]
    rows = torch.arange(len(labels), device=labels.device)
    second = _beyond_the_middle(points, labels, k)
    for step in range(EM_STEPS + 1):
        belongs = functional.one_hot(2 * labels + second, 2 * k).T.bool()
        of_parts = joint_of(densities, belongs).unflatten(1, (-1, 2))[rows, labels]
        if step < EM_STEPS:
            second = of_parts.argmax(1)
    more = of_parts.logsumexp(1) - whole.joint[rows, labels]
    gains = points.new_zeros(k).index_add_(0, labels, more)
    in_second = torch.bincount(labels, second, minlength=k)
    smaller = torch.minimum(in_second, whole.sizes - in_second)
    better = (gains > densities.price(smaller)) & (smaller > 0)
    return compact(2 * labels + second * better[labels]) if better.any() else None


def _beyond_the_middle(points: Tensor, labels: Tensor, k: int) -> Tensor:
    """1 for points (n,) that lie beyond the mean of their cluster along its longest axis, else 0."""
    members = functional.one_hot(labels, k).to(points.dtype)  # (n, K)
    means = members.T @ points / members.sum(0).unsqueeze(1)
    apart = points - means[labels]
    scatter = torch.einsum("nk,ni,nj->kij", members, apart, apart)
    longest = torch.linalg.eigh(scatter)[1][..., -1]
    return ((apart * longest[labels]).sum(1) > 0).to(labels.dtype)


def searched(densities: Densities, labels: Tensor) -> DensityMixture:
    """The partition that a search from labels (n,) ends with."""
    best = reassigned(densities, mixture_of(densities, labels))
    return merged(densities, without_idle(densities, best))


def mixture_of(densities: Densities, labels: Tensor) -> DensityMixture:
    """The partition of labels (n,), all in use."""
    joint = joint_of(densities, members_of_labels(labels))
    return DensityMixture(labels, joint, float(joint.logsumexp(1).sum()))


def joint_of(densities: Densities, belongs: Tensor) -> Tensor:
    """log n_k/n p(x_i; theta_k), (n, K), of clusters with any members (K, n)."""
    log_density = densities.log_density(belongs)
    return log_density + belongs.to(log_density.dtype).mean(1).log()


def gain(densities: Densities, new: DensityMixture, old: DensityMixture) -> float:
    """Gain of the new partition in nats: one with more clusters has to pay for its smallest ones."""
    n_more = new.joint.shape[1] - old.joint.shape[1]
    if n_more < 0:
        return -gain(densities, old, new)
    price = densities.price(new.sizes.sort().values[:n_more]).sum()
    return new.log_likelihood - old.log_likelihood - float(price)


def reassigned(densities: Densities, best: DensityMixture) -> DensityMixture:
    """The best of some steps of EM in which every point belongs to one cluster."""
    joint = best.joint
    for _ in range(EM_STEPS):
        new = mixture_of(densities, compact(joint.argmax(1)))
        joint, more = new.joint, gain(densities, new, best)
        best = new if more > 0 else best
        if more < MIN_GAIN:
            break
    return best


def without_idle(densities: Densities, best: DensityMixture) -> DensityMixture:
    """The partition without clusters that others make up for, the least missed first."""
    while best.joint.shape[1] > 1:
        worth = missed(best.joint, best.sizes / len(best.labels)) - densities.price(best.sizes)
        new = mixture_of(densities, compact(without(best.joint, int(worth.argmin())).argmax(1)))
        if gain(densities, new, best) <= 0:
            break
        best = new
    return best


def merged(densities: Densities, best: DensityMixture) -> DensityMixture:
    """The partition after the best merges, one after the other, as long as they gain."""
    while best.joint.shape[1] > 1:
        pairs = neighbouring_pairs(best)
        unions = torch.stack([(best.labels == one) | (best.labels == other) for one, other in pairs])
        of_unions = joint_of(densities, unions)
        gains = torch.stack(
            [
                torch.cat([without(best.joint, *pair), of_unions[:, [place]]], dim=1).logsumexp(1).sum()
                for place, pair in enumerate(pairs)
            ]
        )
        gains += densities.price(best.sizes[torch.tensor(pairs)].amin(1)) - best.log_likelihood
        place = int(gains.argmax())
        if gains[place] <= 0:
            break
        labels = compact(torch.where(unions[place], best.joint.shape[1], best.labels))
        new = reassigned(densities, mixture_of(densities, labels))
        if gain(densities, new, best) <= 0:
            break
        best = new
    return best


def neighbouring_pairs(partition: DensityMixture) -> list[tuple[int, int]]:
    """The pairs of clusters of which one describes the members of the other best."""
    joint, k = partition.joint, partition.joint.shape[1]
    members = functional.one_hot(partition.labels, k).to(joint.dtype)
    near = members.T @ joint / members.sum(0).unsqueeze(1)
    near = torch.maximum(near, near.T)
    first, second = torch.tril_indices(k, k, offset=-1)
    order = near[first, second].argsort(descending=True, stable=True)[: PAIRS_PER_CLUSTER * k]
    return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def pooled(densities: Densities, belongs: Tensor, max_clusters: int) -> tuple[Tensor, bool]:
    """Labels (n,) by those of the clusters (C, n) that the others do not make up for; whether a cap acted."""
    belongs = belongs.unique(dim=0)
    log_density = densities.log_density(belongs)
    shares, capped = belongs.to(log_density.dtype).mean(1), False
    while True:
        for _ in range(SHARE_STEPS):
            joint = log_density + (shares / shares.sum()).log()
            shares = joint.softmax(1).mean(0).clamp(min=MIN_SHARE)
        joint = log_density + (shares / shares.sum()).log()
        worth = missed(joint, shares / shares.sum()) - densities.price(shares * len(joint))
        least = int(worth.argmin())
        is_over = worth[least] >= 0 or len(shares) == 1
        capped = capped or bool(is_over and len(shares) > max_clusters)
        if is_over and len(shares) <= max_clusters:
            return compact(joint.argmax(1)), capped
        log_density, shares = without(log_density, least), without(shares[None], least)[0]


def without_tiny(partition: DensityMixture) -> Tensor:
    """Labels (n,) without clusters of a few points."""
    is_tiny = partition.sizes < MIN_POINTS
    if not is_tiny.any() or is_tiny.all():
        return partition.labels
    nearest = partition.joint.masked_fill(is_tiny, -torch.inf).argmax(1)
    return compact(torch.where(is_tiny[partition.labels], nearest, partition.labels))


def missed(joint: Tensor, shares: Tensor) -> Tensor:
    """Fall of the log-likelihood without each of K clusters, (K,).

    ``joint`` (n, K) are share times density, of which the shares (K,) of the others grow.
    """
    left = torch.log1p(-joint.softmax(1).clamp(max=CERTAIN)).sum(0)
    return len(joint) * torch.log1p(-shares.clamp(max=CERTAIN)) - left


def without(joint: Tensor, *clusters: int) -> Tensor:
    """The columns of the other clusters, (n, K - len(clusters))."""
    keep = torch.ones(joint.shape[1], dtype=torch.bool)
    keep[list(clusters)] = False
    return joint[:, keep]


# -- branches of linkage trees -----------------------------------------------------------------------


def branches(points: Tensor) -> Tensor:
    """Members (C, n), bool, of branches of linkage trees of points (n, d); C may be 0."""
    n = len(points)
    if n < 2 * MIN_PART:
        return torch.zeros(0, n, dtype=torch.bool, device=points.device)
    rows = to_numpy(points, np.float64)
    distances = squareform(pdist(rows))
    core = np.partition(distances, CORE_NEIGHBOUR, axis=1)[:, CORE_NEIGHBOUR]
    reachability = np.maximum(distances, np.maximum(core[:, None], core))
    np.fill_diagonal(reachability, 0.0)
    trees = linkage(rows, "ward"), linkage(squareform(reachability, checks=False), "single")
    found = [part for merges in trees for part in _parts(merges[:, :2].astype(np.int64))]
    return torch.from_numpy(np.array(found, dtype=bool).reshape(-1, n)).to(points.device)


def _parts(merges: np.ndarray) -> list[np.ndarray]:
    """The branches (n,) that the highest divisions of a tree into two sizeable parts lead to."""
    n = len(merges) + 1
    below = np.concatenate([np.eye(n, dtype=bool), np.zeros((n - 1, n), dtype=bool)])
    for place, (left, right) in enumerate(merges):
        below[n + place] = below[left] | below[right]
    sizeable = below.sum(axis=1) >= max(MIN_PART, MIN_PART_SHARE * n)
    divided = np.flatnonzero(sizeable[merges].all(axis=1))[::-1][:MAX_DIVISIONS]
    return list(below[merges[divided].ravel()])
