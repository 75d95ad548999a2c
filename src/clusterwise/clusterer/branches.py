"""Branches of linkage trees: what is measured of them, how well each matches a cluster, and the best cut.

A *range* is a set of rows that stand side by side in some order: the rows below a node of a tree, or a
cluster of a partition sorted by its labels. ``measure_branches`` measures the former and the two halves of
each. Distances enter as logs of ratios, points have unit spread: units do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.graph import Graph
from clusterwise.clusterer.ranges import (
    ROWS_PER_RANGE,
    edges_of_segments,
    gaussians_of_ranges,
    gaussians_of_splits,
    neighbours_of_ranges,
    neighbours_of_splits,
)
from clusterwise.clusterer.trees import Tree
from clusterwise.neighbours import nearest

__all__ = [
    "N_RANGE_FEATURES",
    "N_SPLIT_FEATURES",
    "Branches",
    "ClusterTree",
    "OrderedRows",
    "ScoredTree",
    "best_cut",
    "best_overlaps",
    "measure_branches",
    "most_similar_branches",
    "values_below",
]

N_RANGE_FEATURES = 40
N_SPLIT_FEATURES = 28
# Features beyond this are cut off there.
MAX_FEATURE = 30
# Place of the ratio of heights, which pairs of clusters do not have, among the features of a split.
HEIGHTS = 20
# Branches smaller than this, or than this share of all rows, are not judged; nor more than this many.
MIN_SIZE, MIN_SHARE, MAX_BRANCHES = 4, 0.004, 256


@dataclass(frozen=True)
class Branches:
    """The v nodes of a tree that are judged, the largest first, and what was measured of them."""

    tree: Tree
    nodes: np.ndarray  # (v,)
    features: np.ndarray  # (v, N_RANGE_FEATURES + N_SPLIT_FEATURES)
    parents: np.ndarray  # (v,) index among the v, -1 for the root
    children: np.ndarray  # (v, 2) index among the v, -1 for nodes that are too small

    @property
    def sizes(self) -> np.ndarray:
        """Rows below each node, (v,)."""
        return self.tree.sizes[self.nodes]


@dataclass(frozen=True)
class ScoredTree:
    """A tree of m rows with v of its branches, and the expected overlap of each with a true cluster."""

    branches: Branches
    scores: np.ndarray  # (v,) expected intersection over union with a true cluster
    below: np.ndarray  # (v,) the same of the best cut below each branch, per row

    @property
    def tree(self) -> Tree:
        """The tree itself."""
        return self.branches.tree

    def best_partition(self, points: np.ndarray) -> np.ndarray:
        """Labels (m,) of the best cut; rows below none of its branches join the nearest row's cluster."""
        labels = np.full(self.tree.n_rows, -1)
        cut = best_cut(self.branches.sizes, self.branches.children, self.scores)
        for label, node in enumerate(self.branches.nodes[cut]):
            labels[self.tree.rows(int(node))] = label
        left = labels < 0
        if left.any():
            indices, _ = nearest(points[left], points[~left], 1)
            labels[left] = labels[~left][indices[:, 0]]
        return labels


@dataclass(frozen=True)
class ClusterTree:
    """A linkage tree with scored branches, and those of them that are the K clusters."""

    scored: ScoredTree
    chosen: np.ndarray  # (K,) the branch most like each cluster, as a place among the scored ones
    overlaps: np.ndarray  # (K,) intersection over union of that branch and the cluster

    @classmethod
    def of(cls, scored: ScoredTree, labels: np.ndarray) -> ClusterTree:
        """The branches that are most like the clusters of labels (m,), from 0 to K - 1."""
        overlaps, chosen = most_similar_branches(scored.branches, labels)
        return cls(scored, chosen, overlaps)


def measure_branches(graph: Graph, tree: Tree) -> Branches:
    """The larger branches of a tree with their features."""
    m = tree.n_rows
    inner = np.arange(m, 2 * m - 1)
    inner = inner[tree.sizes[inner] >= max(MIN_SIZE, int(MIN_SHARE * m))]
    # The largest ones; of equal size those joined last. So parents always come before their children.
    nodes = inner[np.lexsort((-inner, -tree.sizes[inner]))][:MAX_BRANCHES]
    places = np.full(2 * m - 1, -1)
    places[nodes] = np.arange(len(nodes))
    parents = np.where(tree.parents[nodes] >= 0, places[tree.parents[nodes]], -1)
    children = places[tree.children[nodes]]
    starts = tree.starts[nodes]
    middles = starts + tree.sizes[tree.children[nodes, 0]]
    segments = np.stack([starts, middles, middles, starts + tree.sizes[nodes]], axis=1)
    of_children = tree.heights[tree.children[nodes]].max(axis=1)
    ratios = np.log(np.maximum(tree.heights[nodes], 1e-12) / np.maximum(of_children, 1e-12))
    ordered = OrderedRows(graph, tree.order)
    edges = ordered.edges(segments, parents)
    features = np.concatenate([ordered.ranges(segments, edges), ordered.splits(segments, edges)], axis=1)
    features[:, N_RANGE_FEATURES + HEIGHTS] = np.where(of_children > 0, ratios, 0.0)
    return Branches(
        tree, nodes, np.clip(np.nan_to_num(features), -MAX_FEATURE, MAX_FEATURE), parents, children
    )


class OrderedRows:
    """The rows of a graph in one order, to measure ranges of them; see ``ranges``."""

    def __init__(self, graph: Graph, order: np.ndarray) -> None:
        self.graph, self.order = graph, order
        m = len(order)
        self.places = np.full(m + 1, -1, dtype=np.int32)  # a neighbour that is missing, -1, stands nowhere
        self.places[order] = np.arange(m)
        self.neighbours = self.places[graph.neighbours[order]]
        self.sums = np.zeros((m + 1, graph.moments.shape[1]))  # of T(x) over the first rows
        graph.moments[order].cumsum(axis=0, out=self.sums[1:])

    def edges(self, segments: np.ndarray, parents: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (r, 12) about ranges (r, 4) from each of both spanning trees."""
        m, r = len(self.order), len(segments)
        if parents is None:
            parents = np.full(r, -1)
        listed, counts = np.empty((r, m - 1), dtype=np.int32), np.empty(r, dtype=np.int64)
        spare = np.empty((3, m))
        found = []
        for edges in (self.graph.plain, self.graph.reachability):
            out = np.empty((r, 12))
            places = self.places[edges.ends]
            edges_of_segments(places, edges.log_lengths, segments, parents, listed, counts, spare, out)
            found.append(out)
        return found[0], found[1]

    def ranges(self, segments: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Features (r, N_RANGE_FEATURES) of ranges (r, 4)."""
        q = self.graph.directions.shape[1]
        out = np.zeros((len(segments), N_RANGE_FEATURES))
        neighbours_of_ranges(*self._neighbours, segments, out)
        out[:, 17:25], out[:, 25:33] = edges[0][:, :8], edges[1][:, :8]
        scatters, gaussian = np.zeros((len(segments), q, q)), np.zeros((len(segments), 7))
        spare, rows = np.empty((1 + 2 * q, q)), np.empty((q + 1, 2 * ROWS_PER_RANGE))
        gaussians_of_ranges(
            self.graph.directions, self.order, segments, self.sums, scatters, spare, rows, gaussian
        )
        values = np.linalg.eigvalsh(scatters)  # of the lower halves
        gaussian[:, 0] = np.log((values[:, -1] + 1e-9) / (np.maximum(values[:, 0], 0.0) + 1e-9))
        gaussian[:, 6] -= out[:, 8] + self.graph.log_core.mean()
        out[:, 33:] = gaussian
        return out

    def splits(self, segments: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Features (r, N_SPLIT_FEATURES) of the halves of ranges (r, 4)."""
        m, q = self.graph.directions.shape
        out = np.zeros((len(segments), N_SPLIT_FEATURES))
        neighbours_of_splits(*self._neighbours, segments, out)
        out[:, 12:16], out[:, 16:20] = edges[0][:, 8:], edges[1][:, 8:]
        gaussian = np.zeros((len(segments), 7))
        spare, projected = np.empty((4 + 5 * q, q)), np.empty(m)
        gaussians_of_splits(
            self.graph.directions, self.order, segments, self.sums, spare, projected, gaussian
        )
        out[:, 21:] = gaussian
        return out

    @property
    def _neighbours(self) -> tuple[np.ndarray, ...]:
        return self.neighbours, self.graph.log_distances, self.graph.log_core, self.order


# -- cuts: disjoint branches that are taken for the clusters, found by dynamic programming ------------


def values_below(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Largest sum of size times score of a cut strictly below each of v branches, per row of it, (v,)."""
    return _values(sizes, children, scores)[0]


def best_cut(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Indices of the disjoint branches, among v, with the largest sum of size times score; parents first."""
    _, undivided = _values(sizes, children, scores)
    taken, reached = [], [0]
    while reached:
        branch = reached.pop()
        if undivided[branch]:
            taken.append(branch)
        else:
            reached += [child for child in children[branch].tolist() if child >= 0]
    return np.array(sorted(taken), dtype=np.int64)


def _values(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Those of ``values_below``, and whether a branch's own value is at least as large, (v,) each."""
    v = len(sizes)
    below, undivided = np.empty(v), np.empty(v, dtype=bool)
    _below(sizes, children, np.ascontiguousarray(scores), np.empty(v), below, undivided)
    return below, undivided


@compiled
def _below(
    sizes: np.ndarray,
    children: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
    below: np.ndarray,
    undivided: np.ndarray,
) -> None:
    for i in range(len(sizes) - 1, -1, -1):  # children come after their parents
        parts = 0.0
        for side in range(2):
            if children[i, side] >= 0:
                parts += best[children[i, side]]
        own = sizes[i] * scores[i]
        undivided[i] = own >= parts
        best[i] = max(own, parts)
        below[i] = parts / sizes[i]


# -- overlaps with given clusters ---------------------------------------------------------------------


def best_overlaps(branches: Branches, truth: np.ndarray) -> np.ndarray:
    """Intersection over union of each branch with the true cluster that it matches best, (v,).

    ``truth`` (m,) has labels from 0 on; rows with -1 belong nowhere and do not count.
    """
    return np.asarray(_overlaps(branches, truth).max(axis=1))


def most_similar_branches(branches: Branches, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest intersection over union of each cluster of labels (m,) with a branch, and the branch, (K,)."""
    overlaps = _overlaps(branches, labels)
    found = overlaps.argmax(axis=0)
    return overlaps[found, np.arange(overlaps.shape[1])], found


def _overlaps(branches: Branches, labels: np.ndarray) -> np.ndarray:
    """Intersection over union (v, K) of branches with clusters of labels (m,); those of -1 do not count."""
    m, k = len(labels), int(labels.max()) + 1
    is_member = np.zeros((m + 1, k + 1), dtype=np.int32)  # the last column is that of -1
    is_member[np.arange(1, m + 1), labels[branches.tree.order]] = 1
    before = is_member[:, :k].cumsum(axis=0, dtype=np.int32)
    starts = branches.tree.starts[branches.nodes]
    common = before[starts + branches.sizes] - before[starts]
    either = before[-1] + common.sum(axis=1, keepdims=True) - common
    return np.asarray(common / np.maximum(either, 1))
