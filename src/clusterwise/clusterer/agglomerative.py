"""Ward's linkage along chains of nearest neighbours (Murtagh, 1983)."""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.graph import first_smallest

__all__ = ["named_by_merges", "ward_linkage"]

# Once fewer than this share of the clusters is left, what is known of them is packed.
LEFT = 0.7


def ward_linkage(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of Ward's linkage of points (m, f)."""
    m = len(points)
    pairs, squares = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    chain, far = np.empty(m, dtype=np.int64), np.empty(m)
    _chain_of_centres(points.T.copy(), np.arange(m), np.ones(m), chain, far, pairs, squares)
    heights = np.sqrt(2 * squares)
    order = np.argsort(heights, kind="stable")
    return np.sort(named_by_merges(pairs[order]), axis=1), heights[order]


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
        if m - merged < LEFT * n:
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


def named_by_merges(pairs: np.ndarray) -> np.ndarray:
    """Merges (m - 1, 2) in scipy's numbering, of pairs of rows whose clusters are joined, first to last."""
    m, merges = len(pairs) + 1, np.empty_like(pairs)
    _name_by_merges(pairs, np.arange(m), np.arange(m), merges)
    return merges


@compiled
def _name_by_merges(pairs: np.ndarray, parents: np.ndarray, names: np.ndarray, merges: np.ndarray) -> None:
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
