"""Cuts: disjoint nodes of a tree that are taken for the clusters, found by dynamic programming."""

from __future__ import annotations

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.features import Nodes

__all__ = [
    "best_cut",
    "best_overlaps",
    "decisions",
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
