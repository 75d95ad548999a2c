"""The moves of the exact chain: they leave the posterior over partitions as it is.

``sweep`` draws all labels at once. Given the partition, the Dirichlet process is a sum of weights on the
occupied clusters, Dirichlet(n_1, .., n_K, alpha), whose last part is broken into sticks with parameters from
the prior (Ishwaran & James 2001). There are infinitely many sticks, of which a slice variable for each point
lets in finitely many (Walker 2007; Kalli, Griffin & Walker 2011): u_i is uniform below xi(pi of its cluster),
and the point may choose among the clusters with xi(pi_k) > u_i, with probability proportional to
pi_k f(x_i) / xi(pi_k). Any xi that depends on the weight alone leaves the posterior exact; here
xi = min(1, pi / delta) with delta the weight of a cluster of HEAVY points. So clusters larger than that are
open to all points, at their full weight, and the many light ones cost little because few points look at them.

``split_or_merge`` proposes to split or to merge whole clusters, after Jain & Neal (2004): two points, the
anchors, are chosen without looking at the partition. If they share a cluster, it is proposed to split it, one
anchor on either side; if not, to merge their two clusters. Both proposals use the same two Gaussians, fitted
by EM steps from the anchors to the cluster (or to the union), which depend on the anchors and on the *set* of
points only; a split gives each point to a side by itself, with probability r_i. The Hastings ratio of a split
into parts of n_1 and n_2 points is then

    H = alpha Gamma(n_1) f(X_1) Gamma(n_2) f(X_2) / (Gamma(n) f(X)) / prod_i r_i(side of i)

and that of a merge its inverse, with the r of the present sides. The first factor is ``HastingsRatio``;
without the last one, the probability of this very proposal, the move would not leave the posterior unchanged.

``gibbs_sweep`` is Neal's (2000) algorithm 3, one point at a time: for small data sets, and as a check.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit

from clusterwise._compiled import compiled
from clusterwise.dp.state import State
from clusterwise.gaussian.moves import HastingsRatio, two_parts
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of, sum_by_label
from clusterwise.rows.blocks import Block, ChainRows
from clusterwise.rows.sorted_rows import Rows

__all__ = ["draw_categories", "draw_seed", "gibbs_sweep", "split_or_merge", "sweep"]

# Points of a cluster that is open to all, and sticks that are broken off at a time.
HEAVY, STICKS_AT_ONCE = 20.0, 16
# What is below the best by more than this does not change a sum in double precision.
NEGLIGIBLE = -40.0
# The second anchor is the nearest of at most this many points. EM runs on at most this many members of a
# large cluster, evenly spaced: they too depend on the set alone.
MAX_CANDIDATES, LAUNCH_POINTS = 1024, 2000
SIDES_OF_ANCHORS = np.array([-1.0, 1.0])
# A sample may be wrong: of the proposals that it finds impossible one in twenty is looked at all the same.
MAX_LOG_RATIO_OF_SAMPLE = float(np.log(20.0))


def draw_seed(rng: np.random.Generator) -> int:
    """Seed of an operation on blocks."""
    return int(rng.integers(2**62))


# -- all labels at once --------------------------------------------------------------------------


def sweep(rng: np.random.Generator, rows: ChainRows, state: State, prior: NormalInverseWishart) -> State:
    """The state after all labels have been drawn anew."""
    seed, log_delta = draw_seed(rng), np.log(HEAVY / rows.n_rows)
    gammas = np.maximum(rng.standard_gamma(np.append(state.counts, state.hyper.alpha)), 1e-300)
    log_weights = np.log(gammas) - np.log(gammas.sum())  # of a draw from the Dirichlet distribution
    before = np.exp(np.minimum(log_weights[:-1] - log_delta, 0.0))  # xi of the clusters there are
    min_slice = max(min(rows.run(smallest_slice, seed, before)), 1e-300)
    sticks = _sticks(rng, float(log_weights[-1]), state.hyper.alpha, log_delta + float(np.log(min_slice)))
    log_weights = np.concatenate([log_weights[:-1], sticks])
    eta = prior.draw(rng, np.concatenate([state.statistics, np.zeros((len(sticks), prior.n_statistics))]))
    log_xi = np.minimum(log_weights - log_delta, 0.0)
    eta[:, 0] += log_weights - log_xi
    results = rows.run(draw_labels, seed, prior, eta, np.exp(log_xi), before)
    statistics = np.sum([sums for sums, _ in results], axis=0)
    in_use = statistics[:, 0] > 0.5
    names = np.maximum(in_use.cumsum() - 1, 0)
    rows.rename_clusters(names)
    labels = names[np.concatenate([labels for _, labels in results])]
    return replace(state, labels=labels, statistics=statistics[in_use])


def _sticks(rng: np.random.Generator, log_rest: float, alpha: float, log_min: float) -> np.ndarray:
    """Log weights of the sticks that ``log_rest`` is broken into by Beta(1, alpha) shares.

    What is left in the end, and so every stick that is not returned, is below ``log_min``.
    """
    sticks: list[np.ndarray] = []
    while log_rest > log_min:
        log_left = np.log(np.maximum(rng.random(STICKS_AT_ONCE), 1e-300)) / alpha  # 1 - Beta(1, alpha)
        rests = log_rest + np.cumsum(log_left)
        sticks.append(np.append(log_rest, rests[:-1]) + np.log(np.maximum(-np.expm1(log_left), 1e-300)))
        log_rest = float(rests[-1])
    return np.concatenate([np.empty(0), *sticks])


def smallest_slice(block: Block, rows: Rows, rng: np.random.Generator, xi: np.ndarray) -> tuple[Block, float]:
    """On a block: the smallest of its slice variables, for xi (K,) of the clusters."""
    slices = rng.random(len(rows)) * xi[block.labels]
    return block, float(slices.min(initial=1.0))


def draw_labels(
    block: Block,
    rows: Rows,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    eta: np.ndarray,
    xi: np.ndarray,
    before: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray]]:
    """On a block: draw all labels, by the slices of ``smallest_slice``, whose random numbers are the same.

    ``before`` (K,) is the xi of the clusters there were; ``eta`` (K', p) with the weights and ``xi`` (K',)
    include new ones. Returns sums (K', p) and the labels of the sample.
    """
    k = len(before)
    slices = rng.random(len(rows)) * before[block.labels]
    codes, sums = np.empty(len(rows), dtype=np.int32), np.zeros((len(eta), prior.n_statistics))
    max_new = float(xi[k:].max(initial=0.0))
    for part, points in rows.chunks(prior.n_statistics + k):
        terms, of_chunk = prior.terms(points), slices[part]
        logits = terms @ eta[:k].T
        for cluster in np.flatnonzero(xi[:k] < 1):
            logits[of_chunk >= xi[cluster], cluster] = -np.inf
        explorers = np.flatnonzero(of_chunk < max_new)  # those who look at new clusters
        beyond = terms[explorers] @ eta[k:].T
        beyond[of_chunk[explorers, None] >= xi[k:]] = -np.inf
        beyond = np.concatenate([logits[explorers], beyond], axis=1)
        drawn = draw_categories(rng, logits)
        drawn[explorers] = draw_categories(rng, beyond)
        codes[part] = 2 * drawn
        sums += sum_by_label(terms, drawn, len(eta))
    return replace(block, codes=codes), (sums, codes[block.sample] >> 1)


def draw_categories(rng: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    """One column (n,) for each row of unnormalized log probabilities (n, K), which are overwritten."""
    drawn = np.empty(len(logits), dtype=np.int64)
    _draw_categories(logits, rng.random(len(logits)), drawn)
    return drawn


@compiled
def _draw_categories(logits: np.ndarray, heights: np.ndarray, drawn: np.ndarray) -> None:
    """Write the categories (n,) that numbers ``heights`` (n,) from 0 to 1 stand for."""
    n, k = logits.shape
    for i in range(n):
        best = logits[i, 0]
        for j in range(1, k):
            best = max(best, logits[i, j])
        total = 0.0
        for j in range(k):
            below = logits[i, j] - best
            if below > NEGLIGIBLE:
                total += np.exp(below)
            logits[i, j] = total
        height, place = heights[i] * total, 0
        while place < k - 1 and logits[i, place] <= height:
            place += 1
        drawn[i] = place


# -- whole clusters ------------------------------------------------------------------------------


def split_or_merge(
    rng: np.random.Generator, rows: ChainRows, state: State, prior: NormalInverseWishart
) -> State:
    """The state after a split or a merge has been proposed, from two rows of the sample.

    Most proposals are refused, and the sample tells so. A first decision is made by its ratio r', and the
    blocks are asked about those that pass, with the ratio r / r'. What is accepted in the end is exact
    (delayed acceptance, Christen & Fox 2005): r' is a function of the two partitions, and that of the way
    back its inverse. With all rows in the sample r is r', and the blocks only hear of what is accepted.
    """
    if len(rows.sample) < 2:
        return state
    anchors = draw_anchors(rng, rows.sample)
    pair = np.array([anchors.first, anchors.second])
    a, b = state.labels[pair].tolist()
    sides = state.labels == b
    members = np.flatnonzero(sides | (state.labels == a))
    n_members = float(state.counts[a] if a == b else state.counts[a] + state.counts[b])
    points = rows.sample.take(pair)
    odds = launch(rows.sample, members, points, anchors, prior, n_members)
    log_r_anchors = float(log_expit(prior.terms(points) @ odds * SIDES_OF_ANCHORS).sum())
    test = HastingsRatio(state.statistics, prior, state.hyper.alpha)

    def log_ratio(drawn: Drawn) -> float:
        # The sides of the anchors were never in question.
        return float(test.of_splits(drawn.sums[None])[0]) - (drawn.log_r - log_r_anchors)

    if a == b:
        thresholds = rng.logistic(size=len(members))
        thresholds[np.searchsorted(members, pair)] = np.inf, -np.inf
    else:
        thresholds = np.where(sides[members], -np.inf, np.inf)
    of_sample = draw_sides(rows.sample, members, thresholds, odds, prior)
    sides[members] = of_sample.sides
    first, direction = log_ratio(of_sample), 1.0 if a == b else -1.0
    if not rows.all_at_hand:
        first = float(np.clip(first, -MAX_LOG_RATIO_OF_SAMPLE, MAX_LOG_RATIO_OF_SAMPLE))
    if np.log(rng.random()) >= direction * first:
        return state
    results = rows.run(propose, draw_seed(rng), prior, (a, b), odds, of_sample=sides)
    drawn = Drawn(sides, sum(one.log_r for one in results), np.sum([one.sums for one in results], axis=0))
    if np.log(rng.random()) >= direction * (log_ratio(drawn) - first):
        return state
    return _split(rows, state, a, drawn) if a == b else _merge(rows, state, a, b)


class Drawn(NamedTuple):
    """Sides of the members of one cluster or two, and what the Hastings ratio needs of them."""

    sides: np.ndarray  # (m,) bool
    log_r: float  # log probability of the sides
    sums: np.ndarray  # (2, p) of T(x) on either side


def draw_sides(
    rows: Rows, members: np.ndarray, thresholds: np.ndarray, odds: np.ndarray, prior: NormalInverseWishart
) -> Drawn:
    """Sides of the ``members`` (m,): the second where log odds, by ``odds`` (p,), exceed thresholds (m,).

    A threshold from the logistic distribution draws a side; one of plus or minus infinity has it given.
    """
    sides, log_r, sums = np.empty(len(members), dtype=bool), 0.0, np.zeros((2, prior.n_statistics))
    for part, points in rows.chunks_of(members, prior.n_statistics):
        terms = prior.terms(points)
        logits = terms @ odds
        side = logits > thresholds[part]
        log_r += float(log_expit(np.where(side, logits, -logits)).sum())
        sums[0] += ~side @ terms
        sums[1] += side @ terms
        sides[part] = side
    # Counts are whole numbers; what is left of rounding would be a point or no point at all.
    sums[:, 0] = np.round(sums[:, 0])
    return Drawn(sides, log_r, sums)


def propose(
    block: Block,
    rows: Rows,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    pair: tuple[int, int],
    odds: np.ndarray,
    of_sample: np.ndarray,
) -> tuple[Block, Drawn]:
    """On a block: draw sides of the rows of one cluster, or look at those of two.

    The sides ``of_sample`` (m,) have been drawn already. Sides become part of the block's codes.
    """
    (a, b), labels = pair, block.labels
    members = np.flatnonzero((labels == a) | (labels == b))
    if a == b:
        thresholds = rng.logistic(size=len(members))
        in_sample = labels[block.sample] == a
        given = np.where(of_sample[in_sample], -np.inf, np.inf)
        thresholds[np.searchsorted(members, block.sample[in_sample])] = given
    else:
        thresholds = np.where(labels[members] == b, -np.inf, np.inf)
    drawn = draw_sides(rows, members, thresholds, odds, prior)
    codes = block.codes.copy()
    codes[members] = 2 * labels[members] + drawn.sides
    return replace(block, codes=codes), drawn._replace(sides=np.empty(0, dtype=bool))


def _split(rows: ChainRows, state: State, a: int, drawn: Drawn) -> State:
    """The state with the second side of cluster ``a`` as the last cluster."""
    k = state.n_clusters
    new_codes = np.arange(2 * k)
    new_codes[2 * a + 1] = 2 * k
    rows.rename(new_codes)
    statistics = np.concatenate([state.statistics, drawn.sums[1:]])
    statistics[a] = drawn.sums[0]
    labels = np.where((state.labels == a) & drawn.sides, k, state.labels)
    return replace(state, labels=labels, statistics=statistics)


def _merge(rows: ChainRows, state: State, a: int, b: int) -> State:
    """The state with clusters a and b in one; the last cluster fills the gap."""
    k, gap = state.n_clusters - 1, max(a, b)
    names = np.arange(k + 1)
    names[k], names[gap] = gap, min(a, b)  # in this order: the last may be the gap
    rows.rename_clusters(names)
    statistics = state.statistics.copy()
    statistics[min(a, b)] += statistics[gap]
    statistics[gap] = statistics[k]
    return replace(state, labels=names[state.labels], statistics=statistics[:k])


class Anchors(NamedTuple):
    """Where a proposal starts; drawn without looking at the partition."""

    first: int
    second: int
    neighbours: float | None  # the second side starts from n^neighbours points; None: from half of the space
    n_em_steps: int


def draw_anchors(rng: np.random.Generator, rows: Rows) -> Anchors:
    """Two rows, far apart or near to each other, and how to go on from there.

    The second is the nearest to the first among a random number of random rows, so that pairs of
    neighbouring clusters, and pairs within small ones, come up as often as distant pairs. EM starts from the
    points nearer to the second than to the first, or from a few neighbours of the second: large clusters come
    and go by the former, small ones by the latter.
    """
    n = len(rows)
    n_candidates = 4 ** int(rng.integers(0, 1 + max(1, int(np.log2(n) / 2))))
    first = int(rng.integers(n))
    candidates = np.sort(rng.integers(n - 1, size=min(n_candidates, MAX_CANDIDATES)))
    candidates += candidates >= first
    offsets = rows.take(candidates) - rows.take(slice(first, first + 1))
    second = int(candidates[np.square(offsets).sum(axis=1).argmin()])
    if rng.random() < 0.5:
        return Anchors(first, second, None, 8)
    return Anchors(first, second, float(rng.random()), 2)


def launch(
    rows: Rows,
    members: np.ndarray,
    points_of_anchors: np.ndarray,
    anchors: Anchors,
    prior: NormalInverseWishart,
    n_members: float,
) -> np.ndarray:
    """Natural parameters (p,) of the log odds of the second anchor's side, from EM on rows ``members``.

    These stand for ``n_members`` rows.
    """
    some = members[:: -(-len(members) // LAUNCH_POINTS)]
    points = rows.take(some)
    first, second = points_of_anchors
    if anchors.neighbours is None:  # nearer to the second anchor: 2 x . (b - a) > b . b - a . a
        sides = points @ (second - first) > (second @ second - first @ first) / 2
    else:
        distances = np.square(points - second).sum(axis=1)
        rank = min(int(len(points) ** anchors.neighbours), len(points) - 1)
        sides = distances < np.partition(distances, rank)[rank]
    weights = np.full(len(some), n_members / len(some))
    odds: np.ndarray = two_parts(prior.terms(points), weights, sides[None], prior, anchors.n_em_steps)[0]
    return odds


# -- one point at a time -------------------------------------------------------------------------


def gibbs_sweep(rng: np.random.Generator, rows: Rows, state: State, prior: NormalInverseWishart) -> State:
    """The state after every point, in random order, has drawn its cluster given all other points.

    P(z_i = k | rest) is proportional to n_k t_k(x_i) for the clusters of the other points, and to
    alpha t_0(x_i) for a new one, where t are the posterior and prior predictive densities.
    """
    points = rows.take(slice(None))
    terms, labels = prior.terms(points), state.labels.copy()
    # one row more than there are clusters: the empty one that is always on offer
    statistics = np.concatenate([state.statistics, np.zeros((1, prior.n_statistics))])
    log_new = prior.log_predictive(points, prior.posterior(np.zeros((1, prior.n_statistics))))[:, 0]
    log_new += np.log(state.hyper.alpha)
    for i in rng.permutation(len(points)):
        statistics[labels[i]] -= terms[i]
        occupied = np.flatnonzero(statistics[:, 0] > 0.5)
        others = statistics[occupied]
        logits = np.log(others[:, 0]) + prior.log_predictive(points[[i]], prior.posterior(others))[0]
        chosen = int((np.append(logits, log_new[i]) + rng.gumbel(size=len(logits) + 1)).argmax())
        is_new = chosen == len(occupied)
        labels[i] = np.argmin(statistics[:, 0]) if is_new else occupied[chosen]
        if is_new:
            statistics[labels[i]] = 0.0
        statistics[labels[i]] += terms[i]
        if statistics[-1, 0] > 0.5:
            statistics = np.concatenate([statistics, np.zeros((1, prior.n_statistics))])
    # afresh, so that the rounding of additions and removals cannot build up over sweeps
    values, labels = np.unique(labels, return_inverse=True)
    return replace(state, labels=labels, statistics=statistics_of(rows, labels, len(values), prior))
