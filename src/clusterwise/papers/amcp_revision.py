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
from clusterwise.papers.amcp_gaussians import (
    Context,
    Mixture,
    Perceptrons,
    applied,
    described,
    settled,
    tilt_of,
)

__all__ = ["N_EVIDENCE", "Decisions", "Revised", "revised"]

# EM steps at the start, after each change, of two parts of a cluster, and at the end.
FIRST_STEPS, EM_STEPS, PART_STEPS, LAST_STEPS = 5, 6, 12, 10
# Splits and then merges, this many times.
ROUNDS = 2
# Times that all clusters that changed are looked at again, at most.
MOST_SWEEPS = 20
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


class Revised(NamedTuple):
    """What comes out."""

    labels: np.ndarray  # (N,), from 0 on
    capped: bool  # whether a cluster stayed one because there were enough
    decisions: Decisions


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
) -> Revised:
    """Clusters of points (N, d) of unit spread after splits and merges of those in ``labels`` (N,).

    With ``truth`` (N,) decisions are kept; ``follow_truth`` decides by it and not by the judge.
    """
    x = np.ascontiguousarray(x.T[np.ptp(x, axis=0) > 0], dtype=np.float64)  # not columns that fill up
    room = 0 if truth is None else MOST_DECISIONS
    decisions = Decisions(np.empty((room, N_EVIDENCE)), np.empty(room), np.empty(room))
    known = np.zeros(0, np.int64) if truth is None else truth.astype(np.int64)
    lesson = Lesson(known, follow_truth, decisions, np.zeros(1, np.int64))
    found = (np.cumsum(np.bincount(labels) > 0) - 1)[labels].astype(np.int64)
    capped = False
    if len(x) > 0:
        found, capped = _revised(x, found, learned, max_clusters, lesson)
    n_kept = lesson.n_kept[0]
    names = np.cumsum(np.bincount(found) > 0) - 1
    return Revised(names[found], bool(capped), Decisions(*(part[:n_kept] for part in decisions)))


@compiled
def _revised(
    x: np.ndarray, labels: np.ndarray, learned: Perceptrons, max_clusters: int, lesson: Lesson
) -> tuple[np.ndarray, bool]:
    mixture, context = settled(x, _plan_of(labels), FIRST_STEPS, learned)
    capped = False
    for _ in range(ROUNDS):
        mixture, context, n_splits, capped = _split(x, mixture, context, learned, max_clusters, lesson)
        mixture, context, n_merges = _merged(x, mixture, context, learned, lesson)
        if n_splits + n_merges == 0:
            break
    mixture, context = settled(x, mixture.plan, LAST_STEPS, learned)
    return _largest(mixture.plan), capped


@compiled
def _split(
    x: np.ndarray,
    mixture: Mixture,
    context: Context,
    learned: Perceptrons,
    max_clusters: int,
    lesson: Lesson,
) -> tuple[Mixture, Context, int, bool]:
    """The mixture after all splits, how many there were, and whether there would have been more.

    Clusters that changed are looked at again when all have settled.
    """
    changed, n_splits, capped = np.ones(len(mixture.plan), np.bool_), 0, False
    for _ in range(MOST_SWEEPS):
        group, plan, capped = _largest(mixture.plan), mixture.plan, False
        again, origin = np.zeros(len(plan), np.bool_), np.arange(len(plan))
        for j in np.flatnonzero(changed):
            members = np.flatnonzero(group == j)
            if len(members) < FEWEST:
                continue
            seen, parts = _cut(x[:, members], context, learned)
            if len(parts) == 0 or _decided(seen, members, _largest(parts), learned, lesson) <= 0:
                continue
            if len(plan) >= max_clusters:
                capped = True
                continue
            second = np.zeros((1, plan.shape[1]))
            for place, i in enumerate(members):
                second[0, i] = plan[j, i] * parts[1, place]
            plan = np.concatenate((plan, second))
            plan[j] -= second[0]
            again, origin = np.append(again, True), np.append(origin, j)
            again[j] = True
        if len(plan) == len(mixture.plan):
            break
        mixture, context = settled(x, plan, EM_STEPS, learned)
        # A split that leaves a part without points was none, and must not be tried again and again.
        used = np.bincount(_largest(mixture.plan), minlength=len(plan)) > 0
        for part, whole in enumerate(origin):
            if not (used[part] and used[whole]):
                again[part] = again[whole] = False
        if not used.all():
            mixture, context = settled(x, mixture.plan[used], 1, learned)
        changed, n_splits = again[used], n_splits + 1
    return mixture, context, n_splits, capped


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
            one = described(own, np.ones((1, len(members))), 1, context, learned)
            seen = _evidence(one, described(own, both, 1, context, learned), context)
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
    if len(lesson.truth) == 0:
        return logit
    apart, n_pairs = _truly_apart(in_second, lesson.truth[members])
    at = lesson.n_kept[0]
    if at < len(lesson.decisions.apart):
        lesson.decisions.evidence[at] = seen
        lesson.decisions.apart[at], lesson.decisions.n_pairs[at] = apart, n_pairs
        lesson.n_kept[0] += 1
    return apart - 0.5 if lesson.follow_truth else logit


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

    EM begins at cuts across the two longest axes: through the mean, and between either rim and all else, by
    which a few points far out are found.
    """
    d, n = x.shape
    apart = np.empty_like(x)
    for a in range(d):
        apart[a] = x[a] - x[a].mean()
    squares, axes = np.linalg.eigh(apart @ apart.T / n)
    one = described(x, np.ones((1, n)), 1, context, learned)
    best, found = one, False
    for axis in range(d - 1, max(d - 3, -1), -1):
        along = np.ascontiguousarray(axes[:, axis]) @ apart
        rim = 1.5 * math.sqrt(max(squares[axis], 0.0))
        for threshold in (0.0, rim, -rim):
            beyond = (along > threshold).astype(np.float64)
            if beyond.sum() == 0 or beyond.sum() == n:
                continue
            parts = described(x, np.stack((1 - beyond, beyond)), PART_STEPS, context, learned)
            if parts.mass.min() >= 1 and (not found or parts.log_likelihood > best.log_likelihood):
                best, found = parts, True
    if not found:
        return np.zeros(N_EVIDENCE), np.zeros((0, n))
    return _evidence(one, best, context), best.plan


@compiled
def _evidence(one: Mixture, parts: Mixture, context: Context) -> np.ndarray:
    """What the judge sees (N_EVIDENCE,) of points as two parts, compared with one cluster."""
    gain = parts.log_likelihood - one.log_likelihood
    small, large = (0, 1) if parts.mass[0] < parts.mass[1] else (1, 0)
    distance = 0.0
    for a in range(one.means.shape[1]):
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
