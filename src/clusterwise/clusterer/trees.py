"""Linkage trees over the rows, laid out so that the rows below every node stand side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.graph import Edges, Graph, first_smallest

__all__ = ["LINKAGES", "Tree", "gini_linkage", "tree_of_merges", "trees_of", "ward_linkage"]

# Once fewer than this share of the clusters is left, what is known of them is packed.
SHARE_LEFT = 0.7


@dataclass(frozen=True)
class Tree:
    """Nodes 0 .. m-1 are the rows, the later ones join two earlier ones, the last one is the root."""

    kind: str
    children: np.ndarray  # (2m - 1, 2), -1 for rows
    parents: np.ndarray  # (2m - 1,), -1 for the root
    sizes: np.ndarray  # (2m - 1,) rows below
    starts: np.ndarray  # (2m - 1,) first place in ``order`` of the rows below
    heights: np.ndarray  # (2m - 1,) where the children were joined; 0 for rows
    order: np.ndarray  # (m,) rows from left to right

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return len(self.order)

    def rows(self, node: int) -> np.ndarray:
        """The rows below a node."""
        return self.order[self.starts[node] : self.starts[node] + self.sizes[node]]

    def level(self, k: int) -> np.ndarray:
        """Labels (m,) of the k parts that there are before the last k - 1 merges."""
        first = 2 * self.n_rows - k  # of the nodes that are undone
        labels = np.zeros(self.n_rows, dtype=np.int64)
        tops = np.flatnonzero(self.parents[:first] >= first) if k > 1 else np.array([first - 1])
        for label, node in enumerate(tops):
            labels[self.rows(int(node))] = label
        return labels


def tree_of_merges(kind: str, merges: np.ndarray, heights: np.ndarray) -> Tree:
    """Lay out merges (m - 1, 2) of nodes, in scipy's numbering."""
    m = len(merges) + 1
    children, parents = np.full((2 * m - 1, 2), -1), np.full(2 * m - 1, -1)
    sizes, starts = np.ones(2 * m - 1, dtype=np.int64), np.zeros(2 * m - 1, dtype=np.int64)
    order = np.empty(m, dtype=np.int64)
    _lay_out(np.ascontiguousarray(merges, dtype=np.int64), children, parents, sizes, starts, order)
    full = np.concatenate([np.zeros(len(order)), np.asarray(heights, dtype=np.float64)])
    return Tree(kind, children, parents, sizes, starts, full, order)


@compiled
def _lay_out(
    merges: np.ndarray,
    children: np.ndarray,
    parents: np.ndarray,
    sizes: np.ndarray,
    starts: np.ndarray,
    order: np.ndarray,
) -> None:
    """Write the other arrays of a ``Tree``, which are -1, -1, ones, zeros and room."""
    m = len(order)
    for i in range(m - 1):
        left, right = merges[i, 0], merges[i, 1]
        children[m + i, 0], children[m + i, 1] = left, right
        parents[left] = parents[right] = m + i
        sizes[m + i] = sizes[left] + sizes[right]
    for node in range(2 * m - 2, m - 1, -1):
        left, right = children[node, 0], children[node, 1]
        starts[left] = starts[node]
        starts[right] = starts[node] + sizes[left]
    for row in range(m):
        order[starts[row]] = row


# How each tree is made: merges (m - 1, 2) of nodes, in scipy's numbering, and their heights.
LINKAGES: Mapping[str, Callable[[Graph], tuple[np.ndarray, np.ndarray]]] = {
    "ward": lambda graph: ward_linkage(graph.points),
    "single": lambda graph: gini_linkage(graph.reachability, 1.0),
    "gini-.3": lambda graph: gini_linkage(graph.plain, 0.3),
    "gini-.5-reachability": lambda graph: gini_linkage(graph.reachability, 0.5),
}


def trees_of(graph: Graph, kinds: tuple[str, ...] = tuple(LINKAGES)) -> list[Tree]:
    """The linkage trees of the rows of a graph."""
    return [tree_of_merges(kind, *LINKAGES[kind](graph)) for kind in kinds]


def ward_linkage(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of Ward's linkage of points (m, f), along chains (Murtagh, 1983)."""
    m = len(points)
    pairs, squares = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    chain, far = np.empty(m, dtype=np.int64), np.empty(m)
    _chain_of_centres(points.T.copy(), np.arange(m), np.ones(m), chain, far, pairs, squares)
    heights = np.sqrt(2 * squares)
    order = np.argsort(heights, kind="stable")
    return np.sort(_numbered(pairs[order]), axis=1), heights[order]


@compiled
def _chain_of_centres(
    columns: np.ndarray,
    rows: np.ndarray,
    sizes: np.ndarray,
    chain: np.ndarray,
    far: np.ndarray,
    pairs: np.ndarray,
    heights: np.ndarray,
) -> None:
    """Write pairs (m - 1, 2) of rows whose clusters are merged, and half their squared heights, as found.

    ``columns`` (f, m) of the table become the centres of the clusters; ``rows`` (m,), from 0 on, hold a row
    of the cluster at each place, ``sizes`` (m,), ones, its size; ``chain`` and ``far`` (m,) are room. Two
    clusters are as near as the squared deviations from the centre grow by a merger; a cluster that has gone
    is infinitely far away.
    """
    f, m = columns.shape
    n = m  # places; those of clusters that have gone are given up from time to time
    length = 0
    for merged in range(m - 1):
        if m - merged < SHARE_LEFT * n:
            kept = 0
            for old in range(n):
                if sizes[old] > 0:
                    for i in range(length):
                        if chain[i] == old:
                            chain[i] = kept
                    rows[kept], sizes[kept] = rows[old], sizes[old]
                    for a in range(f):
                        columns[a, kept] = columns[a, old]
                    kept += 1
            n = kept
        if length == 0:
            chain[0], length = 0, 1
            while sizes[chain[0]] == 0:
                chain[0] += 1
        while True:
            here = chain[length - 1]
            there = chain[length - 2] if length > 1 else -1
            own = columns[0, here]
            for j in range(n):
                gap = columns[0, j] - own
                far[j] = gap * gap
            for a in range(1, f):
                own = columns[a, here]
                for j in range(n):
                    gap = columns[a, j] - own
                    far[j] += gap * gap
            own = sizes[here]
            for j in range(n):
                # Not 0 x infinity, which is no number: equal rows are at the same place.
                far[j] = far[j] * (own * sizes[j] / (own + sizes[j])) if sizes[j] > 0 else math.inf
            far[here] = math.inf
            nearest = first_smallest(far, n)
            # Of equals the one that the chain came from, or else it would never end.
            if there >= 0 and not far[nearest] < far[there]:
                break
            chain[length] = nearest
            length += 1
        length -= 2
        gone, grown = min(here, there), max(here, there)
        pairs[merged, 0], pairs[merged, 1], heights[merged] = rows[gone], rows[grown], far[there]
        both = sizes[gone] + sizes[grown]
        for a in range(f):
            columns[a, grown] += (columns[a, gone] - columns[a, grown]) * (sizes[gone] / both)
        sizes[grown], sizes[gone] = both, 0.0


def _numbered(pairs: np.ndarray) -> np.ndarray:
    """Merges (m - 1, 2) in scipy's numbering, of pairs of rows whose clusters are joined, first to last."""
    m, merges = len(pairs) + 1, np.empty_like(pairs)
    _number_merges(pairs, np.arange(m), np.arange(m), merges)
    return merges


@compiled
def _number_merges(pairs: np.ndarray, parents: np.ndarray, names: np.ndarray, merges: np.ndarray) -> None:
    m = len(parents)
    for i in range(m - 1):
        a, b = pairs[i, 0], pairs[i, 1]
        while parents[a] != a:
            parents[a] = parents[parents[a]]
            a = parents[a]
        while parents[b] != b:
            parents[b] = parents[parents[b]]
            b = parents[b]
        merges[i, 0], merges[i, 1] = names[a], names[b]
        parents[b] = a
        names[a] = m + i


def gini_linkage(edges: Edges, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of the Gini-corrected single linkage (Gagolewski et al., 2016).

    Clusters are joined by the shortest edge of the spanning tree, but as long as their sizes are more
    unequal than ``threshold``, by the Gini index, one of the smallest must take part. A threshold of 1
    is single linkage.
    """
    m = len(edges.ends) + 1
    counts = np.zeros(m + 1, dtype=np.int64)
    counts[1] = m
    merges, heights = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    room = np.arange(m), np.arange(m), np.ones(m, dtype=np.int64), counts, np.ones(m - 1, dtype=bool)
    _gini(edges.ends, edges.lengths, threshold, *room, merges, heights)
    return merges, heights


@compiled
def _root(parents: np.ndarray, node: int) -> int:
    while parents[node] != node:
        parents[node] = parents[parents[node]]
        node = parents[node]
    return node


@compiled
def _gini(
    ends: np.ndarray,
    lengths: np.ndarray,
    threshold: float,
    parents: np.ndarray,
    names: np.ndarray,
    sizes: np.ndarray,
    counts: np.ndarray,
    alive: np.ndarray,
    merges: np.ndarray,
    heights: np.ndarray,
) -> None:
    """Write ``merges`` and ``heights``; see ``gini_linkage``.

    Room for m rows, each a cluster: ``parents`` (m,), ``names`` (m,) of the nodes that roots stand for,
    ``sizes`` (m,), ``counts`` (m + 1,) of clusters of each size, and whether edges are ``alive`` (m - 1,).
    """
    m = len(parents)
    first = 0
    largest = 1
    for step in range(m - 1):
        n_clusters = m - step
        while not alive[first]:
            first += 1
        edge = first
        if threshold < 1.0:
            seen, index, smallest = 0, 0.0, 0
            for size in range(1, largest + 1):
                count = counts[size]
                if count > 0:
                    if smallest == 0:
                        smallest = size
                    seen += count
                    index += size * count * (2.0 * seen - count - n_clusters)
            if n_clusters > 1 and index > threshold * (n_clusters - 1.0) * m:
                for other in range(first, m - 1):
                    if alive[other] and (
                        sizes[_root(parents, ends[other, 0])] == smallest
                        or sizes[_root(parents, ends[other, 1])] == smallest
                    ):
                        edge = other
                        break
        alive[edge] = False
        a, b = _root(parents, ends[edge, 0]), _root(parents, ends[edge, 1])
        merges[step, 0], merges[step, 1], heights[step] = names[a], names[b], lengths[edge]
        counts[sizes[a]] -= 1
        counts[sizes[b]] -= 1
        parents[b] = a
        sizes[a] += sizes[b]
        counts[sizes[a]] += 1
        largest = max(largest, sizes[a])
        names[a] = m + step
