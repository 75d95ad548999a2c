"""Collapsed Gibbs sampling: algorithm 3 of Neal (2000), one point at a time, for small data sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clusterwise.dp.state import State, compact, statistics_of
from clusterwise.gaussian.niw import NormalInverseWishart
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["gibbs_sweep"]


def gibbs_sweep(rng: np.random.Generator, rows: Rows, state: State, prior: NormalInverseWishart) -> State:
    """Visit every point in random order and draw its cluster given all other points.

    P(z_i = k | rest) is proportional to n_k t_k(x_i) for the clusters of the other points, and to
    alpha t_0(x_i) for a new one, where t are the posterior and prior predictive densities.
    """
    points = rows.take(slice(None))
    lifted = prior.terms(points)
    labels = state.labels.copy()
    # one row more than there are clusters: the empty one that is always on offer
    statistics = np.concatenate([state.statistics, np.zeros((1, prior.n_statistics))])
    log_new = prior.log_predictive(points, prior.posterior(np.zeros((1, prior.n_statistics))))[:, 0]
    log_new += np.log(state.hyper.alpha)
    uniforms = rng.random(len(points))
    for position, i in enumerate(rng.permutation(len(points))):
        old = labels[i]
        statistics[old] -= lifted[i]
        if statistics[old, 0] < 0.5:
            statistics[old] = 0.0
        occupied = np.flatnonzero(statistics[:, 0] > 0.5)
        at_home = statistics[occupied]
        logits = np.log(at_home[:, 0])
        logits += prior.log_predictive(points[i : i + 1], prior.posterior(at_home))[0]
        logits = np.append(logits, log_new[i])
        edges = np.cumsum(np.exp(logits - logits.max()))
        chosen = int(np.searchsorted(edges, uniforms[position] * edges[-1], side="right"))
        chosen = min(chosen, len(occupied))
        new = int(occupied[chosen]) if chosen < len(occupied) else int(np.argmin(statistics[:, 0]))
        labels[i] = new
        statistics[new] += lifted[i]
        if statistics[-1, 0] > 0.5:
            statistics = np.concatenate([statistics, np.zeros((1, prior.n_statistics))])
    # afresh, so that the rounding of additions and removals cannot build up over sweeps
    statistics = statistics_of(rows, labels, len(statistics), prior)
    return compact(replace(state, labels=labels, statistics=statistics))
