"""Mergers of neighbouring clusters and what they add to the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.em import refined
from clusterwise.gaussian.evidence import (
    Hyper,
    Sample,
    State,
    average,
    judge,
    log_marginals,
    log_partition,
    plogp,
)
from clusterwise.gaussian.moves import NEIGHBOURS, pairs_of

__all__ = ["gains_of_mergers", "merged", "mergers", "near_pairs"]


def near_pairs(sample: Sample, hyper: Hyper, statistics: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Each cluster with the few that are nearest to it, in the standard deviations of either; (P, 2)."""
    k = len(statistics)
    if k <= n_neighbours + 1:  # all are near
        return _all_pairs(k)
    prior = hyper.prior(sample)
    posterior = prior.posterior(statistics)
    distances = prior.squared_distances(posterior.mean, posterior)
    distances = np.minimum(distances, distances.T)
    np.fill_diagonal(distances, np.inf)
    return pairs_of(distances, n_neighbours)


@cache
def _all_pairs(k: int) -> np.ndarray:
    return np.argwhere(np.triu(np.ones((k, k), dtype=bool), 1))


def gains_of_mergers(sample: Sample, state: State) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) and what their mergers add to the evidence, (P,), at memberships that stay the same.

    Pairs whose gain is hopeless come with an upper bound.
    """
    pairs = near_pairs(sample, state.hyper, state.statistics, NEIGHBOURS)
    first, second = pairs.T
    statistics = state.statistics
    union = statistics[first] + statistics[second]
    marginals = log_marginals(sample, state.hyper, np.concatenate([statistics, union]))
    k, n = state.n_clusters, len(sample.points)
    own, of_union = marginals[:, :k], marginals[:, k:]
    whole = own.sum(axis=1)
    changed = average(whole[:, None] + of_union - own[:, first] - own[:, second])
    log_sizes = gammaln(statistics[:, 0] + 1)
    sizes = log_sizes.sum() - log_sizes[first] - log_sizes[second] + gammaln(union[:, 0] + 1)
    gains = changed - average(whole) + log_partition(sizes, k - 1, n) - log_partition(log_sizes.sum(), k, n)
    for pair in np.flatnonzero(gains > -sample.settings.depth):
        gains[pair] -= _lost_entropy(state.memberships[pairs[pair]])
    return pairs, gains


def _lost_entropy(pair: np.ndarray) -> float:
    return float(plogp(pair.sum(axis=0)).sum() - plogp(pair).sum())


def merged(sample: Sample, state: State, pairs: Sequence[np.ndarray]) -> State:
    """Merge disjoint pairs of clusters."""
    memberships, statistics = state.memberships.copy(), state.statistics.copy()
    entropy = state.entropy
    for i, j in pairs:
        entropy -= _lost_entropy(memberships[[i, j]])
        memberships[i] += memberships[j]
        statistics[i] += statistics[j]
    gone = [int(j) for _, j in pairs]
    return judge(sample, np.delete(memberships, gone, axis=0), entropy, np.delete(statistics, gone, axis=0))


def mergers(sample: Sample, state: State) -> Iterator[State]:
    """Merge the best pairs again and again, also for a while where the evidence falls."""
    depth = sample.settings.depth
    floor = state.log_evidence - depth
    while state.n_clusters > 1:
        pairs, gains = gains_of_mergers(sample, state)
        order = np.argsort(-gains, kind="stable")
        if state.log_evidence + gains[order[0]] < floor:
            break
        chosen = [pairs[order[0]]]
        for p in order[1:]:
            if gains[p] > 0 and not np.isin(pairs[p], chosen).any():
                chosen.append(pairs[p])
        state = refined(sample, merged(sample, state, chosen))
        floor = max(floor, state.log_evidence - depth)
        yield state
