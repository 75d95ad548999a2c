"""The search: from candidate partitions uphill in evidence, by merges and splits of clusters.

Without candidates it starts from small cells: k-means cuts the data in cells of a few points, and neighbours
are put together by their sufficient statistics, so that no point is looked at twice.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.special import gammaln

from clusterwise.gaussian.mixture import (
    STRENGTHS,
    FittedMixture,
    Sample,
    fit_em,
    log_marginals,
    log_mean,
    log_partition,
    mixture_of_labels,
    plogp,
    scored,
)
from clusterwise.gaussian.moves import (
    AcceptanceTest,
    HastingsRatio,
    choose_merges,
    disjoint,
    names_after,
    neighbouring_pairs,
)
from clusterwise.gaussian.niw import CovarianceType, sum_by_label
from clusterwise.gaussian.splits import WORTH_A_TRIAL, Split, best_split, log_p_widths

__all__ = [
    "EvidenceGain",
    "cells",
    "first_partition",
    "likeliest_partition",
    "merged",
    "merged_cells",
    "search",
    "split",
]

# Merges go on until the evidence lies this much below the best so far: all fragments of a cluster may have to
# merge before it gains.
DEPTH = 20.0
# Mixtures of as many clusters whose log evidences differ by no more are the same: EM stops a little before
# its goal, and not at the same place from every side.
SAME = 0.1
# A cluster is not tried again as long as its moments and the logarithms of its size and of the clusters'
# pooled variance have changed by no more.
SAME_CLUSTER = 0.02
# The search starts from cells of about this many points, at most this many, put together until there are this
# many clusters more than their evidence asks for: where clusters overlap it asks for too few, and merges are
# easier to find than splits.
POINTS_PER_CELL, MAX_CELLS, SPARE_CLUSTERS = 12, 256, 8
LLOYD_STEPS = 8


def search(
    points: np.ndarray,
    candidates: Sequence[np.ndarray],
    covariance_type: CovarianceType = "full",
    *,
    max_rounds: int | None = None,
) -> list[FittedMixture]:
    """All distinct mixtures of points (n, d) that the search has visited, the one with most evidence first.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Centred, of unit spread, in an order that depends on their values alone.
    candidates : sequence of ndarray of shape (n,)
        Labels to start from, 0 to K - 1, all in use.
    max_rounds : int, optional
        Rounds of merges and splits; 0 for EM alone. Few where clusters of other shapes than Gaussian would be
        split for long.
    """
    sample = Sample(points, covariance_type)
    visited: list[FittedMixture] = []  # where a round began
    found: list[FittedMixture] = []
    for labels in candidates:
        start = fit_em(mixture_of_labels(sample, labels))
        for mixture in _climb(start, visited, max_rounds):
            if not _is_among(mixture, found):
                found.append(mixture)
    return sorted(found, key=lambda mixture: -mixture.log_evidence)


def _climb(
    start: FittedMixture, visited: list[FittedMixture], max_rounds: int | None
) -> Iterator[FittedMixture]:
    """All mixtures that are tried: merge and split as long as the evidence grows.

    It ends where an earlier climb, with its mixtures in ``visited``, has been.
    """
    yield start
    best, unsplit = start, Unsplit()
    for _ in itertools.count() if max_rounds is None else range(max_rounds):
        if _is_among(best, visited):
            return
        before = best
        visited.append(before)
        for mixture in itertools.chain(_merges(before), _splits(before, unsplit)):
            yield mixture
            best = max(best, mixture, key=lambda one: one.log_evidence)
        if best.log_evidence <= before.log_evidence + SAME:
            return


def _is_among(mixture: FittedMixture, others: Iterable[FittedMixture]) -> bool:
    return any(
        mixture.n_clusters == one.n_clusters and abs(mixture.log_evidence - one.log_evidence) <= SAME
        for one in others
    )


# -- merges --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EvidenceGain(AcceptanceTest):
    """Accepts moves that add to the evidence of a mixture, and the best one as long as that is left above."""

    mixture: FittedMixture
    floor: float = np.inf  # log evidence that the best move may fall to

    def of_merges(self, pairs: np.ndarray) -> np.ndarray:
        """Gains in evidence (P,) of merges of pairs (P, 2), at memberships that stay the same.

        Far below zero it is an upper bound.
        """
        mixture, sample = self.mixture, self.mixture.sample
        statistics, k, n = mixture.statistics, mixture.n_clusters, len(mixture.sample.points)
        first, second = pairs.T
        union = statistics[first] + statistics[second]
        own = mixture.log_marginals
        of_union, before = log_marginals(sample, mixture.hyper, union), own.sum(axis=1)
        after = log_mean(before[:, None] + of_union - own[:, first] - own[:, second])
        log_sizes = gammaln(statistics[:, 0] + 1)
        sizes = log_sizes.sum() - log_sizes[first] - log_sizes[second] + gammaln(union[:, 0] + 1)
        gains = after - log_mean(before)
        gains += log_partition(sizes, k - 1, n) - log_partition(log_sizes.sum(), k, n)
        for pair in np.flatnonzero(gains > -DEPTH):
            gains[pair] -= _lost_entropy(mixture.memberships[pairs[pair]])
        return gains

    def of_splits(self, parts: Sequence[Split]) -> np.ndarray:
        """Gains in evidence (m,) of splits."""
        return np.array([one.gain for one in parts])

    def accepts(self, log_ratios: np.ndarray) -> np.ndarray:
        best = log_ratios.max(initial=-np.inf)
        left: bool = self.mixture.log_evidence + best >= self.floor
        return (log_ratios > 0) | ((log_ratios == best) & left)


def _lost_entropy(pair: np.ndarray) -> float:
    return float(plogp(pair.sum(axis=0)).sum() - plogp(pair).sum())


def merged(mixture: FittedMixture, pairs: np.ndarray) -> FittedMixture:
    """The mixture after disjoint pairs (m, 2) of clusters have merged."""
    memberships, statistics = mixture.memberships.copy(), mixture.statistics.copy()
    entropy = mixture.entropy
    for i, j in pairs:
        entropy -= _lost_entropy(memberships[[i, j]])
        memberships[i] += memberships[j]
        statistics[i] += statistics[j]
    _, remain = names_after(pairs, mixture.n_clusters)
    return scored(mixture.sample, memberships[remain], entropy, statistics[remain])


def _merges(mixture: FittedMixture) -> Iterator[FittedMixture]:
    """Merge the best pairs again and again, also for a while where the evidence falls."""
    floor = mixture.log_evidence - DEPTH
    while mixture.n_clusters > 1:
        pairs = neighbouring_pairs(mixture.statistics, mixture.prior)
        chosen = choose_merges(pairs, EvidenceGain(mixture, floor)).moves
        if len(chosen) == 0:
            return
        mixture = fit_em(merged(mixture, chosen))
        floor = max(floor, mixture.log_evidence - DEPTH)
        yield mixture


# -- splits --------------------------------------------------------------------------------------


class Unsplit:
    """Clusters that were found to have no split: none is tried twice while the others look as they did."""

    def __init__(self) -> None:
        self.known: list[np.ndarray] = []

    def __contains__(self, key: np.ndarray) -> bool:
        return len(self.known) > 0 and bool(
            (np.abs(np.array(self.known) - key).max(axis=1) <= SAME_CLUSTER).any()
        )

    def add(self, key: np.ndarray) -> None:
        """Add a cluster by its row of ``_keys_of``."""
        self.known.append(key)


def _keys_of(mixture: FittedMixture) -> np.ndarray:
    """Moments and sizes of clusters, and how wide clusters are, (K, .): what their splits depend on."""
    counts, variance = mixture.statistics[:, :1], mixture.hyper.variance
    log_widths = np.broadcast_to(np.log(variance), (mixture.n_clusters, len(variance)))
    return np.concatenate([mixture.statistics[:, 1:] / counts, np.log(counts), log_widths], axis=1)


def _splits(mixture: FittedMixture, unsplit: Unsplit) -> Iterator[FittedMixture]:
    """Split all clusters that seem to gain at once, and if that fails one by one until one gains."""
    found: list[Split] = []
    keys = _keys_of(mixture)
    known = [key in unsplit for key in keys]
    widths = log_p_widths(mixture)
    for j, (key, is_known) in enumerate(zip(keys, known, strict=True)):
        proposal = None if is_known else best_split(mixture, j, widths[j])
        if proposal is None:
            unsplit.add(key)
        else:
            found.append(proposal)
    found.sort(key=lambda one: -one.gain)
    promising = [one for one in found if one.gain > 0]
    for option in ([promising] if len(promising) > 1 else []) + [[one] for one in found]:
        trial = fit_em(split(mixture, option), floor=mixture.log_evidence - WORTH_A_TRIAL)
        yield trial
        if trial.log_evidence > mixture.log_evidence:
            break
        if len(option) == 1:
            unsplit.add(keys[option[0].cluster])


def split(mixture: FittedMixture, splits: Sequence[Split]) -> FittedMixture:
    """The mixture after splits: first parts take the clusters' places, second parts come last."""
    memberships = np.concatenate([mixture.memberships, *(one.parts[1:] for one in splits)])
    entropy = mixture.entropy
    for one in splits:
        terms = plogp(one.parts).sum(axis=0) - plogp(mixture.memberships[one.cluster])
        entropy -= float(terms.sum())
        memberships[one.cluster] = one.parts[0]
    return scored(mixture.sample, memberships, entropy, memberships @ mixture.sample.terms)


# -- where the search starts if nobody proposes a partition --------------------------------------


def first_partition(sample: Sample) -> np.ndarray:
    """Labels (n,) of sorted points to start a search from, with more clusters than there may be."""
    path = _path(sample)
    best = max(path, key=lambda step: step[0])[1].max() + 1
    return next(labels for _, labels in path if labels.max() + 1 <= best + SPARE_CLUSTERS)


def likeliest_partition(points: np.ndarray, covariance_type: CovarianceType = "full") -> np.ndarray:
    """Labels (n,) of sorted points: of all rounds of putting cells together the one with most evidence."""
    return max(_path(Sample(points, covariance_type)), key=lambda step: step[0])[1]


def _path(sample: Sample) -> list[tuple[float, np.ndarray]]:
    n = len(sample.points)
    n_cells = min(n // POINTS_PER_CELL + SPARE_CLUSTERS, n // 2, MAX_CELLS)
    return merged_cells(sample, cells(sample.points, max(1, n_cells)))


def cells(points: np.ndarray, k: int) -> np.ndarray:
    """Labels (n,) of k-means with at most k cells for sorted points (n, d)."""
    start = np.linspace(0, len(points) - 1, min(k, len(points))).astype(np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cells may come out empty
        labels = kmeans2(points, points[start], iter=LLOYD_STEPS, minit="matrix")[1]
    return np.unique(labels, return_inverse=True)[1]


def merged_cells(sample: Sample, labels: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Evidence and labels (n,) of every round of merges of cells with labels (n,), until one is left."""
    statistics, path = sum_by_label(sample.terms, labels, int(labels.max()) + 1), []
    while True:
        mixture = scored(sample, np.empty((0, 0)), 0.0, statistics)
        path.append((mixture.log_evidence, labels))
        if len(statistics) == 1:
            return path
        # How alike the clusters are is not known before they are found: the prior must be weak here.
        prior = replace(mixture.hyper, strength=STRENGTHS[1]).prior(sample)
        pairs = neighbouring_pairs(statistics, prior)
        ratios = HastingsRatio(statistics, prior, alpha=1.0).of_merges(pairs)
        chosen = disjoint(pairs, ratios)
        names, _ = names_after(chosen[: (len(chosen) + 1) // 2], len(statistics))
        labels = names[labels]
        statistics = sum_by_label(statistics, names, int(names.max()) + 1)
