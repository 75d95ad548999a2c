"""Mergers of neighbouring clusters and what they add to the evidence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterwise.polish.evidence import (
    Data,
    Moments,
    State,
    average,
    judge,
    log_marginals,
    log_partition,
    log_sizes,
    plogp,
    shrunk_variances,
)

__all__ = ["DEPTH", "gains_of_mergers", "merged"]

# Mergers go on until the evidence lies this much below the best one on their way.
DEPTH = 20.0
# Each cluster may merge with this many neighbours.
NEIGHBOURS = 3


def _pooled(moments: Moments, first: np.ndarray, second: np.ndarray) -> Moments:
    """Moments of the unions of clusters ``first`` (P,) and ``second`` (P,)."""
    counts = moments.counts[first] + moments.counts[second]
    share = (moments.counts[second] / counts)[:, None]
    gap = moments.means[second] - moments.means[first]
    means = moments.means[first] + share * gap
    between = moments.counts[first][:, None] * share * np.square(gap)
    return Moments(counts, means, moments.scatters[first] + moments.scatters[second] + between)


def _pairs(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Each cluster with the few that are nearest to it in pooled standard deviations."""
    means, variances = state.moments.means, shrunk_variances(state.moments, state.hyper)
    gaps = np.square(means[:, None] - means) / (variances[:, None] + variances)
    distances = gaps.sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(means) - 1)]
    first = np.repeat(np.arange(len(means)), nearest.shape[1])
    pairs = np.unique(np.sort(np.stack([first, nearest.ravel()], axis=1), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def gains_of_mergers(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) and what their mergers add to the evidence, (P,), at memberships that stay the same.

    Pairs whose gain is hopeless come with an upper bound.
    """
    first, second = _pairs(state)
    own = log_marginals(state.moments, state.hyper)  # (S, K)
    union = log_marginals(_pooled(state.moments, first, second), state.hyper)  # (S, P)
    whole = own.sum(axis=1)
    merged = average(whole[:, None] + union - own[:, first] - own[:, second])
    counts, k, n = state.moments.counts, state.n_clusters, state.moments.counts.sum()
    sizes = log_sizes(counts)
    pooled = sizes.sum(axis=1)[:, None] - sizes[:, first] - sizes[:, second]
    pooled = pooled + log_sizes(counts[first] + counts[second])
    gains = merged - average(whole) + log_partition(pooled, k - 1, n)
    gains -= log_partition(sizes.sum(axis=1), k, n)
    for pair in np.nonzero(gains > -DEPTH)[0]:
        one, other = state.memberships[first[pair]], state.memberships[second[pair]]
        both = one + other
        gains[pair] -= float(plogp(both).sum() - plogp(one).sum() - plogp(other).sum())
    return np.stack([first, second], axis=1), gains


def merged(data: Data, state: State, pairs: Sequence[np.ndarray]) -> State:
    """Merge disjoint pairs of clusters."""
    memberships = state.memberships.copy()
    entropy = state.entropy
    for i, j in pairs:
        both = memberships[i] + memberships[j]
        entropy -= float(plogp(both).sum() - plogp(memberships[i]).sum() - plogp(memberships[j]).sum())
        memberships[i] = both
    gone = [int(j) for _, j in pairs]
    return judge(data, np.delete(memberships, gone, axis=0), entropy)
