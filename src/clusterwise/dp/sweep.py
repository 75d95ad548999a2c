"""One sweep over all points at once: weights and parameters are drawn, then every label independently.

Given the partition, the Dirichlet process is a sum of weights on the occupied clusters, Dirichlet(n_1, ..,
n_K, alpha), whose last part is broken into sticks with parameters from the prior (Ishwaran & James 2001).
There are infinitely many sticks, of which a slice variable for each point lets in finitely many (Walker
2007; Kalli, Griffin & Walker 2011): u_i is uniform below xi(pi of its cluster), and the point may choose
among the clusters with xi(pi_k) > u_i, with probability proportional to pi_k f(x_i) / xi(pi_k). Any xi that
depends on the weight alone leaves the posterior exact; here xi = min(1, pi / delta) with delta the weight of
a cluster of HEAVY points. So clusters larger than that are open to all points, at their full weight, and the
many light ones cost little because few points look at them.

All points of a chunk are treated by one matrix product, chunks need nothing of each other, and what they
return are sums: chunks may lie on disk or on other machines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from clusterwise.dp.state import State, compact, draw_categories
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["Weights", "draw_weights", "sweep"]

HEAVY = 20.0
STICKS_AT_ONCE = 16


def _sticks(rng: np.random.Generator, log_rest: float, alpha: float, log_least: float) -> np.ndarray:
    """Log weights of the sticks that ``log_rest`` is broken into by Beta(1, alpha) shares.

    What is left in the end, and so every stick that is not returned, is below ``log_least``.
    """
    sticks: list[np.ndarray] = []
    while log_rest > log_least:
        log_left = np.log(np.maximum(rng.random(STICKS_AT_ONCE), 1e-300)) / alpha  # 1 - Beta(1, alpha)
        rests = log_rest + np.cumsum(log_left)
        sticks.append(np.append(log_rest, rests[:-1]) + np.log(np.maximum(-np.expm1(log_left), 1e-300)))
        log_rest = float(rests[-1])
    return np.concatenate([np.empty(0), *sticks])


class Weights(NamedTuple):
    """What labels are drawn by."""

    eta: np.ndarray  # (K', p) natural parameters with the weights, of K clusters and of new ones
    openness: np.ndarray  # (K',) xi of their weights
    before: np.ndarray  # (K,) that of the K clusters, which the slices were drawn with


def draw_weights(
    rng: np.random.Generator,
    state: State,
    prior: NormalInverseWishart,
    n: int,
    least_slice: Callable[[np.ndarray], float],
) -> Weights:
    """Draw weights and parameters; ``least_slice`` draws slices of all n rows and returns the smallest."""
    gammas = np.maximum(rng.standard_gamma(np.append(state.counts, state.hyper.alpha)), 1e-300)
    log_weights = np.log(gammas) - np.log(gammas.sum())  # of a draw from the Dirichlet distribution
    log_delta = np.log(HEAVY / n)
    before = np.exp(np.minimum(log_weights[:-1] - log_delta, 0.0))
    log_least = log_delta + float(np.log(max(least_slice(before), 1e-300)))
    sticks = _sticks(rng, float(log_weights[-1]), state.hyper.alpha, log_least)
    log_weights = np.concatenate([log_weights[:-1], sticks])
    eta = prior.draw(rng, np.concatenate([state.statistics, np.zeros((len(sticks), prior.n_statistics))]))
    log_openness = np.minimum(log_weights - log_delta, 0.0)  # log xi
    eta[:, 0] += log_weights - log_openness
    return Weights(eta, np.exp(log_openness), before)


def sweep(rng: np.random.Generator, rows: Rows, state: State, prior: NormalInverseWishart) -> State:
    """Draw all labels anew."""
    k, n = state.n_clusters, len(rows)
    slices = np.empty(0)

    def least_slice(openness: np.ndarray) -> float:
        nonlocal slices
        slices = rng.random(n) * openness[state.labels]
        return float(slices.min())

    eta, openness, _ = draw_weights(rng, state, prior, n, least_slice)
    light = np.flatnonzero(openness[:k] < 1)
    most_open = float(openness[k:].max(initial=0.0))
    labels, statistics = np.empty(n, dtype=np.int64), np.zeros((len(eta), prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics + k):
        lifted, of_chunk = prior.terms(points), slices[part]
        logits = lifted @ eta[:k].T
        for cluster in light:
            logits[of_chunk >= openness[cluster], cluster] = -np.inf
        explorers = np.flatnonzero(of_chunk < most_open)  # those who look at new clusters
        beyond = lifted[explorers] @ eta[k:].T
        beyond[of_chunk[explorers, None] >= openness[k:]] = -np.inf
        beyond = np.concatenate([logits[explorers], beyond], axis=1)
        drawn = draw_categories(rng, logits)
        drawn[explorers] = draw_categories(rng, beyond)
        labels[part] = drawn
        statistics += sum_by_label(lifted, drawn, len(eta))
    return compact(replace(state, labels=labels, statistics=statistics))
