"""Partitions to start from where no network gives any: small cells, put together by their evidence.

k-means cuts the data in cells of a few points. Mutual best partners among neighbouring cells are then merged,
round by round, until one is left. All of it happens on the cells' sufficient statistics, so that no point is
looked at twice.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from clusterwise.search.evidence import Sample, hyper_of, judge
from clusterwise.search.mergers import near_pairs

__all__ = ["cells", "first_partition", "put_together"]

POINTS_PER_CELL = 12
MOST_CELLS = 256
LLOYD_STEPS = 8
# Each cell may join one of so many neighbours; a round merges at most this share of all cells.
NEIGHBOURS = 5
SHARE_OF_ROUND = 1 / 8
# The hard partition with the largest evidence has too few clusters where these overlap. The search starts
# from an earlier round: mergers are easier to find than splits.
MORE_TIMES, MORE = 2, 8


def cells(points: np.ndarray, k: int) -> np.ndarray:
    """Labels (n,) of k-means with at most k cells for sorted points (n, d); it starts from far points."""
    # The points are sorted: evenly spaced ones are spread over the first feature, and of these the ones far
    # from all others so far, not the farthest, which would be outliers, over the other features too.
    some = points[:: max(1, len(points) // (8 * k))]
    start = [int(np.square(some).sum(axis=1).argmin())]
    nearest = np.square(some - some[start[0]]).sum(axis=1)
    rank = max(0, len(some) - 1 - max(1, len(some) // (4 * k)))
    for _ in range(min(k, len(some)) - 1):
        start.append(int(np.argpartition(nearest, rank)[rank]))
        np.minimum(nearest, np.square(some - some[start[-1]]).sum(axis=1), out=nearest)
    means = some[start]
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


def put_together(sample: Sample, labels: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Merge cells with labels (n,) until one is left; evidence and labels (n,) of every round."""
    statistics = sample.family.statistics(sample.points, labels, int(labels.max()) + 1)
    path = []
    while True:
        path.append((judge(sample, np.empty((0, 0)), 0.0, statistics).log_evidence, labels))
        if len(statistics) == 1:
            return path
        new_label = _round(sample, statistics)
        labels = new_label[labels]
        merged = np.zeros((int(new_label.max()) + 1, statistics.shape[1]))
        np.add.at(merged, new_label, statistics)
        statistics = merged


def _round(sample: Sample, statistics: np.ndarray) -> np.ndarray:
    """New labels (K,) of clusters with the given statistics after a round of mergers."""
    k = len(statistics)
    # How alike the clusters are is not known before they are found: the prior must be weak here.
    hyper = hyper_of(sample, statistics, sample.settings.strengths[1])
    first, second = near_pairs(sample, hyper, statistics, NEIGHBOURS).T
    either = np.concatenate([statistics, statistics[first] + statistics[second]])
    log_weights = hyper.prior(sample).log_marginal(either) + gammaln(either[:, 0] + 1)
    gains = log_weights[k:] - log_weights[first] - log_weights[second]
    best = np.full(k, -np.inf)
    np.maximum.at(best, first, gains)
    np.maximum.at(best, second, gains)
    mutual = np.flatnonzero((gains >= best[first]) & (gains >= best[second]))
    ranked = mutual[np.argsort(-gains[mutual], kind="stable")]
    name = np.arange(k)
    for pair in ranked[: max(1, int(k * SHARE_OF_ROUND))]:
        if name[first[pair]] == first[pair] and name[second[pair]] == second[pair]:
            name[second[pair]] = first[pair]
    # Of equal gains a third cluster may hang on one that has merged itself.
    return np.unique(name[name], return_inverse=True)[1]


def first_partition(sample: Sample) -> np.ndarray:
    """Labels (n,) of sorted points to start a search from, with more clusters than there may be."""
    n_cells = int(np.clip(len(sample.points) // POINTS_PER_CELL, 1, MOST_CELLS))
    path = put_together(sample, cells(sample.points, n_cells))
    best = max(path, key=lambda round_: round_[0])[1].max() + 1
    wanted = max(MORE_TIMES * best, best + MORE)
    return next(labels for _, labels in path if labels.max() + 1 <= wanted)
