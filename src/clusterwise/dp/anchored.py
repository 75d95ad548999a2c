"""Exact splits and merges of whole clusters, started from two anchor points.

After Jain & Neal (2004): two points are chosen without looking at the partition. If they share a cluster, it
is proposed to split it, one anchor on either side; if not, to merge their two clusters. Both proposals use
the same two Gaussians, fitted by EM steps from the anchors to the cluster (or to the union), which depend on
the anchors and on the *set* of points only; a split gives each point to a side by itself, with probability
r_i. EM starts from the points nearer to the second anchor than to the first, or from a few neighbours of the
second: large clusters come and go by the former, small ones by the latter. The Hastings ratio of a split into
parts of n_1 and n_2 points is then

    H = alpha Gamma(n_1) f(X_1) Gamma(n_2) f(X_2) / (Gamma(n) f(X)) / prod_i r_i(side of i)

and that of a merge its inverse, with the r of the present sides. The first factor is the ratio in the slides
of DeepDPM; without the last one, the probability of this very proposal, the moves would not leave the
posterior unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from clusterwise.dp.state import State
from clusterwise.gaussian.moves import HastingsRatio, two_parts
from clusterwise.gaussian.niw import NormalInverseWishart
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["Anchors", "draw_anchors", "launch", "split_or_merge"]

MOST_CANDIDATES = 1024
# EM runs on at most this many members of a large cluster, evenly spaced: they too depend on the set alone.
LAUNCH_POINTS = 2000


class Anchors(NamedTuple):
    """Where a proposal starts; drawn without looking at the partition."""

    first: int
    second: int
    neighbours: float | None  # the second side starts from n^neighbours points; None: from half of the space
    n_em_steps: int


def draw_anchors(rng: np.random.Generator, rows: Rows) -> Anchors:
    """Choose two rows, far apart or near to each other, and how to go on from there.

    The second is the nearest to the first among a random number of random rows, so that pairs of
    neighbouring clusters, and pairs within small ones, come up as often as distant pairs.
    """
    n = len(rows)
    n_candidates = 4 ** int(rng.integers(0, 1 + max(1, int(np.log2(n) / 2))))
    first = int(rng.integers(n))
    candidates = np.sort(rng.integers(n - 1, size=min(n_candidates, MOST_CANDIDATES)))
    candidates += candidates >= first
    offsets = rows.take(candidates) - rows.take(slice(first, first + 1))
    second = int(candidates[np.square(offsets).sum(axis=1).argmin()])
    if rng.random() < 0.5:
        return Anchors(first, second, None, 8)
    return Anchors(first, second, float(rng.random()), 2)


def _first_sides(points: np.ndarray, first: np.ndarray, second: np.ndarray, anchors: Anchors) -> np.ndarray:
    """Which of the points (m, d) are on the second anchor's side before the first EM step, (m,) bool."""
    if anchors.neighbours is None:  # nearer to the second anchor: 2 x . (b - a) > b . b - a . a
        nearer: np.ndarray = points @ (second - first) > (second @ second - first @ first) / 2
        return nearer
    distances = np.square(points - second).sum(axis=1)
    rank = min(int(len(points) ** anchors.neighbours), len(points) - 1)
    return distances < np.partition(distances, rank)[rank]


def launch(
    rows: Rows,
    members: np.ndarray,
    anchors: Anchors,
    prior: NormalInverseWishart,
    n_members: float | None = None,
) -> np.ndarray:
    """Natural parameters (p,) of the log odds of the second anchor's side, from EM on rows ``members``.

    These stand for ``n_members`` rows, if not for themselves.
    """
    some = members[:: -(-len(members) // LAUNCH_POINTS)]
    points = rows.take(some)
    lifted = prior.terms(points)
    first, second = rows.take(np.array([anchors.first, anchors.second]))
    sides = _first_sides(points, first, second, anchors)[None]
    weights = np.full(len(some), (len(members) if n_members is None else n_members) / len(some))
    odds: np.ndarray = two_parts(lifted, weights, sides, prior, anchors.n_em_steps)[0]
    return odds


def split_or_merge(
    rng: np.random.Generator, rows: Rows, state: State, prior: NormalInverseWishart, anchors: Anchors
) -> State:
    """Propose to split or to merge the clusters of two rows; return the next state."""
    labels = state.labels
    a, b = int(labels[anchors.first]), int(labels[anchors.second])
    members = np.flatnonzero(labels == a if a == b else (labels == a) | (labels == b))
    odds = launch(rows, members, anchors, prior)
    pins = np.searchsorted(members, [anchors.first, anchors.second])
    sides = np.empty(len(members), dtype=bool) if a == b else labels[members] == b
    log_proposal, statistics = 0.0, np.zeros((2, prior.n_statistics))
    for part, points in rows.chunks_of(members, prior.n_statistics):
        lifted = prior.terms(points)
        logits = lifted @ odds
        if a == b:
            sides[part] = rng.random(len(logits)) < expit(logits)
        free = np.ones(len(logits), dtype=bool)
        for pin, side in zip(pins, (False, True), strict=True):
            if part.start <= pin < part.stop:
                sides[pin], free[pin - part.start] = side, False
        log_proposal += float(log_expit(np.where(sides[part], logits, -logits))[free].sum())
        upper = sides[part] @ lifted
        statistics += np.stack([lifted.sum(axis=0) - upper, upper])
    # Counts are whole numbers; what is left of rounding would be a point or no point at all.
    statistics[:, 0] = np.round(statistics[:, 0])
    log_ratio = _log_h(state, statistics, prior) - log_proposal
    if np.log(rng.random()) >= (log_ratio if a == b else -log_ratio):
        return state
    if a == b:
        return _with_split(state, a, members[sides], statistics)
    return _with_merge(state, a, b, statistics.sum(axis=0))


def _with_split(state: State, cluster: int, leaving: np.ndarray, statistics: np.ndarray) -> State:
    """Give the rows ``leaving`` a cluster of their own, the last one."""
    labels, kept = state.labels.copy(), state.statistics.copy()
    labels[leaving] = state.n_clusters
    kept[cluster] = statistics[0]
    return replace(state, labels=labels, statistics=np.concatenate([kept, statistics[1:]]))


def _with_merge(state: State, a: int, b: int, statistics: np.ndarray) -> State:
    """Join clusters a and b; the last label fills the gap."""
    last = state.n_clusters - 1
    keep, gap = min(a, b), max(a, b)
    labels, kept = state.labels.copy(), state.statistics.copy()
    labels[labels == gap] = keep
    labels[labels == last] = gap
    kept[keep] = statistics
    kept[gap] = kept[last]
    return replace(state, labels=labels, statistics=kept[:last])


def _log_h(state: State, parts: np.ndarray, prior: NormalInverseWishart) -> float:
    """Log of the first factor of the ratio, for statistics (2, p) of the parts."""
    return float(HastingsRatio(state.statistics, prior, state.hyper.alpha).of_splits(parts[None])[0])
