"""Partitions to start from where no network gives any: small cells, put together by their evidence.

k-means cuts the data in cells of a few points. Mutual best partners among neighbouring cells are then merged,
round by round, until one is left. All of it happens on the cells' sufficient statistics, so that no point is
looked at twice.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import gammaln

from clusterwise._compiled import compiled
from clusterwise.gaussian.evidence import Sample, hyper_of, judge
from clusterwise.gaussian.mergers import near_pairs
from clusterwise.gaussian.moves import NEIGHBOURS
from clusterwise.gaussian.niw import sum_by_label

__all__ = ["cells", "first_partition", "likeliest_partition", "put_together"]

LLOYD_STEPS = 8


def cells(points: np.ndarray, k: int) -> np.ndarray:
    """Labels (n,) of k-means with at most k cells for sorted points (n, d); it starts from far points."""
    # The points are sorted: evenly spaced ones are spread over the first feature, and of these the ones far
    # from all others so far, not the farthest, which would be outliers, over the other features too.
    some = points[:: max(1, len(points) // (8 * k))]
    rank = min(max(1, len(some) // (4 * k)), len(some) - 1)
    start = np.empty(min(k, len(some)), dtype=np.int64)
    start[0] = np.square(some).sum(axis=1).argmin()
    _far_points(np.ascontiguousarray(some.T), rank, start, np.full(len(some), np.inf), np.empty(rank + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells may come out empty
        labels = kmeans2(points, some[start], iter=LLOYD_STEPS, minit="matrix")[1]
    return np.unique(labels, return_inverse=True)[1]


@compiled
def _far_points(
    columns: np.ndarray, rank: int, chosen: np.ndarray, nearest: np.ndarray, largest: np.ndarray
) -> None:
    """After the first of the ``chosen`` points (k,) choose those that are far from all chosen so far.

    ``columns`` (d, n) are the coordinates of the points. Of each round it is the point with ``rank`` others
    that are farther away. ``nearest`` (n,), infinite, and ``largest`` (rank + 1,) are room.
    """
    d, n = columns.shape
    for i in range(1, len(chosen)):
        last = chosen[i - 1]
        for place in range(rank + 1):
            largest[place] = -1.0
        for j in range(n):
            square = 0.0
            for a in range(d):
                gap = columns[a, j] - columns[a, last]
                square += gap * gap
            nearest[j] = min(nearest[j], square)
            if nearest[j] > largest[rank]:
                place = rank
                while place > 0 and largest[place - 1] < nearest[j]:
                    largest[place] = largest[place - 1]
                    place -= 1
                largest[place] = nearest[j]
        chosen[i] = 0
        while nearest[chosen[i]] != largest[rank]:
            chosen[i] += 1


def put_together(sample: Sample, labels: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Merge cells with labels (n,) until one is left; evidence and labels (n,) of every round."""
    statistics = sum_by_label(sample.lifted, labels, int(labels.max()) + 1)
    path = []
    while True:
        path.append((judge(sample, np.empty((0, 0)), 0.0, statistics).log_evidence, labels))
        if len(statistics) == 1:
            return path
        new_label = _round(sample, statistics)
        labels = new_label[labels]
        statistics = sum_by_label(statistics, new_label, int(new_label.max()) + 1)


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
    for pair in ranked[: (len(ranked) + 1) // 2]:
        if name[first[pair]] == first[pair] and name[second[pair]] == second[pair]:
            name[second[pair]] = first[pair]
    # Of equal gains a third cluster may hang on one that has merged itself.
    return np.unique(name[name], return_inverse=True)[1]


def _path(sample: Sample) -> list[tuple[float, np.ndarray]]:
    settings = sample.settings
    n = len(sample.points)
    n_cells = min(n // settings.points_per_cell + settings.spare_clusters, n // 2, settings.most_cells)
    return put_together(sample, cells(sample.points, max(1, n_cells)))


def first_partition(sample: Sample) -> np.ndarray:
    """Labels (n,) of sorted points to start a search from, with more clusters than there may be."""
    path = _path(sample)
    best = max(path, key=lambda step: step[0])[1].max() + 1
    return next(labels for _, labels in path if labels.max() + 1 <= best + sample.settings.spare_clusters)


def likeliest_partition(sample: Sample) -> np.ndarray:
    """Labels (n,) of sorted points: of all rounds of putting cells together the one with most evidence."""
    return max(_path(sample), key=lambda step: step[0])[1]
