"""Splits of a cluster in many parts at once, where no cut in two would convince.

Three clusters in a row, or a hundred scattered ones taken for a single cluster: whatever line cuts them, it
passes through some of them. Such a cluster is cut in many small pieces by k-means, and pieces are put
together again unless there is a valley between them. What remains in several parts was several clusters.
"""

from __future__ import annotations

import numpy as np

from clusterwise.polish.evidence import Data, Moments, State, log_evidence
from clusterwise.polish.splits import Split

__all__ = ["VERY_ODD", "shattered"]

# Clusters less odd than this, in the units of ``oddness``, are not worth the trouble.
VERY_ODD = 30.0
# Numbers of pieces that are tried, each for clusters with at least so many points per piece.
PIECES = (4, 12, 36, 108, 324)
POINTS_PER_PIECE = 15
# The middle third between two means is a valley if it holds less than this share of the points on either
# side of it, and fewer than a flat stretch would by so many standard deviations.
VALLEY = 0.3
SIGNIFICANT = 2.5
# Each piece is compared with so many nearest ones.
NEIGHBOURS = 6
LLOYD_STEPS = 10


def _pieces(points: np.ndarray, k: int) -> np.ndarray:
    """Labels (n,) of k-means; it starts from points far from each other, the first nearest to the centre."""
    start = [int(np.square(points).sum(axis=1).argmin())]
    nearest = np.square(points - points[start[0]]).sum(axis=1)
    # Not the farthest point, which would be an outlier, but one with a few others beyond it.
    rank = len(points) - max(1, len(points) // (4 * k))
    for _ in range(k - 1):
        start.append(int(np.argpartition(nearest, rank)[rank]))
        nearest = np.minimum(nearest, np.square(points - points[start[-1]]).sum(axis=1))
    means = points[start]
    for _ in range(LLOYD_STEPS):
        labels = _nearest(points, means)
        counts = np.bincount(labels, minlength=len(means))
        sums = np.stack([np.bincount(labels, column, minlength=len(means)) for column in points.T], axis=1)
        means = sums[counts > 0] / counts[counts > 0, None]
    return np.unique(_nearest(points, means), return_inverse=True)[1]


def _nearest(points: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Index of the mean nearest to each point, (n,)."""
    nearest: np.ndarray = (np.square(means).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
    return nearest


def has_valley(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether points (n, d) and (m, d) are apart: few lie in a third of the way between their means."""
    gap = second.mean(axis=0) - first.mean(axis=0)
    length = np.square(gap).sum()
    if length == 0:
        return False
    place = (np.concatenate([first, second]) - first.mean(axis=0)) @ gap / length  # 0 and 1 at the means
    place.sort()
    bottoms = np.linspace(0.3, 0.7, 9)
    left, right = np.searchsorted(place, bottoms - 1 / 6), np.searchsorted(place, bottoms + 1 / 6)
    inside = right - left
    between = np.searchsorted(place, 1.0) - np.searchsorted(place, 0.0)
    flat = between / 3
    deep = inside < VALLEY * np.minimum(left, len(place) - right)
    return bool((deep & (flat - inside > SIGNIFICANT * np.sqrt(max(flat, 1e-9)))).any())


def _put_together(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Join pieces without a valley between them, nearest first, until there is one between all neighbours."""
    groups = {j: points[labels == j] for j in range(labels.max() + 1)}
    name = np.arange(labels.max() + 1)
    apart: set[tuple[int, int]] = set()
    while len(groups) > 1:
        keys = np.array(sorted(groups))
        means = np.stack([groups[key].mean(axis=0) for key in keys])
        distances = np.square(means[:, None] - means).sum(axis=2)
        np.fill_diagonal(distances, np.inf)
        n_near = min(NEIGHBOURS, len(keys) - 1)
        near = np.argsort(distances, axis=1, kind="stable")[:, :n_near]
        pairs = {(min(i, int(j)), max(i, int(j))) for i, row in enumerate(near) for j in row}
        for i, j in sorted(pairs, key=lambda pair: distances[pair]):
            first, second = int(keys[i]), int(keys[j])
            if (first, second) in apart:
                continue
            if has_valley(groups[first], groups[second]):
                apart.add((first, second))
                continue
            groups[first] = np.concatenate([groups[first], groups.pop(second)])
            name[name == second] = first
            apart = {pair for pair in apart if first not in pair and second not in pair}
            break
        else:
            break
    return np.unique(name[labels], return_inverse=True)[1]


def shattered(data: Data, state: State, j: int) -> Split | None:
    """Best split of a suspect cluster ``j`` in parts with valleys between them, if it has such parts."""
    rows = np.nonzero(state.memberships[j] > 0.5)[0]
    if len(rows) < PIECES[0] * POINTS_PER_PIECE:
        return None
    points = data.points[rows]
    scaled = points / np.sqrt(np.maximum(points.var(axis=0), 1e-300))
    others = Moments(*(np.delete(values, j, axis=0) for values in state.moments))
    alone = state.log_evidence - state.entropy
    best: Split | None = None
    for k in PIECES:
        if len(rows) < k * POINTS_PER_PIECE:
            break
        labels = _put_together(scaled, _pieces(scaled - scaled.mean(axis=0), k))
        n_parts = int(labels.max()) + 1
        if n_parts == 1:
            continue
        parts = np.zeros((n_parts, len(data.points)))
        parts[labels, rows] = state.memberships[j, rows]
        # Rows that hardly belong here go with the first part; EM will place them.
        parts[0] += np.where(parts.sum(axis=0) > 0, 0.0, state.memberships[j])
        moments = data.moments(parts)
        joined = Moments(*(np.concatenate(pair) for pair in zip(others, moments, strict=True)))
        gain = float(log_evidence(data, joined)[0] - alone)
        if best is None or gain > best.gain:
            best = Split(gain, parts)
    return best
