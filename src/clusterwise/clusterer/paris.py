"""Paris: a hierarchy of the nodes of a graph (Bonald, Charpentier, Galland and Hollocou, 2018)."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_matrix

from clusterwise._compiled import compiled
from clusterwise.clusterer.agglomerative import named_by_merges

__all__ = ["paris_linkage"]

# Height of the joins between parts without an edge, relative to the largest height within a part.
FARTHER = 10


def paris_linkage(graph: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of a graph, symmetric weights (m, m), columns of each row in order.

    Two clusters a and b are as near as w_ab / (p_a p_b) is large, w the weight of the edges between them and
    p that of all their edges. Parts without an edge between them are joined last, in the order of their
    first nodes.
    """
    masses = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    room = graph.nnz + 1
    ends, weights = np.empty(2 * room, dtype=np.int64), np.empty(2 * room)
    ends[: graph.nnz], weights[: graph.nnz] = graph.indices, graph.data
    starts = graph.indptr.astype(np.int64)
    m = len(masses)
    pairs, heights = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    alive, chain = np.ones(m, dtype=bool), np.empty(m, dtype=np.int64)
    packed = np.empty_like(ends), np.empty_like(weights)
    _merge(starts[:-1].copy(), np.diff(starts), ends, weights, masses, alive, chain, *packed, pairs, heights)
    finite = heights[np.isfinite(heights)]
    heights = np.minimum(heights, FARTHER * max(1.0, float(finite.max(initial=0.0))))
    order = np.argsort(heights, kind="stable")
    return named_by_merges(pairs[order]), heights[order]


@compiled
def _merge(
    starts: np.ndarray,
    counts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    masses: np.ndarray,
    alive: np.ndarray,
    chain: np.ndarray,
    packed_ends: np.ndarray,
    packed_weights: np.ndarray,
    pairs: np.ndarray,
    heights: np.ndarray,
) -> None:
    """Merge mutual nearest neighbours, found along chains; a cluster is named by its first node.

    The neighbours of cluster c, in order, are at ``starts[c]`` in ``ends`` and ``weights``, ``counts[c]`` of
    them. These have twice the room that is needed: a new list goes to the end, and where that is
    reached all lists move together, to ``packed_ends`` and ``packed_weights``. All clusters are ``alive``
    (m,) at first; ``chain`` (m,) is room.
    """
    m, last = len(masses), starts[-1] + counts[-1]
    total = 0.0
    for c in range(m):
        total += masses[c]
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
        for e in range(starts[node], starts[node] + counts[node]):
            other = ends[e]
            closeness = weights[e] / (masses[node] * masses[other])
            # Of equals the one that the chain came from, or else it would never end.
            if closeness > best or (closeness == best and other == before):
                best, nearest = closeness, other
        if nearest < 0:  # nothing is left of this part of the graph
            unfinished = -1
            for other in range(m):
                if alive[other] and other != node:
                    if counts[other] == 0:
                        nearest = other
                        break
                    if unfinished < 0:
                        unfinished = other
            if nearest < 0:  # another part first
                chain[0] = unfinished
                length = 1
                continue
            length = max(length - 1, 0)
            heights[merged] = math.inf
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
        if last + counts[low] + counts[high] > len(ends):
            last = 0
            for c in range(m):
                if alive[c]:
                    for e in range(counts[c]):
                        packed_ends[last + e], packed_weights[last + e] = (
                            ends[starts[c] + e],
                            weights[starts[c] + e],
                        )
                    starts[c] = last
                    last += counts[c]
            ends, packed_ends = packed_ends, ends
            weights, packed_weights = packed_weights, weights
        alive[high] = False
        masses[low] += masses[high]
        # the neighbours of both, in order
        a, b, new = starts[low], starts[high], last
        a_end, b_end = a + counts[low], b + counts[high]
        while a < a_end or b < b_end:
            if b == b_end or (a < a_end and ends[a] < ends[b]):
                other, weight = ends[a], weights[a]
                a += 1
            elif a == a_end or ends[b] < ends[a]:
                other, weight = ends[b], weights[b]
                b += 1
            else:
                other, weight = ends[a], weights[a] + weights[b]
                a += 1
                b += 1
            if other != low and other != high:
                ends[new], weights[new] = other, weight
                new += 1
        # in the lists of the neighbours ``low`` takes the place of ``high``
        for e in range(last, new):
            other = ends[e]
            start, end = starts[other], starts[other] + counts[other]
            place = start
            while place < end and ends[place] < low:
                place += 1
            gone = place
            while gone < end and ends[gone] < high:
                gone += 1
            known = place < end and ends[place] == low
            if gone < end and ends[gone] == high:
                if known:
                    for i in range(gone, end - 1):
                        ends[i], weights[i] = ends[i + 1], weights[i + 1]
                    counts[other] -= 1
                else:
                    for i in range(gone, place, -1):
                        ends[i], weights[i] = ends[i - 1], weights[i - 1]
            ends[place], weights[place] = low, weights[e]
        starts[low], counts[low] = last, new - last
        last = new
