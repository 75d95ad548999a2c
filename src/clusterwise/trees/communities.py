"""Communities of the neighbour graph at several resolutions, by the Leiden algorithm.

Traag, Waltman and van Eck, *From Louvain to Leiden: guaranteeing well-connected communities* (2019). The
quality of a partition is its modularity with resolution γ: the weight of the edges within communities, less
what γ times a random graph with the same degrees would have there. The choices that the paper leaves to
chance are made by the order of the nodes and by the largest gain, so that the same graph always has the same
communities.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from clusterwise._compiled import compiled
from clusterwise.trees.linkages import GRAPH_NEIGHBOURS, neighbour_graph
from clusterwise.trees.neighbourhood import Neighbourhood

__all__ = ["RESOLUTIONS", "communities", "leiden"]

RESOLUTIONS = (0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
# The second starts from what the first has found.
ITERATIONS = 2
# Gains below this share of all edges are rounding.
LEAST_GAIN = 1e-12


def communities(near: Neighbourhood) -> list[np.ndarray]:
    """Labels (m,) of the communities of the graph of nearest neighbours, coarse to fine."""
    graph = neighbour_graph(near, GRAPH_NEIGHBOURS)
    return [leiden(graph, resolution) for resolution in RESOLUTIONS]


def leiden(graph: csr_matrix, resolution: float) -> np.ndarray:
    """Labels (m,) of the communities of a symmetric graph (m, m) without loops."""
    labels = np.arange(graph.shape[0])
    strengths = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    if strengths.any():
        for _ in range(ITERATIONS):
            labels = _iterate(graph, strengths, labels, resolution)
    return labels


def _iterate(graph: csr_matrix, strengths: np.ndarray, labels: np.ndarray, resolution: float) -> np.ndarray:
    """Move nodes, refine and aggregate, starting from labels (m,), until nothing can be aggregated."""
    total = strengths.sum()
    rate, least = resolution / total, LEAST_GAIN * total
    nodes = np.arange(len(labels))  # of the graph as it is aggregated, for each row
    while True:
        edges = graph.indptr, graph.indices, np.asarray(graph.data, dtype=np.float64)
        labels = _numbered(_move(*edges, strengths, labels, rate, least))
        parts = _numbered(_refine(*edges, strengths, labels, rate))
        if parts.max() + 1 == len(parts):
            return labels[nodes]
        graph, strengths = _aggregated(graph, parts), np.bincount(parts, weights=strengths)
        of_parts = np.empty(len(strengths), dtype=np.int64)
        of_parts[parts] = labels
        nodes, labels = parts[nodes], of_parts


def _numbered(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(-1)


def _aggregated(graph: csr_matrix, parts: np.ndarray) -> csr_matrix:
    """The graph of parts (m,): weights between them, without loops."""
    edges = graph.tocoo()
    rows, columns = parts[edges.row], parts[edges.col]
    between = rows != columns
    n_parts = int(parts.max()) + 1
    shape = (n_parts, n_parts)
    return coo_matrix((edges.data[between], (rows[between], columns[between])), shape=shape).tocsr()


@compiled
def _move(
    starts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
    labels: np.ndarray,
    rate: float,
    least: float,
) -> np.ndarray:
    """Move single nodes to the community with the largest gain, until no move gains; labels (m,).

    Nodes wait in a queue; the neighbours of one that has moved join it again.
    """
    m = len(strengths)
    labels = labels.copy()
    totals, sizes = np.zeros(m), np.zeros(m, dtype=np.int64)
    for i in range(m):
        totals[labels[i]] += strengths[i]
        sizes[labels[i]] += 1
    empty = [c for c in range(m) if sizes[c] == 0]
    queue = np.arange(m)
    waiting = np.ones(m, dtype=np.bool_)
    first, n_waiting = 0, m
    links = np.zeros(m)  # from the node to each community
    seen = np.empty(m, dtype=np.int64)
    while n_waiting > 0:
        i = queue[first]
        first = (first + 1) % m
        n_waiting -= 1
        waiting[i] = False
        own = labels[i]
        n_seen = 0
        for e in range(starts[i], starts[i + 1]):
            c = labels[ends[e]]
            if links[c] == 0.0:
                seen[n_seen] = c
                n_seen += 1
            links[c] += weights[e]
        totals[own] -= strengths[i]
        best, most = own, links[own] - rate * strengths[i] * totals[own] + least
        for s in range(n_seen):
            gain = links[seen[s]] - rate * strengths[i] * totals[seen[s]]
            if gain > most:
                best, most = seen[s], gain
        if most < 0.0 and sizes[own] > 1 and len(empty) > 0:
            best = empty.pop()
        for s in range(n_seen):
            links[seen[s]] = 0.0
        totals[best] += strengths[i]
        if best != own:
            labels[i] = best
            sizes[own] -= 1
            sizes[best] += 1
            if sizes[own] == 0:
                empty.append(own)
            for e in range(starts[i], starts[i + 1]):
                j = ends[e]
                if not waiting[j] and labels[j] != best:
                    waiting[j] = True
                    queue[(first + n_waiting) % m] = j
                    n_waiting += 1
    return labels


@compiled
def _refine(
    starts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
    labels: np.ndarray,
    rate: float,
) -> np.ndarray:
    """Parts (m,) of the communities: nodes that are well connected join the part with the largest gain."""
    m = len(strengths)
    of_community = np.zeros(m)
    for i in range(m):
        of_community[labels[i]] += strengths[i]
    inside = np.zeros(m)  # weight from a part to the rest of its community
    for i in range(m):
        for e in range(starts[i], starts[i + 1]):
            if labels[ends[e]] == labels[i]:
                inside[i] += weights[e]
    parts, totals, alone = np.arange(m), strengths.copy(), np.ones(m, dtype=np.bool_)
    links, seen = np.zeros(m), np.empty(m, dtype=np.int64)
    for i in range(m):
        whole = of_community[labels[i]]
        if not alone[i] or inside[i] < rate * strengths[i] * (whole - strengths[i]):
            continue
        n_seen = 0
        for e in range(starts[i], starts[i + 1]):
            j = ends[e]
            if labels[j] == labels[i]:
                if links[parts[j]] == 0.0:
                    seen[n_seen] = parts[j]
                    n_seen += 1
                links[parts[j]] += weights[e]
        best, most = i, 0.0
        for s in range(n_seen):
            part = seen[s]
            connected = inside[part] >= rate * totals[part] * (whole - totals[part])
            gain = links[part] - rate * strengths[i] * totals[part]
            if connected and gain > most:
                best, most = part, gain
        if best != i:
            inside[best] += inside[i] - 2 * links[best]
            totals[best] += strengths[i]
            totals[i] = 0.0
            parts[i] = best
            alone[i], alone[best] = False, False
        for s in range(n_seen):
            links[seen[s]] = 0.0
    return parts
