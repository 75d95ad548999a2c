"""What AMCP does when no point is left: clusters that are two are split, and two that are one are merged.

The cluster-wise loop compares a new cluster with the rest, whose density is a constant, and sees encodings
alone. Two clusters side by side may become one, and points between two go to one of them for good. So IntraCM
goes on with all clusters and no rest, over the data themselves (``amcp_gaussians``), and a perceptron judges
whether two groups of points, parts of a cluster or neighbours, are two clusters or one. It was trained on
groups that this search comes across, where the truth is known (``amcp_reviser``). Compiled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.models.amcp_gaussians import (
    Context,
    Mixture,
    Perceptrons,
    applied,
    described,
    settled,
    tilt_of,
)

__all__ = ["N_EVIDENCE", "Decisions", "revised"]

# EM steps at the start, after each change, of two parts of a cluster, and at the end.
FIRST_STEPS, EM_STEPS, PART_STEPS, LAST_STEPS = 5, 6, 12, 10
# Splits and then merges, this many times.
ROUNDS = 2
# Fewer points than this are not split.
FEWEST = 4
# Neighbours of a cluster that it may be merged with.
NEIGHBOURS = 2
# Numbers that the judge sees.
N_EVIDENCE = 13
# Decisions of one data set that are kept for training.
MOST_DECISIONS = 400


class Decisions(NamedTuple):
    """What was to be decided about R pairs of groups, for training."""

    evidence: np.ndarray  # (R, N_EVIDENCE)
    apart: np.ndarray  # (R,) share of the pairs of points, one of each group, that belong to two clusters
    n_pairs: np.ndarray  # (R,)


class Lesson(NamedTuple):
    """The truth, if it is known, and room for decisions."""

    truth: np.ndarray  # (N,), or empty
    follow_truth: bool  # whether it decides, and not the judge
    decisions: Decisions  # of which the first ``n_kept[0]`` are there
    n_kept: np.ndarray  # (1,)


def revised(
    x: np.ndarray,
    labels: np.ndarray,
    learned: Perceptrons,
    max_clusters: int,
    truth: np.ndarray | None = None,
    follow_truth: bool = False,
) -> tuple[np.ndarray, Decisions]:
    """Labels (N,) of points (N, d) of unit spread after splits and merges, from 0 on.

    With ``truth`` (N,) decisions are kept; ``follow_truth`` decides by it and not by the judge.
    """
    x = np.ascontiguousarray(x.T[np.ptp(x, axis=0) > 0], dtype=np.float64)  # not columns that fill up
    room = 0 if truth is None else MOST_DECISIONS
    decisions = Decisions(np.empty((room, N_EVIDENCE)), np.empty(room), np.empty(room))
    known = np.zeros(0, np.int64) if truth is None else truth.astype(np.int64)
    lesson = Lesson(known, follow_truth, decisions, np.zeros(1, np.int64))
    found = (np.cumsum(np.bincount(labels) > 0) - 1)[labels].astype(np.int64)
    if len(x) > 0:
        found = _revised(x, found, learned, max_clusters, lesson)
    n_kept = lesson.n_kept[0]
    return (np.cumsum(np.bincount(found) > 0) - 1)[found], Decisions(*(part[:n_kept] for part in decisions))


@compiled
def _revised(
    x: np.ndarray, labels: np.ndarray, learned: Perceptrons, max_clusters: int, lesson: Lesson
) -> np.ndarray:
    mixture, context = settled(x, _plan_of(labels), FIRST_STEPS, learned)
    for _ in range(ROUNDS):
        mixture, context, n_splits = _split(x, mixture, context, learned, max_clusters, lesson)
        mixture, context, n_merges = _merged(x, mixture, context, learned, lesson)
        if n_splits + n_merges == 0:
            break
    mixture, context = settled(x, mixture.plan, LAST_STEPS, learned)
    return _largest(mixture.plan)


@compiled
def _split(
    x: np.ndarray,
    mixture: Mixture,
    context: Context,
    learned: Perceptrons,
    max_clusters: int,
    lesson: Lesson,
) -> tuple[Mixture, Context, int]:
    """The mixture after all splits: of clusters that were not looked at since they changed, one by one."""
    looked_at, j, n_splits = np.zeros(len(mixture.plan), np.bool_), 0, 0
    while j < len(mixture.plan) and len(mixture.plan) < max_clusters:
        members = np.flatnonzero(_largest(mixture.plan) == j)
        if looked_at[j] or len(members) < FEWEST:
            j += 1
            continue
        looked_at[j] = True
        seen, parts = _cut(x[:, members], context, learned)
        if len(parts) == 0 or _decided(seen, members, _largest(parts), learned, lesson) <= 0:
            j += 1
            continue
        more = np.zeros((len(mixture.plan) + 1, x.shape[1]))
        more[:-1] = mixture.plan
        for place, i in enumerate(members):
            more[-1, i] = mixture.plan[j, i] * parts[1, place]
            more[j, i] -= more[-1, i]
        mixture, context = settled(x, more, EM_STEPS, learned)
        looked_at = np.append(looked_at, False)
        looked_at[j], j, n_splits = False, 0, n_splits + 1
    return mixture, context, n_splits


@compiled
def _merged(
    x: np.ndarray, mixture: Mixture, context: Context, learned: Perceptrons, lesson: Lesson
) -> tuple[Mixture, Context, int]:
    """The mixture after all merges: of the pair that is most likely one, as long as there is such a pair."""
    n_merges = 0
    while len(mixture.plan) > 1:
        lowest, first, second = 0.0, -1, -1
        group = _largest(mixture.plan)
        for a, b in _neighbours(mixture):
            members = np.flatnonzero((group == a) | (group == b))
            in_second = (group[members] == b).astype(np.int64)
            if in_second.sum() == 0 or in_second.sum() == len(members):  # a cluster without points
                lowest, first, second = -np.inf, a, b
                break
            both = np.empty((2, len(members)))
            for place, i in enumerate(members):
                both[0, place] = mixture.plan[a, i] / (mixture.plan[a, i] + mixture.plan[b, i])
                both[1, place] = 1 - both[0, place]
            own = x[:, members]
            seen = _evidence(own, described(own, both, 1, context, learned), context, learned)
            logit = _decided(seen, members, in_second, learned, lesson)
            if logit < lowest:
                lowest, first, second = logit, a, b
        if first < 0:
            break
        fewer = np.empty((len(mixture.plan) - 1, x.shape[1]))
        fewer[:second], fewer[second:] = mixture.plan[:second], mixture.plan[second + 1 :]
        fewer[first] += mixture.plan[second]
        mixture, context = settled(x, fewer, EM_STEPS, learned)
        n_merges += 1
    return mixture, context, n_merges


@compiled
def _decided(
    seen: np.ndarray, members: np.ndarray, in_second: np.ndarray, learned: Perceptrons, lesson: Lesson
) -> float:
    """Above zero for two clusters, below for one: what the judge says of members in two groups (n,)."""
    logit: float = applied(learned.judge, seen.reshape(-1, 1))[0, 0]
    at = lesson.n_kept[0]
    if at < len(lesson.decisions.apart):
        apart, n_pairs = _truly_apart(in_second, lesson.truth[members])
        lesson.decisions.evidence[at] = seen
        lesson.decisions.apart[at], lesson.decisions.n_pairs[at] = apart, n_pairs
        lesson.n_kept[0] += 1
        logit = apart - 0.5 if lesson.follow_truth else logit
    return logit


@compiled
def _plan_of(labels: np.ndarray) -> np.ndarray:
    plan = np.zeros((labels.max() + 1, len(labels)))
    for i, label in enumerate(labels):
        plan[label, i] = 1.0
    return plan


@compiled
def _largest(plan: np.ndarray) -> np.ndarray:
    """The component with the largest share of each point, (N,)."""
    best = np.zeros(plan.shape[1], np.int64)
    for j in range(1, len(plan)):
        for i in range(plan.shape[1]):
            if plan[j, i] > plan[best[i], i]:
                best[i] = j
    return best


@compiled
def _cut(x: np.ndarray, context: Context, learned: Perceptrons) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest two parts of a cluster (d, n): evidence of these, and their plan (2, n); empty if none.

    EM begins at cuts across the two longest axes: through the mean, and between a rim and all else, by which
    a few points far out are found.
    """
    d, n = x.shape
    apart = np.empty_like(x)
    for a in range(d):
        apart[a] = x[a] - x[a].mean()
    squares, axes = np.linalg.eigh(apart @ apart.T / n)
    best, found, seen = -np.inf, np.zeros((0, n)), np.zeros(N_EVIDENCE)
    for axis in range(d - 1, max(d - 3, -1), -1):
        along = np.ascontiguousarray(axes[:, axis]) @ apart
        for threshold in (0.0, 1.5 * math.sqrt(max(squares[axis], 0.0))):
            beyond = (along > threshold).astype(np.float64)
            if beyond.sum() == 0 or beyond.sum() == n:
                continue
            parts = described(x, np.stack((1 - beyond, beyond)), PART_STEPS, context, learned)
            if parts.log_likelihood > best and parts.mass.min() >= 1:
                best, found = parts.log_likelihood, parts.plan
                seen = _evidence(x, parts, context, learned)
    return seen, found


@compiled
def _evidence(x: np.ndarray, parts: Mixture, context: Context, learned: Perceptrons) -> np.ndarray:
    """What the judge sees (N_EVIDENCE,) of points (d, n) as two parts, compared with one cluster."""
    one = described(x, np.ones((1, x.shape[1])), 1, context, learned)
    gain = parts.log_likelihood - one.log_likelihood
    small, large = (0, 1) if parts.mass[0] < parts.mass[1] else (1, 0)
    distance = 0.0
    for a in range(len(x)):
        variances = math.exp(2 * parts.log_sds[0, a]) + math.exp(2 * parts.log_sds[1, a])
        distance += (parts.means[0, a] - parts.means[1, a]) ** 2 / variances
    seen = np.empty(N_EVIDENCE)
    seen[0] = math.log(1 + max(gain, 0.0)) - 2.5
    seen[1] = max(min(gain / (parts.mass[small] + 1), 5.0), -1.0)
    seen[2] = math.log(parts.mass[small] + 1) / 2 - 1.5
    seen[3] = math.log(parts.mass[large] + 1) / 2 - 2
    seen[4] = math.log(1 + distance) - 1.5
    seen[5] = one.log_sds[0].mean() - context.width
    seen[6] = parts.log_sds[small].mean() - context.width
    seen[7] = parts.log_sds[large].mean() - context.width
    seen[8] = context.spread
    seen[9] = 0.5 * math.log(context.n_clusters)
    seen[10] = context.tilt
    seen[11] = tilt_of(one.correlations[0])
    seen[12] = tilt_of(parts.correlations[large])
    return seen


@compiled
def _neighbours(mixture: Mixture) -> list[tuple[int, int]]:
    """Pairs of each cluster with its nearest, by squared distances over sums of variances."""
    k = len(mixture.means)
    variances = np.exp(2 * mixture.log_sds)
    near = np.zeros((k, k), np.bool_)
    for a in range(k):
        distances = np.full(k, np.inf)
        for b in range(k):
            if b != a:
                gaps = (mixture.means[a] - mixture.means[b]) ** 2 / (variances[a] + variances[b])
                distances[b] = gaps.sum()
        for b in np.argsort(distances)[: min(NEIGHBOURS, k - 1)]:
            near[min(a, b), max(a, b)] = True
    return [(a, b) for a in range(k) for b in range(a + 1, k) if near[a, b]]


@compiled
def _truly_apart(in_second: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Share of pairs of points of two groups that belong to two clusters, and how many pairs there are."""
    counts = np.zeros((2, truth.max() + 1))
    for i in range(len(truth)):
        counts[in_second[i], truth[i]] += 1
    n_pairs = counts[0].sum() * counts[1].sum()
    return 1 - (counts[0] * counts[1]).sum() / max(n_pairs, 1.0), n_pairs
