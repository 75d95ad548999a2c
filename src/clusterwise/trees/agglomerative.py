"""Ward's and average linkage along chains of nearest neighbours (Murtagh, 1983), on a matrix that shrinks."""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["agglomerate", "named_by_merges"]

# Once fewer than this share of the clusters is left, the matrix is packed.
LEFT = 0.6


def agglomerate(distances: np.ndarray, ward: bool) -> tuple[np.ndarray, np.ndarray]:
    """Merges (m - 1, 2) and heights of Ward's linkage, or else of average linkage.

    ``distances`` (m, m), infinite on the diagonal, are used up.
    """
    pairs, heights = _chain(distances, ward)
    order = np.argsort(heights, kind="stable")
    return np.sort(named_by_merges(pairs[order]), axis=1), heights[order]


@compiled
def _chain(distances: np.ndarray, ward: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (m - 1, 2) of rows whose clusters are merged, and heights; as they are found, not sorted."""
    m = len(distances)
    n = m  # places in the matrix
    rows, sizes = np.arange(m), np.ones(m)  # a row of the cluster at each place, and its size
    chain, alive = np.empty(m, dtype=np.int64), np.ones(m, dtype=np.bool_)
    kept = np.empty(m, dtype=np.int64)
    pairs, heights = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    length, first = 0, 0
    for merged in range(m - 1):
        if m - merged < LEFT * n:
            before, n, first = n, 0, 0
            for old in range(before):
                if alive[old]:
                    kept[n] = old
                    for i in range(length):
                        if chain[i] == old:
                            chain[i] = n
                    n += 1
            for i in range(n):
                old = kept[i]
                rows[i], sizes[i], alive[i] = rows[old], sizes[old], True
                for j in range(n):
                    distances[i, j] = distances[old, kept[j]]
        if length == 0:
            while not alive[first]:
                first += 1
            chain[0], length = first, 1
        while True:
            here = chain[length - 1]
            # Of equals the one that the chain came from, or else it would never end.
            there, shortest = -1, math.inf
            if length > 1:
                there = chain[length - 2]
                shortest = distances[here, there]
            nearest = there
            for other in range(n):
                if distances[here, other] < shortest and alive[other]:
                    nearest, shortest = other, distances[here, other]
            if nearest < 0:  # infinite distances
                for other in range(n):
                    if alive[other] and other != here:
                        nearest = other
                        break
            if nearest == there:
                break
            chain[length] = nearest
            length += 1
        length -= 2
        gone, grown = min(here, there), max(here, there)
        pairs[merged, 0], pairs[merged, 1], heights[merged] = rows[gone], rows[grown], shortest
        of_gone, of_grown = sizes[gone], sizes[grown]
        both = of_gone + of_grown
        sizes[grown], alive[gone] = both, False
        if ward:
            for i in range(n):
                a, b = distances[gone, i], distances[grown, i]
                part = 1.0 / (both + sizes[i])
                new = (sizes[i] + of_gone) * part * a * a + (sizes[i] + of_grown) * part * b * b
                distances[grown, i] = math.sqrt(new - sizes[i] * part * shortest * shortest)
        else:
            for i in range(n):
                new = of_gone * distances[gone, i] + of_grown * distances[grown, i]
                distances[grown, i] = new / both
        distances[grown, grown] = math.inf
        for i in range(n):
            distances[i, grown] = distances[grown, i]
    return pairs, heights


@compiled
def named_by_merges(pairs: np.ndarray) -> np.ndarray:
    """Merges (m - 1, 2) in scipy's numbering, of pairs of rows whose clusters are joined one after another."""
    m = len(pairs) + 1
    parents, names = np.arange(m), np.arange(m)
    merges = np.empty((m - 1, 2), dtype=np.int64)
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
    return merges
