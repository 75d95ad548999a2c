"""Paris: a hierarchy of the nodes of a graph (Bonald, Charpentier, Galland and Hollocou, 2018)."""

from __future__ import annotations

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["paris_linkage"]


def paris_linkage(adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of a graph, symmetric weights (m, m), which is used up.

    Two clusters a and b are as near as w_ab / (p_a p_b) is large, w the weight of the edges between them and
    p that of all their edges. Parts without an edge between them are joined last, in the order of their
    first nodes.
    """
    pairs, heights = _chain(adjacency)
    order = np.argsort(heights, kind="stable")
    return _renamed(pairs[order]), heights[order]


@compiled
def _chain(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merge mutual nearest neighbours, found along chains; a cluster is named by its first node."""
    m = len(weights)
    masses = weights.sum(axis=1)
    total = masses.sum()
    alive = np.ones(m, dtype=np.bool_)
    pairs, heights = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    chain = np.empty(m, dtype=np.int64)
    length, merged, first = 0, 0, 0
    while merged < m - 1:
        if length == 0:
            while not alive[first]:
                first += 1
            chain[0] = first
            length = 1
        node = chain[length - 1]
        before = chain[length - 2] if length > 1 else -1
        best, nearest = 0.0, -1
        for other in range(m):
            if alive[other] and other != node and weights[node, other] > 0:
                closeness = weights[node, other] / (masses[node] * masses[other])
                # Of equals the one that the chain came from, or else it would never end.
                if closeness > best or (closeness == best and other == before):
                    best, nearest = closeness, other
        if nearest < 0:  # nothing is left of this part of the graph
            nearest = -1
            for other in range(m):
                if alive[other] and other != node and _is_finished(weights, alive, other):
                    nearest = other
                    break
            if nearest < 0:  # another part first
                for other in range(m):
                    if alive[other] and other != node:
                        chain[0] = other
                        length = 1
                        break
                continue
            length = max(length - 1, 0)
            heights[merged] = np.inf
        elif nearest != before:
            chain[length] = nearest
            length += 1
            continue
        else:
            length -= 2
            heights[merged] = 1 / (best * total)
        low, high = min(node, nearest), max(node, nearest)
        pairs[merged, 0], pairs[merged, 1] = low, high
        merged += 1
        alive[high] = False
        masses[low] += masses[high]
        for other in range(m):
            if alive[other] and other != low:
                joint = weights[low, other] + weights[high, other]
                weights[low, other] = joint
                weights[other, low] = joint
    largest = 1.0
    for height in heights:
        if np.isfinite(height):
            largest = max(largest, height)
    for i in range(m - 1):
        if not np.isfinite(heights[i]):
            heights[i] = 10 * largest
    return pairs, heights


@compiled
def _is_finished(weights: np.ndarray, alive: np.ndarray, node: int) -> bool:
    """Whether no edge leads from a cluster to another."""
    for other in range(len(weights)):
        if alive[other] and other != node and weights[node, other] > 0:
            return False
    return True


@compiled
def _renamed(pairs: np.ndarray) -> np.ndarray:
    """Name clusters by the merge that made them, in place of their first node."""
    m = len(pairs) + 1
    names, merges = np.arange(m), np.empty((m - 1, 2), dtype=np.int64)
    for i in range(m - 1):
        low, high = pairs[i, 0], pairs[i, 1]
        merges[i, 0], merges[i, 1] = names[low], names[high]
        names[low] = m + i
    return merges
