"""The linkage trees that candidate clusters are taken from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.agglomerative import ward_linkage
from clusterwise.clusterer.graph import Edges, Neighbourhood
from clusterwise.clusterer.tree import Tree, tree_of_merges

__all__ = ["LINKAGES", "gini_linkage", "trees_of"]


def _ward(near: Neighbourhood) -> tuple[np.ndarray, np.ndarray]:
    return ward_linkage(near.points)


def _of_edges(
    edges: Callable[[Neighbourhood], Edges], threshold: float
) -> Callable[[Neighbourhood], tuple[np.ndarray, np.ndarray]]:
    return lambda near: gini_linkage(edges(near), threshold)


def _plain(near: Neighbourhood) -> Edges:
    return near.plain


def _reachability(near: Neighbourhood) -> Edges:
    return near.reachability


LINKAGES: Mapping[str, Callable[[Neighbourhood], tuple[np.ndarray, np.ndarray]]] = {
    "ward": _ward,
    "single": _of_edges(_reachability, 1.0),
    "gini-.3": _of_edges(_plain, 0.3),
    "gini-.5-reachability": _of_edges(_reachability, 0.5),
}


def trees_of(near: Neighbourhood, kinds: tuple[str, ...] = tuple(LINKAGES)) -> list[Tree]:
    """The trees of one data set."""
    return [tree_of_merges(kind, *LINKAGES[kind](near)) for kind in kinds]


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
