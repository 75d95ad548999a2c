"""Cuts: disjoint nodes of a tree that are taken for the clusters, found by dynamic programming."""

from __future__ import annotations

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.trees.features import Nodes
from clusterwise.trees.tree import Tree

__all__ = [
    "best_cut",
    "best_overlaps",
    "cut_into",
    "decisions",
    "highest_cut",
    "labels_of_cut",
    "values_below",
]


def values_below(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Largest sum of size times score of a cut strictly below each of v nodes, per row of it, (v,)."""
    return _values_and_decisions(sizes, children, scores)[0]


def best_cut(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The disjoint nodes with the largest sum of size times score; indices among v nodes, parents first."""
    _, whole = _values_and_decisions(sizes, children, scores)
    reached, taken = np.zeros(len(whole), dtype=bool), np.zeros(len(whole), dtype=bool)
    _take(children, whole, reached, taken)
    return np.flatnonzero(taken)


def _values_and_decisions(
    sizes: np.ndarray, children: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Those of ``values_below``, and whether a node's own value is at least as large, (v,) each."""
    v = len(sizes)
    below, whole = np.empty(v), np.empty(v, dtype=bool)
    _below(sizes, children, np.ascontiguousarray(scores), np.empty(v), below, whole)
    return below, whole


@compiled
def _below(
    sizes: np.ndarray,
    children: np.ndarray,
    scores: np.ndarray,
    best: np.ndarray,
    below: np.ndarray,
    whole: np.ndarray,
) -> None:
    for i in range(len(sizes) - 1, -1, -1):  # children come after their parents
        parts = 0.0
        for side in range(2):
            if children[i, side] >= 0:
                parts += best[children[i, side]]
        own = sizes[i] * scores[i]
        whole[i] = own >= parts
        best[i] = max(own, parts)
        below[i] = parts / sizes[i]


@compiled
def _take(children: np.ndarray, whole: np.ndarray, reached: np.ndarray, taken: np.ndarray) -> None:
    reached[0] = True
    for i in range(len(whole)):
        if not reached[i]:
            continue
        if whole[i]:
            taken[i] = True
        else:
            for side in range(2):
                if children[i, side] >= 0:
                    reached[children[i, side]] = True


def cut_into(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray, k: int) -> tuple[float, np.ndarray]:
    """The k disjoint nodes with the largest sum of size times score, and that sum per row of the root.

    The sum is minus infinity, and there are no nodes, where the v nodes do not hold k disjoint ones.
    """
    best, left = _by_number(sizes, children, scores, k)
    if not np.isfinite(best[0, k]):
        return -np.inf, np.empty(0, dtype=np.int64)
    taken, open_nodes = [], [(0, k)]
    while open_nodes:
        node, number = open_nodes.pop()
        share = int(left[node, number])
        if share < 0:
            taken.append(node)
            continue
        for child, part in zip(children[node], (share, number - share), strict=True):
            if part > 0:
                open_nodes.append((int(child), part))
    return float(best[0, k] / sizes[0]), np.array(sorted(taken))


@compiled
def _by_number(
    sizes: np.ndarray, children: np.ndarray, scores: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Best sum with j nodes below each node, and how many of the j are below its first child; -1: itself."""
    v = len(sizes)
    best = np.full((v, k + 1), -np.inf)
    left = np.zeros((v, k + 1), dtype=np.int64)
    for i in range(v - 1, -1, -1):
        best[i, 0] = 0.0
        for j in range(1, k + 1):
            if j == 1:
                best[i, 1], left[i, 1] = sizes[i] * scores[i], -1
            for a in range(j + 1):
                value = 0.0
                for child, part in ((children[i, 0], a), (children[i, 1], j - a)):
                    if part > 0:
                        value += best[child, part] if child >= 0 else -np.inf
                if value > best[i, j]:
                    best[i, j], left[i, j] = value, a
    return best, left


def decisions(sizes: np.ndarray, children: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """What the best cut does with v nodes: 1 it is taken, 0 the cut is below it, -1 above it, (v,)."""
    _, whole = _values_and_decisions(sizes, children, scores)
    reached = np.zeros(len(whole), dtype=bool)
    reached[0] = True
    for i in np.flatnonzero(~whole):  # parents come before their children
        if reached[i]:
            reached[children[i][children[i] >= 0]] = True
    return np.where(reached, whole.astype(np.int64), -1)


def labels_of_cut(nodes: Nodes, cut: np.ndarray) -> np.ndarray:
    """Labels (m,) of a cut, -1 for rows that are below none of its nodes."""
    labels = np.full(nodes.tree.n_rows, -1)
    for label, node in enumerate(nodes.nodes[cut]):
        labels[nodes.tree.rows(int(node))] = label
    return labels


def highest_cut(tree: Tree, k: int) -> np.ndarray:
    """Labels (m,) of the k parts that the last k - 1 merges have joined."""
    labels = np.zeros(tree.n_rows, dtype=np.int64)
    last = len(tree.children) - 1
    for label in range(1, k):  # from the root down: what is below a part is renamed after it
        labels[tree.rows(int(tree.children[last + 1 - label, 1]))] = label
    return labels


def best_overlaps(nodes: Nodes, truth: np.ndarray) -> np.ndarray:
    """Intersection over union of each node with the true cluster that it matches best, (v,).

    ``truth`` (m,) has labels from 0 on; rows with -1 belong nowhere and do not count.
    """
    starts = nodes.tree.starts[nodes.nodes]
    return _overlaps(truth[nodes.tree.order], starts, starts + nodes.sizes, int(truth.max()) + 1)


@compiled
def _overlaps(truth: np.ndarray, starts: np.ndarray, ends: np.ndarray, n_clusters: int) -> np.ndarray:
    m = len(truth)
    before = np.zeros((m + 1, n_clusters))
    for r in range(m):
        before[r + 1] = before[r]
        if truth[r] >= 0:
            before[r + 1, truth[r]] += 1
    result = np.zeros(len(starts))
    for i in range(len(starts)):
        inside = before[ends[i]] - before[starts[i]]
        total = inside.sum()
        for c in range(n_clusters):
            if inside[c] > 0:
                result[i] = max(result[i], inside[c] / (before[m, c] + total - inside[c]))
    return result
