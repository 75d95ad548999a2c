"""Warming up by sub-clusters: every cluster is always ready to fall into two, all of them at once.

After Chang & Fisher (2013), the "DPM sampler" of DeepDPM's tables: each cluster has two sub-clusters; all
labels and sides are drawn in parallel, and then every cluster may split into its sub-clusters and every pair
of neighbours may merge, by ``HastingsRatio`` without the probability of the proposal. That is quick and finds
the clusters from a single one, but it favours few clusters; so it only finds the place where the exact moves
start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from clusterwise.dp.exact_moves import draw_categories, draw_seed
from clusterwise.dp.state import HyperPrior, State, draw_hyper, medians
from clusterwise.gaussian.moves import (
    HastingsRatio,
    choose_merges,
    choose_splits,
    names_after,
    neighbouring_pairs,
    two_parts,
)
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.rows.blocks import Block, ChainRows
from clusterwise.rows.sorted_rows import Rows

__all__ = ["warm_up"]

# Cuts of a cluster that sub-clusters may start from, the points that they are tried on, and their EM steps.
RANDOM_CUTS, FLAT_CUTS, CUT_POINTS, CUT_STEPS = 3, 2, 500, 6
# Sub-clusters get this many sweeps to adapt before a split is tried, and are drawn anew after twice as many.
PATIENCE = 4


@dataclass(frozen=True)
class Halves:
    """The sub-clusters of K clusters."""

    sides: np.ndarray  # (m,) bool, of the rows of the sample
    sums: np.ndarray  # (K, 2, p) sufficient statistics
    ages: np.ndarray  # (K,) sweeps since a cluster was cut


def warm_up(
    rng: np.random.Generator,
    rows: ChainRows,
    hyper_prior: HyperPrior,
    n_steps: int,
    report: Callable[[int], object],
) -> State:
    """The state after ``n_steps`` from one cluster to about as many as there are."""
    hyper_prior = hyper_prior.while_searching()
    hyper = medians(hyper_prior)
    prior = hyper.prior(hyper_prior)
    m, p = len(rows.sample), prior.n_statistics
    state = State(np.zeros(m, dtype=np.int64), np.zeros((1, p)), hyper)
    halves = Halves(np.zeros(m, dtype=bool), np.zeros((1, 2, p)), np.zeros(1, dtype=np.int64))
    even = np.zeros((1, p))  # one cluster, and either side is as likely
    state, halves = _draw(rng, rows, state, halves, even, even, prior)
    halves = _cut(rng, rows, state, halves, np.ones(1, dtype=bool), prior)
    if halves.sums[:, :, 0].min() < 0.5:  # all rows are the same
        return state
    for _ in range(n_steps):
        state, halves = warm_up_step(rng, rows, state, halves, state.hyper.prior(hyper_prior))
        state = draw_hyper(rng, state, hyper_prior)
        report(state.n_clusters)
    return state


def warm_up_step(
    rng: np.random.Generator, rows: ChainRows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    """The state after labels and sides are drawn, and clusters split and merged by the ratio."""
    k, p = state.n_clusters, prior.n_statistics
    eta = prior.draw(rng, state.statistics)
    eta[:, 0] += np.log(rng.standard_gamma(state.counts) + 1e-300)
    of_halves = halves.sums.reshape(2 * k, p)
    # expected rather than drawn: two halves of few points should not be torn apart by chance
    eta_halves = prior.expected(of_halves)
    eta_halves[:, 0] += np.log(np.maximum(of_halves[:, 0], 0.0) + 0.5)
    odds = eta_halves[1::2] - eta_halves[::2]
    state, halves = _draw(rng, rows, state, halves, eta, odds, prior)
    state, halves = _split(rng, rows, state, halves, prior)
    return _merge(rng, rows, state, halves, prior)


# -- labels and sides ----------------------------------------------------------------------------


def _draw(
    rng: np.random.Generator,
    rows: ChainRows,
    state: State,
    halves: Halves,
    eta: np.ndarray,
    odds: np.ndarray,
    prior: NormalInverseWishart,
) -> tuple[State, Halves]:
    """The state after labels are drawn by natural parameters ``eta`` (K, p), sides by log odds (K, p)."""
    results = rows.run(draw_codes, draw_seed(rng), prior, eta, odds)
    sums = np.sum([one for one, _ in results], axis=0).reshape(len(eta), 2, -1)
    codes = np.concatenate([one for _, one in results])
    in_use = sums[:, :, 0].sum(axis=1) > 0.5
    names, sums = np.maximum(in_use.cumsum() - 1, 0), sums[in_use]
    rows.rename_clusters(names)
    state = replace(state, labels=names[codes >> 1], statistics=sums.sum(axis=1))
    return state, Halves(codes % 2 == 1, sums, halves.ages[in_use] + 1)


def draw_codes(
    block: Block,
    rows: Rows,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    eta: np.ndarray,
    odds: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray]]:
    """On a block: draw labels and sides; returns sums (2 K, p) by code, and the codes of the sample."""
    k = len(eta)
    codes, sums = np.empty(len(rows), dtype=np.int32), np.zeros((2 * k, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics + k):
        terms = prior.terms(points)
        labels = draw_categories(rng, terms @ eta.T)
        drawn = 2 * labels + (rng.random(len(labels)) < expit(np.einsum("np,np->n", terms, odds[labels])))
        codes[part] = drawn
        sums += sum_by_label(terms, drawn, 2 * k)
    return replace(block, codes=codes), (sums, codes[block.sample])


def _cut(
    rng: np.random.Generator,
    rows: ChainRows,
    state: State,
    halves: Halves,
    fresh: np.ndarray,
    prior: NormalInverseWishart,
) -> Halves:
    """Sub-clusters after the clusters in ``fresh`` (K,) bool were cut anew."""
    odds = np.zeros((len(fresh), prior.n_statistics))
    for cluster in np.flatnonzero(fresh):
        members = np.flatnonzero(state.labels == cluster)
        if len(members) > 1:
            odds[cluster] = best_cut(rng, rows.sample, members, float(state.counts[cluster]), prior)
    results = rows.run(cut, draw_seed(rng), prior, fresh, odds)
    upper = np.sum([one for one, _ in results], axis=0)
    sums = np.stack([state.statistics - upper, upper], axis=1)
    sums[~fresh] = halves.sums[~fresh]
    sides = np.concatenate([codes for _, codes in results]) % 2 == 1
    return Halves(sides, sums, np.where(fresh, 0, halves.ages))


def cut(
    block: Block,
    rows: Rows,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    fresh: np.ndarray,
    odds: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray]]:
    """On a block: cut the clusters in ``fresh`` (K,) bool anew, by log odds (K, p).

    Returns sums (K, p) of their second sides, and the codes of the sample.
    """
    codes, labels, upper = block.codes.copy(), block.labels, np.zeros(odds.shape)
    members = np.flatnonzero(fresh[labels])
    for part, points in rows.chunks_of(members, prior.n_statistics):
        terms, of_part = prior.terms(points), labels[members[part]].astype(np.int64)
        side = np.einsum("np,np->n", terms, odds[of_part]) > 0
        codes[members[part]] = 2 * of_part + side
        upper += sum_by_label(terms[side], of_part[side], len(fresh))
    return replace(block, codes=codes), (upper, codes[block.sample])


# -- splits and merges ---------------------------------------------------------------------------


def _split(
    rng: np.random.Generator, rows: ChainRows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    """The state after splits; clusters that were split, or were not for long, are cut anew."""
    k, ages = state.n_clusters, halves.ages
    chosen = choose_splits(halves.sums, HastingsRatio(state.statistics, prior, state.hyper.alpha, rng)).moves
    parents = chosen[ages[chosen] >= PATIENCE]
    new_codes = np.arange(2 * k)
    new_codes[2 * parents + 1] = 2 * np.arange(k, k + len(parents))
    rows.rename(new_codes)
    labels = new_codes[2 * state.labels + halves.sides] >> 1
    statistics = np.concatenate([state.statistics, halves.sums[parents, 1]])
    statistics[parents] = halves.sums[parents, 0]
    state = replace(state, labels=labels, statistics=statistics)
    fresh = np.append(ages >= 2 * PATIENCE, np.ones(len(parents), dtype=bool))
    fresh[parents] = True
    if not fresh.any():
        return state, halves
    sums = np.concatenate([halves.sums, halves.sums[parents]])  # of those that are not cut anew
    return state, _cut(
        rng, rows, state, Halves(halves.sides, sums, np.append(ages, ages[parents])), fresh, prior
    )


def _merge(
    rng: np.random.Generator, rows: ChainRows, state: State, halves: Halves, prior: NormalInverseWishart
) -> tuple[State, Halves]:
    """The state after neighbours merged; what was merged has its parts as sub-clusters."""
    k = state.n_clusters
    test = HastingsRatio(state.statistics, prior, state.hyper.alpha, rng)
    pairs = choose_merges(neighbouring_pairs(state.statistics, prior), test).moves
    if len(pairs) == 0:
        return state, halves
    names, remain = names_after(pairs, k)
    kept, gone = pairs.T
    new_codes = np.repeat(2 * names, 2) + np.tile([0, 1], k)
    new_codes[[2 * kept, 2 * kept + 1]] = 2 * names[kept]
    new_codes[[2 * gone, 2 * gone + 1]] = 2 * names[kept] + 1
    rows.rename(new_codes)
    codes = new_codes[2 * state.labels + halves.sides]
    sums, ages = halves.sums.copy(), halves.ages.copy()
    sums[kept, 0], sums[kept, 1], ages[kept] = state.statistics[kept], state.statistics[gone], 0
    state = replace(state, labels=codes >> 1, statistics=sums[remain].sum(axis=1))
    return state, Halves(codes % 2 == 1, sums[remain], ages[remain])


# -- where sub-clusters start --------------------------------------------------------------------


def best_cut(
    rng: np.random.Generator, rows: Rows, members: np.ndarray, n_members: float, prior: NormalInverseWishart
) -> np.ndarray:
    """Log odds (p,) of the second side of a cluster's best cut, from rows that stand for ``n_members``.

    Of several cuts of some of the rows, each improved by a few EM steps, the one with the largest ratio is
    taken: a random plane hardly ever separates two groups that differ in one feature of many.
    """
    some = members[:: -(-len(members) // CUT_POINTS)]
    points = rows.take(some)
    terms = prior.terms(points)
    weights = np.full(len(some), n_members / len(some))
    odds = two_parts(terms, weights, _first_cuts(rng, points), prior, CUT_STEPS)
    weighted = terms * weights[:, None]
    upper = (odds @ terms.T > 0) @ weighted
    parts = np.stack([weighted.sum(axis=0) - upper, upper], axis=1)
    best: np.ndarray = odds[HastingsRatio(parts[0], prior, 1.0).of_splits(parts).argmax()]
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
