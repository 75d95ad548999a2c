"""What AMCP does when no point is left: clusters that are two are split, and two that are one are merged.

The cluster-wise loop compares a new cluster with the rest, whose density is a constant. Two clusters whose
encodings are nearer to each other than to that constant become one in the step that finds them, although
a mixture with a reference for each would tell them apart. So IntraCM goes on with all clusters and no rest,
and its bound (Eq 4) decides: another reference stays if the bound rises by a price, and one that is worth
less goes. Compiled, like ``amcp_path``.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.models.amcp_mixing import NEVER
from clusterwise.models.amcp_steps import e_step, log_shares_of, m_step

__all__ = ["MERGE_PRICE", "SPLIT_PRICE", "revised"]

# Nats by which the bound of a data set must rise for one more reference, and those that keep one.
SPLIT_PRICE, MERGE_PRICE = 20.0, 3.0
# Both are at least this for each point of the smaller part: a large cluster is never quite round.
PRICE_PER_POINT = 0.2
# EM steps after each change, of two parts of a cluster, and steps towards the longest axis of a cluster.
EM_STEPS, PART_STEPS, AXIS_STEPS = 5, 6, 4
# Fewer points than this are not split.
FEWEST = 4


def revised(
    x: np.ndarray,
    columns: np.ndarray,
    precision: float,
    max_clusters: int,
    split_price: float = SPLIT_PRICE,
    merge_price: float = MERGE_PRICE,
    price_per_point: float = PRICE_PER_POINT,
) -> np.ndarray:
    """Columns (N,) of encodings (N, D) after splits and merges; all points are assigned before and after."""
    scaled = np.multiply(x.T, precision, order="C")
    names = (np.cumsum(np.bincount(columns) > 0) - 1)[columns]
    found: np.ndarray = _revised(
        x, scaled, names, precision, max_clusters, split_price, merge_price, price_per_point
    )
    return found


@compiled
def _revised(
    x: np.ndarray,
    scaled: np.ndarray,
    columns: np.ndarray,
    precision: float,
    max_clusters: int,
    split_price: float,
    merge_price: float,
    price_per_point: float,
) -> np.ndarray:
    n, d = x.shape
    rest = np.empty(n, x.dtype)
    for i in range(n):
        rest[i] = 0.5 * np.dot(scaled[:, i].copy(), x[i])
    k = columns.max() + 1
    centres, mass = np.zeros((k + 1, d), x.dtype), np.zeros(k + 1, x.dtype)  # the last: no rest
    for i in range(n):
        mass[columns[i]] += 1
        for a in range(d):
            centres[columns[i], a] += x[i, a]
    for j in range(k):
        centres[j] /= max(mass[j], 1)
    centres, shares, scores, bound = _settled(x, scaled, rest, centres, log_shares_of(mass, n), precision)

    # Splits: of the clusters that were not looked at since they changed, one after the other.
    looked_at = np.zeros(k + 1, np.bool_)
    j = 0
    while j < len(centres) - 1 and len(centres) - 1 < max_clusters:
        if looked_at[j]:
            j += 1
            continue
        looked_at[j] = True
        members = np.flatnonzero(_largest(scores) == j)
        if len(members) < FEWEST:
            j += 1
            continue
        gain, first, second, share = _two_parts(x[members], precision)
        price = max(split_price, price_per_point * len(members) * min(share, 1 - share))
        if gain <= price:
            j += 1
            continue
        more, more_shares = np.empty((len(centres) + 1, d), x.dtype), np.empty(len(centres) + 1, x.dtype)
        more[: len(centres) - 1], more_shares[: len(centres) - 1] = centres[:-1], shares[:-1]
        more[j], more[-2], more[-1] = first, second, centres[-1]
        more_shares[j], more_shares[-2] = shares[j] + math.log(share), shares[j] + math.log(1 - share)
        more_shares[-1] = NEVER
        more, more_shares, new_scores, new_bound = _settled(x, scaled, rest, more, more_shares, precision)
        if new_bound - bound > price:
            centres, shares, scores, bound = more, more_shares, new_scores, new_bound
            looked_at = np.append(looked_at, False)
            looked_at[j] = looked_at[len(centres) - 2] = False
            j = 0
        else:
            j += 1

    # Merges: the one that costs least, as long as it costs less than a reference is worth.
    while len(centres) > 2:
        a, b = _cheapest_pair(centres, shares, precision)
        fewer, fewer_shares = np.empty((len(centres) - 1, d), x.dtype), np.empty(len(centres) - 1, x.dtype)
        at = 0
        for j in range(len(centres)):
            if j != b:
                fewer[at], fewer_shares[at] = centres[j], shares[j]
                if j == a:
                    of_a, of_b = math.exp(shares[a]), math.exp(shares[b])
                    total = max(of_a + of_b, 1e-12)
                    fewer[at] = (of_a * centres[a] + of_b * centres[b]) / total
                    fewer_shares[at] = math.log(total)
                at += 1
        fewer, fewer_shares, new_scores, new_bound = _settled(x, scaled, rest, fewer, fewer_shares, precision)
        price = max(merge_price, price_per_point * n * math.exp(min(shares[a], shares[b])))
        if bound - new_bound > price:
            break
        centres, shares, scores, bound = fewer, fewer_shares, new_scores, new_bound
    return _largest(scores)


@compiled
def _settled(
    x: np.ndarray,
    scaled: np.ndarray,
    rest: np.ndarray,
    centres: np.ndarray,
    shares: np.ndarray,
    precision: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Centres, log shares and scores after a few EM steps, and the bound: the sum of log evidences."""
    scores, plan = e_step(scaled, rest, centres, shares, precision, 0.0)
    for _ in range(EM_STEPS):
        centres, shares = m_step(x, plan, centres)
        scores, plan = e_step(scaled, rest, centres, shares, precision, 0.0)
    best, bound = _largest(scores), 0.0
    for i in range(len(x)):
        bound += scores[best[i], i] - math.log(plan[best[i], i]) - rest[i]
    return centres, shares, scores, bound


@compiled
def _largest(scores: np.ndarray) -> np.ndarray:
    """The component with the highest score of each point, (N,); never the last, the rest."""
    best = np.zeros(scores.shape[1], np.int64)
    for j in range(1, len(scores) - 1):
        for i in range(scores.shape[1]):
            if scores[j, i] > scores[best[i], i]:
                best[i] = j
    return best


@compiled
def _two_parts(x: np.ndarray, precision: float) -> tuple[float, np.ndarray, np.ndarray, float]:
    """What two references gain over one for the points of a cluster (n, D), and where they are.

    EM of two parts that begin on both sides of the mean, along the longest axis; the share is the first's.
    """
    n, d = x.shape
    mean = np.zeros(d, x.dtype)
    for i in range(n):
        mean += x[i]
    mean /= n
    apart = x - mean
    axis, farthest = apart[0].copy(), -1.0
    for i in range(n):
        square = np.dot(apart[i], apart[i])
        if square > farthest:
            farthest, axis = square, apart[i].copy()
    for _ in range(AXIS_STEPS):
        axis = np.dot(np.dot(apart, axis), apart)
        axis /= max(math.sqrt(np.dot(axis, axis)), 1e-12)
    along = np.dot(apart, axis)
    weights = np.empty(n)  # of the first part
    for i in range(n):
        weights[i] = 1.0 if along[i] > 0 else 0.0
    first, second, share, gain = mean.copy(), mean.copy(), 0.5, 0.0
    for _ in range(PART_STEPS + 1):
        mass = weights.sum()
        if mass < 0.5 or mass > n - 0.5:
            return 0.0, first, second, 0.5
        first, second = np.zeros(d, x.dtype), np.zeros(d, x.dtype)
        for i in range(n):
            for a in range(d):
                first[a] += weights[i] * apart[i, a]
                second[a] += (1 - weights[i]) * apart[i, a]
        first /= mass
        second /= n - mass
        share = mass / n
        # Relative to the density of the one reference, at the mean.
        of_first = math.log(share) - 0.5 * precision * np.dot(first, first)
        of_second = math.log(1 - share) - 0.5 * precision * np.dot(second, second)
        to_first, to_second, gain = np.dot(apart, first), np.dot(apart, second), 0.0
        for i in range(n):
            one, other = of_first + precision * to_first[i], of_second + precision * to_second[i]
            largest = max(one, other)
            log_sum = largest + math.log(math.exp(one - largest) + math.exp(other - largest))
            gain += log_sum
            weights[i] = math.exp(one - log_sum)
    return gain, mean + first, mean + second, share


@compiled
def _cheapest_pair(centres: np.ndarray, shares: np.ndarray, precision: float) -> tuple[int, int]:
    """The two references that are nearest to each other, weighted by what both have: Ward's criterion."""
    least, a, b = np.inf, 0, 1
    for i in range(len(centres) - 1):
        for j in range(i + 1, len(centres) - 1):
            gap = centres[i] - centres[j]
            of_i, of_j = math.exp(shares[i]), math.exp(shares[j])
            cost = np.dot(gap, gap) * of_i * of_j / max(of_i + of_j, 1e-12)
            if cost < least:
                least, a, b = cost, i, j
    return a, b
