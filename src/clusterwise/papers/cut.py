"""A cut through Ward's tree by a rule that was learned from labelled data sets of other classes.

The merger of two branches a and b of a tree over encodings z has the statistic::

    s = log |mean_a - mean_b|^2 + g log(n_a n_b / (n_a + n_b)) - h log m

with m rows in all. From the root down, a branch is divided where s is above a threshold. With g = 1, h = 0
that is a threshold on what the merger adds to the squared deviations, the objective of DP-means (Kulis &
Jordan 2012) with a penalty that was learned; with g = 0 the distance of the means alone counts, however large
the branches are. With h > 0 larger data sets need larger branches: the more rows there are, the more of them
lie far out together by chance.

Which threshold suits a data set best differs from one to the next. How much it did among the data sets that
the rule was learned from says what else may be true: cuts at other thresholds, as a normal distribution has
them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from clusterwise.clusterer.trees import Tree, tree_of_merges, ward_linkage
from clusterwise.partition import canonical_labels

__all__ = ["CutRule", "WardBranches", "branches_of", "cuts_of", "nearest_means", "smoothed", "sums_below"]

# Neighbours that a row moves towards, and how often.
NEIGHBOURS, ROUNDS = 10, 3
# Rounds of k-means after a cut; most partitions no longer change after a few.
MAX_ROUNDS = 20


@dataclass(frozen=True)
class CutRule:
    """A cut that was learned on classes left out of training; it goes into the header of a weights file."""

    smoothing: float = 0.0  # how far rows move towards their neighbours before the tree is built, below 1
    size_exponent: float = 1.0  # g
    rows_exponent: float = 0.0  # h
    threshold: float = 0.0
    spread: float = 0.0  # standard deviation of the thresholds that suit single data sets

    def statistic(self, branches: WardBranches) -> np.ndarray:
        """Distance of the children of each merger, less the threshold, (m - 1,)."""
        return (
            branches.log_distances
            + self.size_exponent * branches.log_sizes
            - self.rows_exponent * math.log(branches.tree.n_rows)
            - self.threshold
        )

    def labels(self, branches: WardBranches, max_clusters: int | None = None) -> tuple[np.ndarray, bool]:
        """Labels (m,) of the cut, and whether it would have more than ``max_clusters``.

        Branches that are farthest apart are divided first.
        """
        return _cut(branches.tree, self.statistic(branches), max_clusters)

    def others(self, n_cuts: int) -> list[CutRule]:
        """Rules with thresholds at the quantiles of their distribution, equally likely each."""
        normal = NormalDist(self.threshold, max(self.spread, 1e-9))
        return [replace(self, threshold=normal.inv_cdf((i + 0.5) / n_cuts)) for i in range(n_cuts)]


@dataclass(frozen=True, eq=False)
class WardBranches:
    """Ward's tree of m rows, and what is measured at its m - 1 mergers."""

    points: np.ndarray  # (m, f) smoothed
    tree: Tree
    log_distances: np.ndarray  # (m - 1,) of the squared distance between the means of the children
    log_sizes: np.ndarray  # (m - 1,) of n_a n_b / (n_a + n_b)


def branches_of(points: np.ndarray, smoothing: float = 0.0) -> WardBranches:
    """Build the tree of points (m, f), m >= 2."""
    points = smoothed(np.ascontiguousarray(points, dtype=np.float64), smoothing)
    m = len(points)
    merges, heights = ward_linkage(points)
    tree = tree_of_merges("ward", merges, heights)
    left, right = tree.children[m:].T
    n_left, n_right = tree.sizes[left].astype(float), tree.sizes[right].astype(float)
    means = sums_below(tree, points) / tree.sizes[:, None]
    squares = np.square(means[left] - means[right]).sum(axis=1)
    tiny = np.finfo(np.float64).tiny
    log_sizes = np.log(n_left * n_right / (n_left + n_right))
    return WardBranches(points, tree, np.log(np.maximum(squares, tiny)), log_sizes)


def sums_below(tree: Tree, values: np.ndarray) -> np.ndarray:
    """Sums over the rows below every node, (2m - 1, f), of values (m, f)."""
    running = np.concatenate([np.zeros((1, values.shape[1])), values[tree.order].cumsum(axis=0)])
    return running[tree.starts + tree.sizes] - running[tree.starts]


def _cut(tree: Tree, statistic: np.ndarray, max_clusters: int | None) -> tuple[np.ndarray, bool]:
    m = tree.n_rows
    root = 2 * m - 2
    labels, n_clusters, beyond = np.zeros(m, dtype=np.int64), 1, False
    waiting = [(-statistic[root - m], root)]
    while waiting and waiting[0][0] < 0:
        if n_clusters == max_clusters:
            beyond = True
            break
        _, node = heapq.heappop(waiting)
        for child in tree.children[node]:
            if child >= m:
                heapq.heappush(waiting, (-statistic[child - m], int(child)))
        labels[tree.rows(int(tree.children[node, 1]))] = n_clusters
        n_clusters += 1
    return labels, beyond


def smoothed(points: np.ndarray, weight: float) -> np.ndarray:
    """Points (m, f) moved towards the means of their neighbours, which are smoothed as well.

    Each neighbour counts by its distance in units of how far both have theirs. What rows of a class have in
    common stays, what is each one's own averages out.
    """
    m = len(points)
    if weight == 0 or m < 3:
        return points
    n_near = min(NEIGHBOURS, m - 1)
    norms = np.square(points).sum(axis=1)
    squares = np.maximum(norms[:, None] - 2 * points @ points.T + norms, 0.0)
    np.fill_diagonal(squares, np.inf)
    near = np.argpartition(squares, n_near - 1, axis=1)[:, :n_near]
    of_near = np.take_along_axis(squares, near, axis=1)
    reach = np.sqrt(of_near.max(axis=1))
    scale = np.maximum(reach[:, None] * reach[near], np.finfo(np.float64).tiny)
    graph = np.zeros((m, m))
    np.put_along_axis(graph, near, np.exp(-of_near / scale), axis=1)
    graph = np.maximum(graph, graph.T)
    graph /= graph.sum(axis=1, keepdims=True)
    moved = points
    for _ in range(ROUNDS):
        moved = (1 - weight) * points + weight * (graph @ moved)
    return moved


def nearest_means(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels (m,) after rounds of k-means: a cut leaves rows where the first mergers put them."""
    labels = canonical_labels(labels)
    for _ in range(MAX_ROUNDS):
        members = np.eye(int(labels.max()) + 1)[labels]
        means = members.T @ points / members.sum(axis=0)[:, None]
        nearest = (np.square(means).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
        nearest = canonical_labels(nearest)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
    return labels


def cuts_of(
    points: np.ndarray, rule: CutRule, max_clusters: int, n_others: int = 0
) -> tuple[list[np.ndarray], np.ndarray, bool]:
    """Partitions (m,) of points (m, f), the rule's first; how often each came out; whether a cap was reached.

    Beside the answer there are ``n_others`` cuts at the thresholds that the rule holds for likely. Those that
    come out alike count together.
    """
    if len(points) < 2:
        return [np.zeros(len(points), dtype=np.int64)], np.ones(1), False
    branches = branches_of(points, rule.smoothing)
    counts: Counter[bytes] = Counter()
    partitions: dict[bytes, np.ndarray] = {}
    for one in (rule, *rule.others(n_others)):
        labels = nearest_means(branches.points, one.labels(branches, max_clusters)[0])
        partitions.setdefault(labels.tobytes(), labels)
        counts[labels.tobytes()] += 1
    cap_reached = rule.labels(branches, max_clusters)[1]
    return list(partitions.values()), np.array([counts[key] for key in partitions], dtype=float), cap_reached
