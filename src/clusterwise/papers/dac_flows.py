"""Clusters of DAC that are flows: what they learn, and a search that starts from the network's passes.

A flow is made from the members of a cluster (``nn.cluster_flows``), so that a partition of n points is a
mixture of K flows. The search changes the partition as long as

    sum_i log sum_k pi_k p(x_i; theta_k) - K (PARAMETERS / 2 log n + MISFIT n)

grows: points go to the cluster with the largest pi_k p, clusters without which the others do as well are left
out, and pairs that one flow describes as well become one. The second part of the price is there because no
flow is exact: two of them describe one arc better than one does, by about as much for each of its points.

A search cannot find what neither its start nor a merger has, so that clusters are also taken from the
branches of linkage trees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterwise._tensors import to_numpy
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import trees_of
from clusterwise.clusterer.tree import Tree
from clusterwise.nn.flows import ClusterFlow
from clusterwise.papers.dac_sets import members_of_clusters

__all__ = ["best_partition", "branches", "compact", "flow_loss", "members_of_labels", "some_members"]

# Clusters of a training step and members of each, and the least share of them that a flow is made from: it
# learns to describe the others.
CLUSTERS, MEMBERS, LEAST_SHOWN = 24, 128, 0.3
LEAST_LOG_DENSITY = -50.0  # of a point that counts in the loss

# Members that a flow is made from in the search.
MOST_MEMBERS = 192
# What an arc has: place (2), half-axes (2), direction, where on the ellipse and how far along it, thickness.
PARAMETERS = 8
# Nats per point that a cluster has to bring besides. Flows of true clusters are 0.1 below the true density.
MISFIT = 0.08
EM_STEPS = 3
LEAST_GAIN = 0.5  # in nats, of another step of EM
PAIRS_PER_CLUSTER = 4  # that may become one
SHARE_STEPS, LEAST_SHARE = 2, 1e-12
# Trees, the divisions of each that count, from the top, and the least part of one: points, and a share.
TREES, DIVISIONS, LEAST_PART, LEAST_PART_SHARE = ("ward", "single"), 12, 8, 0.03
CERTAIN = 1 - 1e-6  # memberships above count as this: no logarithm of nothing


def flow_loss(flow: ClusterFlow, points: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Minus the mean log density of members by others of their cluster; points (B, N, d), labels (B, N)."""
    index, mask = members_of_clusters(labels, MEMBERS)
    some = torch.randperm(len(index), generator=generator)[:CLUSTERS]
    index, mask = index[some], mask[some]
    share = LEAST_SHOWN + (1 - LEAST_SHOWN) * torch.rand(len(index), 1, generator=generator)
    shown = mask & (torch.rand(mask.shape, generator=generator) < share)
    shown[:, 0] = True
    hidden = mask & ~shown
    members = points.flatten(0, 1)[index]
    log_density = flow.log_density(members, members, shown).clamp(min=LEAST_LOG_DENSITY)
    n_hidden = hidden.sum(1)
    of_clusters = (log_density * hidden).sum(1) / n_hidden.clamp(min=1)
    return -of_clusters.sum() / (n_hidden > 0).sum().clamp(min=1)


def some_members(belongs: Tensor) -> tuple[Tensor, Tensor]:
    """Places (K, m) of members of K clusters, and a mask (K, m); ``belongs`` is (K, n)."""
    sizes = belongs.sum(1)
    width = min(MOST_MEMBERS, int(sizes.max()))
    index = (~belongs).to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    return index, torch.arange(width, device=belongs.device) < sizes.unsqueeze(1)


def members_of_labels(labels: Tensor) -> Tensor:
    """Who belongs to which of the K clusters in ``labels`` (n,), (K, n) bool."""
    return torch.nn.functional.one_hot(labels).T.bool()


class Revised(NamedTuple):
    """A partition and how good it is."""

    labels: Tensor  # (n,) from 0 to K - 1, all in use
    score: float


@torch.inference_mode()
def best_partition(flow: ClusterFlow, points: Tensor, starts: Sequence[Tensor]) -> Tensor:
    """Labels (n,) by searches from partitions (n,) of points (n, d), whose order must be a random one.

    What one search misses another one may have: the last one starts from the clusters of all of them and from
    the branches of trees.
    """
    n = len(points)
    search = _Search(flow, points, 0.5 * PARAMETERS * math.log(max(2, n)) + MISFIT * n)
    found = [search.run(labels) for labels in starts]
    pool = torch.cat([*(members_of_labels(one.labels) for one in found), branches(points)])
    found.append(search.run(search.pooled(pool)))
    return search.sizeable(max(found, key=lambda one: one.score).labels)


def branches(points: Tensor) -> Tensor:
    """Who is in which branch of linkage trees of points (n, d), (C, n) bool; C may be 0."""
    n = len(points)
    if n < 2 * LEAST_PART:
        return torch.zeros(0, n, dtype=torch.bool, device=points.device)
    near = neighbourhood_of(to_numpy(points, np.float64))
    rows = [tree.rows(node) for tree in trees_of(near, TREES) for node in _parts(tree)]
    belongs = torch.zeros(len(rows), n, dtype=torch.bool)
    for own, those in zip(belongs, rows, strict=True):
        own[torch.from_numpy(those)] = True
    return belongs.to(points.device)


def _parts(tree: Tree) -> list[int]:
    """The nodes that the highest divisions of a tree into two sizeable parts lead to."""
    inner = np.arange(tree.n_rows, len(tree.sizes))[::-1]
    least = max(LEAST_PART, LEAST_PART_SHARE * tree.n_rows)
    divided = inner[(tree.sizes[tree.children[inner]] >= least).all(axis=1)][:DIVISIONS]
    parts: list[int] = tree.children[divided].ravel().tolist()
    return parts


class _Search:
    """The steps of the search on one data set."""

    def __init__(self, flow: ClusterFlow, points: Tensor, price: float) -> None:
        self.flow, self.points, self.price = flow, points, price

    def log_joint(self, labels: Tensor) -> Tensor:
        """log pi_k p(x_i; theta_k), (n, K)."""
        return self._of_clusters(members_of_labels(labels))

    def _of_clusters(self, belongs: Tensor) -> Tensor:
        """The same for clusters with any members, (K, n)."""
        index, mask = some_members(belongs)
        everyone = self.points.expand(len(index), -1, -1)
        densities = self.flow.log_density(everyone, self.points[index], mask).T
        return densities + belongs.to(densities.dtype).mean(1).log()

    def score(self, log_joint: Tensor) -> float:
        """What the search maximizes, by the clusters' joint densities (n, K)."""
        return float(log_joint.logsumexp(1).sum()) - self.price * log_joint.shape[1]

    def run(self, labels: Tensor) -> Revised:
        """Search from one partition (n,)."""
        return self.merged(self.without_idle(self.settled(labels)))

    def sizeable(self, labels: Tensor) -> Tensor:
        """Labels (n,) without clusters of fewer points than parameters, which are outliers of the others."""
        sizes = torch.bincount(labels)
        tiny = torch.nonzero(sizes < PARAMETERS).flatten().tolist()
        if not tiny or len(tiny) == len(sizes):
            return labels
        nearest = self.log_joint(labels).index_fill(1, torch.tensor(tiny), -torch.inf).argmax(1)
        return compact(torch.where(sizes[labels] < PARAMETERS, nearest, labels))

    def pooled(self, belongs: Tensor) -> Tensor:
        """A partition (n,) into those of the clusters (C, n) that the others do not make up for."""
        belongs = belongs.unique(dim=0)
        densities = self._of_clusters(belongs) - belongs.to(self.points.dtype).mean(1).log()
        shares = belongs.to(densities.dtype).mean(1)
        while True:
            for _ in range(SHARE_STEPS):
                shares = (densities + (shares / shares.sum()).log()).softmax(1).mean(0).clamp(min=LEAST_SHARE)
            joint = densities + (shares / shares.sum()).log()
            missed = _missed(joint, shares / shares.sum())
            least = int(missed.argmin())
            if len(shares) == 1 or float(missed[least]) >= self.price:
                return compact(joint.argmax(1))
            densities, shares = _without(densities, least), _without(shares[None], least)[0]

    def settled(self, labels: Tensor) -> Revised:
        """Some steps of EM in which every point belongs to one cluster."""
        joint = self.log_joint(labels)
        best = Revised(labels, self.score(joint))
        for _ in range(EM_STEPS):
            labels = compact(joint.argmax(1))
            joint = self.log_joint(labels)
            gain = self.score(joint) - best.score
            if gain > 0:
                best = Revised(labels, best.score + gain)
            if gain < LEAST_GAIN:
                break
        return best

    def without_idle(self, best: Revised) -> Revised:
        """Leave out the cluster that is missed least, as long as the others do better without it."""
        while int(best.labels.max()) > 0:
            joint = self.log_joint(best.labels)
            shares = torch.bincount(best.labels) / len(best.labels)
            labels = compact(_without(joint, int(_missed(joint, shares).argmin())).argmax(1))
            found = Revised(labels, self.score(self.log_joint(labels)))
            if found.score <= best.score:
                break
            best = found
        return best

    def merged(self, best: Revised) -> Revised:
        """Make one of the pair that one flow describes best, as long as that is better."""
        while int(best.labels.max()) > 0:
            joint = self.log_joint(best.labels)
            pairs = self._pairs(joint, best.labels)
            united = torch.stack([(best.labels == one) | (best.labels == other) for one, other in pairs])
            of_union = self._of_clusters(united)
            scores = [
                self.score(torch.cat([_without(joint, *pair), of_union[:, [place]]], dim=1))
                for place, pair in enumerate(pairs)
            ]
            place = max(range(len(pairs)), key=scores.__getitem__)
            if scores[place] <= best.score:
                break
            found = self.settled(compact(torch.where(united[place], len(joint), best.labels)))
            if found.score <= best.score:
                break
            best = found
        return best

    def _pairs(self, joint: Tensor, labels: Tensor) -> list[tuple[int, int]]:
        """The pairs of clusters of which one describes the members of the other best."""
        n_clusters = joint.shape[1]
        members = torch.nn.functional.one_hot(labels, n_clusters).to(joint.dtype)
        near = members.T @ joint / members.sum(0).unsqueeze(1)
        near = torch.maximum(near, near.T)
        first, second = torch.tril_indices(n_clusters, n_clusters, offset=-1)
        order = near[first, second].argsort(descending=True, stable=True)[: PAIRS_PER_CLUSTER * n_clusters]
        return list(zip(first[order].tolist(), second[order].tolist(), strict=True))


def compact(labels: Tensor) -> Tensor:
    """Number the clusters in use from 0 on."""
    return torch.unique(labels, return_inverse=True)[1]


def _missed(joint: Tensor, shares: Tensor) -> Tensor:
    """By how much the log-likelihood falls without each of K clusters, (K,).

    ``joint`` (n, K) are share times density, of which the shares (K,) of the others grow.
    """
    left = torch.log1p(-joint.softmax(1).clamp(max=CERTAIN)).sum(0)
    return len(joint) * torch.log1p(-shares.clamp(max=CERTAIN)) - left


def _without(joint: Tensor, *clusters: int) -> Tensor:
    """The columns of the other clusters, (n, K - len(clusters))."""
    keep = torch.ones(joint.shape[1], dtype=torch.bool)
    keep[list(clusters)] = False
    return joint[:, keep]
