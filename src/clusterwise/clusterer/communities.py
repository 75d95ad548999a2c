"""Communities of the neighbour graph at several resolutions, by the Leiden algorithm.

Traag, Waltman and van Eck, *From Louvain to Leiden: guaranteeing well-connected communities* (2019). The
quality of a partition is its modularity with resolution γ: the weight of the edges within communities, less
what γ times a random graph with the same degrees would have there. The choices that the paper leaves to
chance are made by the order of the nodes and by the largest gain, so that the same graph always has the same
communities.

Edges can be weighted by the neighbours that their ends share, as PhenoGraph does (Levine et al., *Data-driven
phenotypic dissection of AML reveals progenitor-like cells*, 2015): two rows of one cluster have most
neighbours in common, two rows that are near each other by chance have few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from clusterwise._compiled import compiled

__all__ = [
    "RESOLUTIONS",
    "RESOLUTIONS_OF_SHARED",
    "leiden",
    "leiden_partitions",
    "weighted_by_shared_neighbours",
]

RESOLUTIONS = (0.1, 0.3, 0.6, 1.0, 2.0)
# With edges weighted by shared neighbours; the same resolutions give smaller communities there.
RESOLUTIONS_OF_SHARED = (0.1, 0.2, 0.3, 0.45, 0.6, 1.0)
# The second starts from what the first has found.
ITERATIONS = 2
# Gains below this share of all edges are rounding.
MIN_GAIN = 1e-12


def leiden_partitions(graph: csr_matrix, by_shared: bool = False) -> list[np.ndarray]:
    """Labels (m,) of the communities of a graph (m, m) of nearest neighbours, coarse to fine.

    ``by_shared``: with edges weighted by the neighbours that their ends share.
    """
    if by_shared:
        weighted = weighted_by_shared_neighbours(graph)
        return [leiden(weighted, resolution) for resolution in RESOLUTIONS_OF_SHARED]
    return [leiden(graph, resolution) for resolution in RESOLUTIONS]


def weighted_by_shared_neighbours(graph: csr_matrix) -> csr_matrix:
    """The same edges, weighted by the share of their ends' neighbours that both have, ends included.

    The graph (m, m) is symmetric and without loops, its indices are sorted.
    """
    weights = np.empty(len(graph.indices))
    _weigh_by_shared(graph.indptr, graph.indices, weights)
    return csr_matrix((weights, graph.indices, graph.indptr), shape=graph.shape)


@compiled
def _weigh_by_shared(starts: np.ndarray, ends: np.ndarray, weights: np.ndarray) -> None:
    """Jaccard index of the neighbours of both ends of each edge; each row is its own neighbour, too."""
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            j = ends[e]
            a, b, shared = starts[i], starts[j], 2  # i and j are neighbours of each other
            while a < starts[i + 1] and b < starts[j + 1]:
                if ends[a] == ends[b]:
                    shared += 1
                    a += 1
                    b += 1
                elif ends[a] < ends[b]:
                    a += 1
                else:
                    b += 1
            of_both = starts[i + 1] - starts[i] + starts[j + 1] - starts[j] + 2
            weights[e] = shared / (of_both - shared)


def leiden(graph: csr_matrix, resolution: float) -> np.ndarray:
    """Labels (m,) of the communities of a symmetric graph (m, m) without loops."""
    whole = _Graph(
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int64),
        graph.data.astype(np.float64),
        np.asarray(graph.sum(axis=1), dtype=np.float64).ravel(),
    )
    labels = np.arange(graph.shape[0])
    if whole.strengths.any():
        for _ in range(ITERATIONS):
            labels = _iterate(whole, labels, resolution)
    return labels


@dataclass(frozen=True)
class _Graph:
    """A symmetric graph of m nodes without loops; those next to a node are in order."""

    starts: np.ndarray  # (m + 1,) first edge of each node
    ends: np.ndarray  # (e,)
    weights: np.ndarray  # (e,)
    strengths: np.ndarray  # (m,) weight of each node's edges, loops of aggregated ones included


def _iterate(graph: _Graph, labels: np.ndarray, resolution: float) -> np.ndarray:
    """Move nodes, refine and aggregate, starting from labels (m,), until nothing can be aggregated."""
    total = graph.strengths.sum()
    rate, least = resolution / total, MIN_GAIN * total
    nodes = np.arange(len(labels))  # of the graph as it is aggregated, for each row
    while True:
        edges = graph.starts, graph.ends, graph.weights, graph.strengths
        m = len(graph.strengths)
        numbers, reals = np.zeros((5, m), dtype=np.int64), np.zeros((4, m))
        labels, parts = labels.copy(), np.empty(m, dtype=np.int64)
        _move(*edges, labels, rate, least, numbers, reals)
        labels = _numbered(labels)
        _refine(*edges, labels, rate, parts, numbers, reals)
        parts = _numbered(parts)
        n_parts = int(parts.max()) + 1
        if n_parts == m:
            return labels[nodes]
        of_parts = np.empty(n_parts, dtype=np.int64)
        of_parts[parts] = labels
        nodes, labels = parts[nodes], of_parts
        graph = _aggregated(graph, parts, n_parts)


def _aggregated(graph: _Graph, parts: np.ndarray, n_parts: int) -> _Graph:
    """The graph of parts (m,): weights between them, without loops."""
    own = np.repeat(parts, np.diff(graph.starts))
    other = parts[graph.ends]
    between = own != other
    weights = coo_matrix((graph.weights[between], (own[between], other[between])), shape=(n_parts, n_parts))
    merged = weights.tocsr()
    merged.sort_indices()
    return _Graph(
        merged.indptr.astype(np.int64),
        merged.indices.astype(np.int64),
        merged.data,
        np.bincount(parts, weights=graph.strengths),
    )


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Labels (m,), from 0 to m - 1, without gaps and in their order."""
    used = np.zeros(len(labels), dtype=np.int64)
    used[labels] = 1
    return (used.cumsum() - 1)[labels]


@compiled
def _move(
    starts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
    labels: np.ndarray,
    rate: float,
    least: float,
    numbers: np.ndarray,
    reals: np.ndarray,
) -> None:
    """Move single nodes to the community with the largest gain, until no move gains; changes labels (m,).

    Nodes wait in a queue; the neighbours of one that has moved join it again. ``numbers`` (5, m) and
    ``reals`` (4, m), zeros, are room.
    """
    m = len(strengths)
    queue, waits, sizes, seen, empty = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    totals, links = reals[0], reals[1]  # links: from the node to each community
    for i in range(m):
        totals[labels[i]] += strengths[i]
        sizes[labels[i]] += 1
        queue[i], waits[i] = i, 1
    n_empty = 0
    for c in range(m):
        if sizes[c] == 0:
            empty[n_empty] = c
            n_empty += 1
    first, n_waiting = 0, m
    while n_waiting > 0:
        i = queue[first]
        first = first + 1 if first + 1 < m else 0
        n_waiting -= 1
        waits[i] = 0
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
        if most < 0.0 and sizes[own] > 1 and n_empty > 0:
            n_empty -= 1
            best = empty[n_empty]
        for s in range(n_seen):
            links[seen[s]] = 0.0
        totals[best] += strengths[i]
        if best != own:
            labels[i] = best
            sizes[own] -= 1
            sizes[best] += 1
            if sizes[own] == 0:
                empty[n_empty] = own
                n_empty += 1
            for e in range(starts[i], starts[i + 1]):
                j = ends[e]
                if waits[j] == 0 and labels[j] != best:
                    waits[j] = 1
                    last = first + n_waiting
                    queue[last if last < m else last - m] = j
                    n_waiting += 1


@compiled
def _refine(
    starts: np.ndarray,
    ends: np.ndarray,
    weights: np.ndarray,
    strengths: np.ndarray,
    labels: np.ndarray,
    rate: float,
    parts: np.ndarray,
    numbers: np.ndarray,
    reals: np.ndarray,
) -> None:
    """Parts (m,) of the communities: nodes that are well connected join the part with the largest gain.

    ``numbers`` (5, m) and ``reals`` (4, m) are room.
    """
    m = len(strengths)
    alone, seen = numbers[0], numbers[1]
    of_community, inside, totals, links = reals[0], reals[1], reals[2], reals[3]
    for i in range(m):
        of_community[i] = links[i] = 0.0
        totals[i], alone[i], parts[i] = strengths[i], 1, i
    for i in range(m):
        of_community[labels[i]] += strengths[i]
        inside[i] = 0.0  # weight from a part to the rest of its community
        for e in range(starts[i], starts[i + 1]):
            if labels[ends[e]] == labels[i]:
                inside[i] += weights[e]
    for i in range(m):
        whole = of_community[labels[i]]
        if alone[i] == 0 or inside[i] < rate * strengths[i] * (whole - strengths[i]):
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
            alone[i] = alone[best] = 0
        for s in range(n_seen):
            links[seen[s]] = 0.0
