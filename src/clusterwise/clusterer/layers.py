"""Partitions with other numbers of clusters than a given one: its clusters are merged whole, or split."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from clusterwise.clusterer.cluster import Chosen
from clusterwise.clusterer.trees import tree_of_merges, ward_linkage

__all__ = ["merged_to", "partition_into", "split_to"]

# Asked for a number of clusters that is less probable, a better known partition is merged or split.
MIN_PROBABILITY = 0.1
# Rows whose distances to all others are in memory at a time.
CHUNK = 500
# Merges of equal rows have no height but that of rounding, relative to the largest number.
ROUNDING = 1e-12


def partition_into(chosen: Chosen, n_clusters: int) -> np.ndarray:
    """Labels (m,) of a partition of the judged rows into ``n_clusters``.

    It is the best candidate with that number of clusters if the number is probable, or else the one with the
    probable number next to it on the way to the answer's, with clusters merged or split.
    """
    answer = chosen.candidates[0]
    known = {int(answer.max()) + 1: answer}
    for labels in chosen.candidates:  # the best first
        number = int(labels.max()) + 1
        if chosen.k_posterior.get(number, 0.0) >= MIN_PROBABILITY:
            known.setdefault(number, labels)
    if n_clusters in known:
        return known[n_clusters]
    points = chosen.context.points
    if n_clusters < answer.max() + 1:
        return merged_to(points, known[min(k for k in known if k > n_clusters)], n_clusters)
    return split_to(points, known[max(k for k in known if k < n_clusters)], n_clusters)


def merged_to(points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Merge clusters until k are left, always the two with the smallest mean distance between their rows.

    Parameters
    ----------
    points : array of shape (m, f)
    labels : int array of shape (m,)
        0..K-1, all in use.
    k : int
        At most K.

    Returns
    -------
    int array of shape (m,)
        Labels 0..k-1. For a smaller k the same merges come first, so all results are nested.
    """
    sums, sizes = _sums_of_distances(points, labels), np.bincount(labels).astype(float)
    names = np.arange(len(sizes))  # the merged cluster that each one is in
    alive = list(range(len(sizes)))
    while len(alive) > k:
        means = sums[np.ix_(alive, alive)] / np.outer(sizes[alive], sizes[alive])
        np.fill_diagonal(means, np.inf)
        first, second = sorted(alive[place] for place in np.unravel_index(means.argmin(), means.shape))
        sums[first] += sums[second]
        sums[:, first] += sums[:, second]
        sizes[first] += sizes[second]
        names[names == second] = first
        alive.remove(second)
    return np.searchsorted(alive, names)[labels]


def _sums_of_distances(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sums (K, K) of the distances between the rows of each two clusters."""
    indicators = np.eye(int(labels.max()) + 1)[labels]
    sums = np.zeros((indicators.shape[1], indicators.shape[1]))
    for start in range(0, len(points), CHUNK):
        rows = slice(start, start + CHUNK)
        sums += indicators[rows].T @ (cdist(points[rows], points) @ indicators)
    return sums


def split_to(points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Split clusters until there are k, always the one with the highest last merge of Ward's linkage.

    Parameters
    ----------
    points : array of shape (m, f)
    labels : int array of shape (m,)
        0..K-1, all in use.
    k : int
        At least K.

    Returns
    -------
    int array of shape (m,)
        Labels 0..k-1. For a larger k the same splits come first, so all results are nested. Rows that are
        equal are not split, so there are fewer than k clusters if there are fewer than k different rows.
    """
    labels, n_clusters = labels.copy(), int(labels.max()) + 1
    least = ROUNDING * np.abs(points).max()
    members = [np.flatnonzero(labels == label) for label in range(n_clusters)]
    trees = [tree_of_merges("ward", *ward_linkage(points[rows])) for rows in members]
    # Below a merge all others are lower, so from the highest on each one is undone after those above it.
    merges = [
        (-float(tree.heights[node]), which, -node)
        for which, tree in enumerate(trees)
        for node in range(tree.n_rows, 2 * tree.n_rows - 1)
        if tree.heights[node] > least
    ]
    for label, (_, which, node) in enumerate(sorted(merges)[: k - n_clusters], start=n_clusters):
        tree = trees[which]
        labels[members[which][tree.rows(int(tree.children[-node, 1]))]] = label
    return labels
