"""Warming up by sub-clusters: every cluster is always ready to fall into two, all of them at once.

After Chang & Fisher (2013), the "DPM sampler" of DeepDPM's tables: each cluster has two sub-clusters with
labels of their own; all labels and sub-labels are drawn in parallel, and now and then every cluster may split
into its sub-clusters and every pair of neighbours may merge, by the ratio H of ``moves.HastingsRatio``
without the probability of the proposal. That is quick and finds the clusters from a single one, but it
favours few clusters; so it only finds the place where the exact moves start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from clusterwise.dp.state import State, draw_categories
from clusterwise.gaussian.moves import HastingsRatio, neighbouring_pairs, two_parts
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["Halves", "Mergers", "Splits", "best_cut", "halve", "mergers_of", "splits_of", "warm_up_step"]

# Cuts of a cluster that sub-clusters may start from, the points that they are tried on, and their EM steps.
RANDOM_CUTS, FLAT_CUTS, CUT_POINTS, CUT_STEPS = 3, 2, 500, 6
# Sub-clusters get this many sweeps to settle before a split is tried, and are drawn anew after twice as many.
PATIENCE = 4


@dataclass(frozen=True)
class Halves:
    """The sub-clusters: sides (n,) of all points, statistics (K, 2, p), and ages of the pairs (K,)."""

    sides: np.ndarray
    statistics: np.ndarray
    ages: np.ndarray


def halve(
    rng: np.random.Generator,
    rows: Rows,
    labels: np.ndarray,
    prior: NormalInverseWishart,
    fresh: np.ndarray,
    sides: np.ndarray,
) -> np.ndarray:
    """Cut the clusters in ``fresh`` (K,) bool anew; returns all sides (n,).

    Of several cuts of some of a cluster's points, each improved by a few EM steps, the one with the largest
    H is taken: a random plane hardly ever separates two groups that differ in one feature of many.
    """
    sides = sides.copy()
    for cluster in np.flatnonzero(fresh):
        members = np.flatnonzero(labels == cluster)
        best = best_cut(rng, rows, members, len(members), prior)
        for part, points in rows.chunks_of(members, prior.n_statistics):
            sides[members[part]] = prior.terms(points) @ best > 0
    return sides


def best_cut(
    rng: np.random.Generator, rows: Rows, members: np.ndarray, n_members: float, prior: NormalInverseWishart
) -> np.ndarray:
    """Log odds (p,) of the second side of a cluster's best cut, from rows that stand for ``n_members``."""
    some = members[:: -(-len(members) // CUT_POINTS)]
    points = rows.take(some)
    lifted = prior.terms(points)
    weights = np.full(len(some), n_members / len(some))
    odds = two_parts(lifted, weights, _first_cuts(rng, points), prior, CUT_STEPS)
    best: np.ndarray = odds[_log_odds_of_cuts(lifted, weights, odds, prior).argmax()]
    return best


def _first_cuts(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Cuts of points (n, d) in two to start from, (m, n) bool."""
    centred = points - points.mean(axis=0)
    cuts = []
    for _ in range(RANDOM_CUTS):
        first, second = centred[rng.integers(len(points), size=2)]
        cuts.append(centred @ (second - first) > (second @ second - first @ first) / 2)
    # Two humps have a small kurtosis: cut across the features and principal axes with the smallest.
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    scores = np.concatenate([centred, centred @ axes.T], axis=1)
    variances = np.square(scores).mean(axis=0)
    kurtosis = np.square(np.square(scores)).mean(axis=0) / np.maximum(np.square(variances), 1e-300)
    kurtosis[variances < 1e-12] = np.inf
    cuts += [scores[:, column] > 0 for column in np.argsort(kurtosis)[:FLAT_CUTS]]
    return np.stack(cuts)


def _log_odds_of_cuts(
    lifted: np.ndarray, weights: np.ndarray, odds: np.ndarray, prior: NormalInverseWishart
) -> np.ndarray:
    """Log H of cuts (m,) by log odds (m, p) of points with T(x) ``lifted``; -inf where one side is empty."""
    weighted = lifted * weights[:, None]
    upper = (odds @ lifted.T > 0) @ weighted
    parts = np.stack([weighted.sum(axis=0) - upper, upper], axis=1)
    log_odds = np.full(len(odds), -np.inf)
    both = parts[:, :, 0].min(axis=1) > 0.5
    if both.any():
        log_odds[both] = HastingsRatio(parts[0], prior, 1.0).of_splits(parts[both])
    return log_odds


def warm_up_step(
    rng: np.random.Generator, rows: Rows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    """Draw labels and sides, then split and merge where H says so."""
    state, halves = _parallel_sweep(rng, rows, state, halves, prior)
    state, halves = _split(rng, rows, state, halves, prior)
    return _merge(rng, state, halves, prior)


def _parallel_sweep(
    rng: np.random.Generator, rows: Rows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    k, p = state.n_clusters, prior.n_statistics
    eta = prior.draw(rng, state.statistics)
    eta[:, 0] += np.log(rng.standard_gamma(state.counts) + 1e-300)
    of_halves = halves.statistics.reshape(2 * k, p)
    # expected rather than drawn: two halves of few points should not be torn apart by chance
    eta_halves = prior.expected(of_halves)
    eta_halves[:, 0] += np.log(of_halves[:, 0] + 0.5)
    odds = eta_halves[1::2] - eta_halves[::2]
    labels, sides = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=bool)
    statistics = np.zeros((2 * k, p))
    for part, points in rows.chunks(p + k):
        lifted = prior.terms(points)
        drawn = draw_categories(rng, lifted @ eta.T)
        log_odds = np.einsum("np,np->n", lifted, odds[drawn])
        side = rng.random(len(drawn)) < expit(log_odds)
        labels[part], sides[part] = drawn, side
        statistics += sum_by_label(lifted, 2 * drawn + side, 2 * k)
    by_cluster = statistics.reshape(k, 2, p)
    in_use = by_cluster[:, :, 0].sum(axis=1) > 0.5
    labels = (in_use.cumsum() - 1)[labels]
    by_cluster = by_cluster[in_use]
    return (
        replace(state, labels=labels, statistics=by_cluster.sum(axis=1)),
        Halves(sides, by_cluster, halves.ages[in_use] + 1),
    )


class Splits(NamedTuple):
    """Which of K clusters fall into their halves."""

    new_label: np.ndarray  # (K, 2) by label and side
    parents: np.ndarray  # the clusters that do, in the order of the new ones
    fresh: np.ndarray  # (K',) which clusters are to be cut anew


def splits_of(
    rng: np.random.Generator,
    halves: np.ndarray,
    ages: np.ndarray,
    alpha: float,
    prior: NormalInverseWishart,
) -> Splits:
    """Choose splits of clusters whose halves have the statistics (K, 2, p) and these ages (K,)."""
    k = len(halves)
    ready = (ages >= PATIENCE) & (halves[:, :, 0].min(axis=1) > 0.5)
    accepted = ready & (np.log(rng.random(k)) < HastingsRatio(halves[:, 0], prior, alpha).of_splits(halves))
    new_label = np.arange(2 * k).reshape(k, 2)
    new_label[:, 0] = np.arange(k)
    new_label[:, 1] = np.where(accepted, k + accepted.cumsum() - 1, np.arange(k))
    parents = np.flatnonzero(accepted)
    # Clusters that have just been made, and those whose halves led nowhere, are cut anew.
    stale = accepted | (ages >= 2 * PATIENCE)
    return Splits(new_label, parents, np.concatenate([stale, np.ones(len(parents), dtype=bool)]))


class Mergers(NamedTuple):
    """Which of K clusters join others."""

    gone: np.ndarray  # those that do
    kept: np.ndarray  # whom they join
    new_label: np.ndarray  # (K,)


def mergers_of(
    rng: np.random.Generator, statistics: np.ndarray, alpha: float, prior: NormalInverseWishart
) -> Mergers | None:
    """Choose mergers of clusters with statistics (K, p); None if there are none."""
    k = len(statistics)
    if k == 1:
        return None
    pairs = neighbouring_pairs(statistics, prior)
    log_odds = HastingsRatio(statistics, prior, alpha).of_merges(pairs)
    accepted = np.log(rng.random(len(pairs))) < log_odds
    partner: dict[int, int] = {}
    for a, b in pairs[accepted]:
        if a not in partner and b not in partner:  # never three at once
            partner[int(a)], partner[int(b)] = int(b), int(a)
    gone = np.array(sorted(b for b, a in partner.items() if a < b), dtype=np.int64)
    if len(gone) == 0:
        return None
    kept = np.array([partner[int(b)] for b in gone])
    remain = np.ones(k, dtype=bool)
    remain[gone] = False
    new_label = np.arange(k)
    new_label[gone] = kept
    return Mergers(gone, kept, (remain.cumsum() - 1)[new_label])


def _split(
    rng: np.random.Generator, rows: Rows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    k = state.n_clusters
    new_label, parents, fresh = splits_of(rng, halves.statistics, halves.ages, state.hyper.alpha, prior)
    labels = new_label[state.labels, halves.sides.astype(np.int64)]
    statistics = np.concatenate([state.statistics, halves.statistics[parents, 1]])
    statistics[parents] = halves.statistics[parents, 0]
    state = replace(state, labels=labels, statistics=statistics)
    if not fresh.any():
        return state, halves
    sides = halve(rng, rows, labels, prior, fresh, halves.sides)
    by_cluster = np.zeros((len(fresh), 2, prior.n_statistics))
    by_cluster[:k] = halves.statistics
    for cluster in np.flatnonzero(fresh):
        members = np.flatnonzero(labels == cluster)
        upper = np.zeros(prior.n_statistics)
        for part, points in rows.chunks_of(members[sides[members]], prior.n_statistics):
            del part
            upper += prior.terms(points).sum(axis=0)
        by_cluster[cluster] = statistics[cluster] - upper, upper
    ages = np.where(fresh, 0, np.concatenate([halves.ages, np.zeros(len(parents), dtype=np.int64)]))
    return state, Halves(sides, by_cluster, ages)


def _merge(
    rng: np.random.Generator, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    merger = mergers_of(rng, state.statistics, state.hyper.alpha, prior)
    if merger is None:
        return state, halves
    gone, kept, new_label = merger
    sides, by_cluster = halves.sides.copy(), halves.statistics.copy()
    merged = np.isin(state.labels, np.concatenate([gone, kept]))
    sides[merged] = np.isin(state.labels[merged], gone)  # what has just been merged is ready to split again
    statistics = state.statistics.copy()
    by_cluster[kept, 0], by_cluster[kept, 1] = statistics[kept], statistics[gone]
    statistics[kept] += statistics[gone]
    ages = halves.ages.copy()
    ages[kept] = 0
    remain = np.ones(state.n_clusters, dtype=bool)
    remain[gone] = False
    state = replace(state, labels=new_label[state.labels], statistics=statistics[remain])
    return state, Halves(sides, by_cluster[remain], ages[remain])
