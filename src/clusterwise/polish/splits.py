"""Splits of clusters in two: which ones to try, from where, and which ones to believe.

A cluster is tried if it does not look like one Gaussian among others of its kind. Local EM of two components
starts from the best cuts across its axes and principal directions (split-and-merge EM, Ueda et al. 2000). Any
odd shape is better described by several Gaussians than by one, so the evidence alone would shatter it: a
split must also convince by a valley between the parts or by parts that are Gaussians themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from clusterwise.mixture import PRIOR_POINTS, SMALLEST_VARIANCE
from clusterwise.polish.em import log_joint_of, soft
from clusterwise.polish.evidence import (
    Data,
    HyperParameters,
    Moments,
    State,
    judge,
    log_evidence,
    plogp,
    pooled_variance,
    shrunk_variances,
)

__all__ = [
    "SUSPICIOUS",
    "Split",
    "Suspect",
    "best_split",
    "concentric",
    "convincing",
    "divided",
    "oddness",
    "split_of_suspect",
    "suspect",
]

# Correlation, skewness and kurtosis beyond this, as chi-squared, are not those of one Gaussian.
SUSPICIOUS = 9.0
# Edges of the eighths of a Gaussian; their chi-squared has five degrees of freedom and is brought to the
# scale of one with two; clusters must have this many points for it.
EIGHTHS = norm.ppf(np.arange(1, 8) / 8)
AS_TWO_DEGREES = 0.6
ENOUGH = 40.0
# Being wider than the others is measured as if variances differed like those of so many points do anyway.
ALIKE = 50.0
# A cluster overlaps with others if this share of its points is not its own.
OVERLAP = 0.02
# There is a valley if a third of the way between two means has less than this share of the points on
# either side of it; these are the thirds.
VALLEY = 0.3
DEEP_VALLEY = 0.1
BOTTOMS = np.linspace(0.3, 0.7, 9) + np.array([[-1 / 6], [1 / 6]])
# Two clusters must lie this far apart, squared and in standard deviations.
CLOSE = 2.0
# A split whose evidence falls short by no more than this before the other clusters adapt is tried.
WORTH_A_TRIAL = 5.0
# Memberships below this do not count as members of a cluster that is to be split.
SMALLEST_SHARE = 1e-3


def _truncation_table(size: int = 199) -> np.ndarray:
    """What cutting a Gaussian at its quantile p adds to the log-likelihood per point, for p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p = np.arange(1, size + 1) / (size + 1)
    cut = norm.ppf(p)
    density = norm.pdf(cut)
    left, right = -density / p, density / (1 - p)
    below = 1 - cut * density / p - np.square(left)
    above = 1 + cut * density / (1 - p) - np.square(right)
    return -0.5 * (p * np.log(below) + (1 - p) * np.log(above)) + plogp(p) + plogp(1 - p)


CUT_GAUSSIAN = _truncation_table()


def oddness(points: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """How little weighted points (n, d) look like a Gaussian, and their projections (m, n).

    The projections are those on the axes and the principal directions, in standard deviations. Correlation
    of the axes, skewness and kurtosis of the projections, and how many points lie in each eighth of a
    Gaussian are all measured as chi-squared; the largest counts.
    """
    count, d = weights.sum(), points.shape[1]
    centred = points - weights @ points / count
    centred = centred / np.sqrt(np.maximum(weights @ np.square(centred) / count, SMALLEST_VARIANCE))
    directions, suspicion = np.eye(d), 0.0
    if d > 1:
        correlation = (centred * weights[:, None]).T @ centred / count
        suspicion = count * np.square(np.triu(correlation, 1)).max()
        directions = np.concatenate([directions, np.linalg.eigh(correlation)[1].T])
    projections = directions @ centred.T
    squares = np.square(projections)
    second = np.maximum(squares @ weights / count, 1e-12)
    skewness = (squares * projections) @ weights / count / second**1.5
    kurtosis = np.square(squares) @ weights / count / second**2 - 3
    shape = count / 6 * (np.square(skewness) + np.square(kurtosis) / 4)
    suspicion = max(suspicion, float(shape.max()))
    if count > ENOUGH:  # three clusters in a row may have the moments of one
        eighths = np.searchsorted(EIGHTHS, projections / np.sqrt(second)[:, None])
        eighths += 8 * np.arange(len(projections))[:, None]
        counts = np.bincount(eighths.ravel(), np.tile(weights, len(projections)), 8 * len(projections))
        excess = np.square(counts - count / 8).reshape(-1, 8).sum(axis=1) / (count / 8)
        suspicion = max(suspicion, AS_TWO_DEGREES * float(excess.max()))
    return suspicion, projections


def convincing(data: Data, parts: np.ndarray, hyper: HyperParameters) -> bool:
    """Whether two parts with weights (2, n) are clusters of their own, rather than pieces of one odd shape.

    They are if they lie apart with a valley between them, or as two Gaussians. Parts that overlap with a
    third cluster may be pieces of a longer shape: there only a deep valley counts.
    """
    both = parts.sum(axis=0)
    rows = np.nonzero(both > SMALLEST_SHARE)[0]
    points, parts, both = data.points[rows], parts[:, rows], both[rows]
    moments = data.moments(parts, data.columns[rows])
    gap = moments.means[1] - moments.means[0]
    scale = shrunk_variances(moments, hyper).mean(axis=0)
    distance = (np.square(gap) / scale).sum()
    if distance < CLOSE:
        return False
    place = (points - moments.means[0]) @ (gap / scale) / distance  # 0 and 1 at the means
    order = np.argsort(place, kind="stable")
    passed = np.concatenate([[0.0], np.cumsum(both[order])])
    left, right = passed[np.searchsorted(place[order], BOTTOMS)]  # (2, bottoms)
    isolated = 1 - np.square(both).sum() / both.sum() < OVERLAP
    valley = VALLEY if isolated else DEEP_VALLEY
    if (right - left < valley * np.minimum(left, passed[-1] - right)).any():
        return True
    return isolated and all(oddness(points, part)[0] < SUSPICIOUS for part in parts)


def concentric(data: Data, state: State, first: int, second: int) -> bool:
    """Whether two clusters are the core and the tails of one: Gaussians, and in the same place."""
    means, scales = state.moments.means, shrunk_variances(state.moments, state.hyper)
    distance = (np.square(means[first] - means[second]) / (scales[first] + scales[second])).sum()
    pair = state.memberships[[first, second]]
    return bool(distance < CLOSE / 2) and all([oddness(data.points, part)[0] < SUSPICIOUS for part in pair])


def _starts(
    columns: np.ndarray, weights: np.ndarray, projections: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Hard cuts of one cluster across each direction, (starts, n) bool: the best one in the bulk
    compared with a cut Gaussian, and the best one at the edges."""
    n, d = len(weights), columns.shape[1] // 2
    order = np.argsort(projections, axis=1, kind="stable")  # (m, n)
    weighted = np.concatenate([np.ones((n, 1)), columns], axis=1) * weights[:, None]
    left = np.cumsum(weighted[order], axis=1)  # (m, n, 1 + 2d)
    whole = left[:, -1:]
    gains = np.zeros((len(order), n - 1))
    count = whole[..., 0]
    for part in (left[:, :-1], whole - left[:, :-1], whole):
        counts = np.maximum(part[..., :1], 1e-9)
        scatter = np.maximum(part[..., 1 + d :] - np.square(part[..., 1 : 1 + d]) / counts, 0.0)
        variances = (scatter + variance) / (counts + 1)  # one point's worth: a part of one point has a width
        value = 0.5 * counts[..., 0] * np.log(np.maximum(variances, SMALLEST_VARIANCE)).sum(axis=-1)
        value -= counts[..., 0] * np.log(counts[..., 0] / count)
        gains = gains + (value if part is whole else -value)
    share = left[:, :-1, 0] / count
    table = np.arange(1, len(CUT_GAUSSIAN) + 1) / (len(CUT_GAUSSIAN) + 1)
    excess = gains - count * np.interp(share, table, CUT_GAUSSIAN)
    excess[(share < 0.03) | (share > 0.97)] = -np.inf
    cuts = np.concatenate([gains.argmax(axis=1), excess.argmax(axis=1)])
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(n), order.shape), axis=1)
    return np.concatenate([rank, rank]) <= cuts[:, None]


def _joined(others: Moments, parts: Moments) -> Moments:
    """Clusters (K - 1) beside each of several pairs of parts (starts, 2), as (starts, K + 1)."""
    shape = (len(parts.counts),)
    return Moments(
        *(
            np.concatenate([np.broadcast_to(other, shape + other.shape), part], axis=1)
            for other, part in zip(others, parts, strict=True)
        )
    )


class Split(NamedTuple):
    """A split of one cluster: what it adds to the evidence, and memberships (parts, n) of the parts."""

    gain: float
    parts: np.ndarray


class Suspect(NamedTuple):
    """A cluster that does not look like one: its rows (m,), their weights (m,) and projections."""

    oddness: float
    rows: np.ndarray
    weights: np.ndarray
    projections: np.ndarray


def suspect(data: Data, state: State, j: int) -> Suspect | None:
    """Cluster ``j``, if its shape or width calls for a trial."""
    rows = np.nonzero(state.memberships[j] > SMALLEST_SHARE)[0]
    weights = state.memberships[j, rows]
    count = weights.sum()
    if count < 1.5 or len(rows) < 2:
        return None
    width = (state.moments.scatters[j] / count / state.hyper.variance).max() - 1
    suspicion, projections = oddness(data.points[rows], weights)
    if max(suspicion, 0.5 * width * count * ALIKE / (count + ALIKE)) < SUSPICIOUS:
        return None
    return Suspect(suspicion, rows, weights, projections)


def best_split(data: Data, state: State, j: int, steps: int) -> Split | None:
    """Best split of cluster ``j`` that convinces, if it is suspect and there is one that may gain."""
    suspected = suspect(data, state, j)
    return None if suspected is None else split_of_suspect(data, state, j, steps, suspected)


def split_of_suspect(data: Data, state: State, j: int, steps: int, suspected: Suspect) -> Split | None:
    """Best split of a suspect cluster that convinces, if there is one that may gain."""
    _, rows, weights, projections = suspected
    columns = data.columns[rows]
    others = Moments(*(np.delete(values, j, axis=0) for values in state.moments))
    rest = others.scatters.sum(axis=0)
    side = _starts(columns, weights, projections, state.hyper.variance)
    shares = np.stack([side, ~side], axis=1) * 1.0  # (starts, 2, n)
    for _ in range(max(1, steps)):
        moments = data.moments(shares * weights, columns)
        scatter = rest + moments.scatters.sum(axis=1, keepdims=True)
        # How alike the clusters are is not known before they are parted: the prior must be weak here.
        hyper = HyperParameters(
            pooled_variance(data, scatter, state.n_clusters + 1), state.hyper.spread, PRIOR_POINTS
        )
        shares, entropy, _ = soft(log_joint_of(columns.T, moments, hyper))
        alive = (shares @ weights).min(axis=1) > 0.5
        if not alive.any():
            return None
        shares, entropy = shares[alive], entropy[alive]
    moments = data.moments(shares * weights, columns)
    alone = state.log_evidence - state.entropy
    gains = log_evidence(data, _joined(others, moments))[0] - alone + entropy @ weights
    for best in np.argsort(-gains, kind="stable"):
        if gains[best] < -WORTH_A_TRIAL:
            break
        parts = np.zeros((2, len(data.points)))
        parts[:, rows] = shares[best] * weights
        if convincing(data, parts, state.hyper):
            return Split(float(gains[best]), parts)
    return None


def divided(data: Data, state: State, splits: Sequence[tuple[int, Split]]) -> State:
    """Replace clusters by their parts: the first takes the cluster's place, the others go to the end."""
    memberships = np.concatenate([state.memberships, *(split.parts[1:] for _, split in splits)])
    entropy = state.entropy
    for j, split in splits:
        first = state.memberships[j] - split.parts[1:].sum(axis=0)
        terms = plogp(first) + plogp(split.parts[1:]).sum(axis=0) - plogp(state.memberships[j])
        entropy -= float(terms.sum())
        memberships[j] = first
    return judge(data, memberships, entropy)
