"""Partitions to start from where no network gives any: small cells that are put together by their evidence.

k-means cuts the data in cells of a few points. Neighbours are then merged, each pair of mutual best partners in
every round, as long as the evidence of the hard partition gains, and a little longer. All of it happens on the
cells' sufficient statistics, so that no point is looked at twice.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from clusterwise.components.moves import pairs_of
from clusterwise.search.evidence import Sample, hyper_of, judge

__all__ = ["cells", "put_together"]

POINTS_PER_CELL = 12
MOST_CELLS = 256
LLOYD_STEPS = 8
NEIGHBOURS = 5


def cells(points: np.ndarray, k: int) -> np.ndarray:
    """Labels (n,) of k-means with at most k cells; it starts from points far from each other."""
    # The points are sorted: evenly spaced ones are spread over the first feature, and the farthest of
    # these from what is there are spread over the others too.
    some = points[:: max(1, len(points) // (8 * k))]
    start = [int(np.square(some).sum(axis=1).argmin())]
    nearest = np.square(some - some[start[0]]).sum(axis=1)
    rank = len(some) - 1 - max(1, len(some) // (4 * k))
    for _ in range(min(k, len(some)) - 1):
        start.append(int(np.argpartition(nearest, rank)[rank]))
        np.minimum(nearest, np.square(some - some[start[-1]]).sum(axis=1), out=nearest)
    means = some[start]
    labels = np.zeros(len(points), dtype=np.int64)
    for _ in range(LLOYD_STEPS):
        labels = (np.square(means).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
        counts = np.bincount(labels, minlength=len(means))
        sums = np.stack([np.bincount(labels, column, minlength=len(means)) for column in points.T], axis=1)
        means = sums[counts > 0] / counts[counts > 0, None]
    labels = (np.square(means).sum(axis=1) - 2 * points @ means.T).argmin(axis=1)
    return np.unique(labels, return_inverse=True)[1]


def put_together(sample: Sample, labels: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Merge cells with labels (n,) until one is left; (evidence, labels (n,)) of every round."""
    statistics = sample.family.statistics(sample.points, labels, int(labels.max()) + 1)
    path = []
    empty = np.empty((0, 0))
    while True:
        path.append((judge(sample, empty, 0.0, statistics).log_evidence, labels))
        k = len(statistics)
        if k == 1:
            return path
        hyper = hyper_of(sample, statistics, sample.settings.strengths[1])
        prior = hyper.prior(sample)
        posterior = prior.posterior(statistics)
        distances = prior.squared_distances(posterior.mean, posterior)
        distances = np.minimum(distances, distances.T)
        np.fill_diagonal(distances, np.inf)
        pairs = pairs_of(distances, NEIGHBOURS)
        first, second = pairs.T
        union = statistics[first] + statistics[second]
        log_weight = prior.log_marginal(np.concatenate([statistics, union])) + gammaln(
            np.concatenate([statistics[:, 0], union[:, 0]]) + 1
        )
        gains = log_weight[k:] - log_weight[first] - log_weight[second]
        best = np.full(k, -np.inf)
        np.maximum.at(best, first, gains)
        np.maximum.at(best, second, gains)
        mutual = np.flatnonzero((gains >= best[first]) & (gains >= best[second]))
        # The best of them all, and of the others the better half.
        order = mutual[np.argsort(-gains[mutual], kind="stable")]
        keep = max(1, min(len(order), (k + 7) // 8))
        name = np.arange(k)
        taken: set[int] = set()
        for p in order[:keep]:
            a, b = int(first[p]), int(second[p])
            if a in taken or b in taken:
                continue
            taken |= {a, b}
            name[b] = a
            statistics[a] = union[p]
        kept = np.flatnonzero(name == np.arange(k))
        renumber = np.empty(k, dtype=np.int64)
        renumber[kept] = np.arange(len(kept))
        labels = renumber[name][labels]
        statistics = statistics[kept]
