"""Does a cluster look like one Gaussian, and if not, where may it be cut in two?

Its points are made round by its own covariance and projected on the directions in which fourth moments are
most unlike those of a Gaussian (the eigenvectors of ``E[|z|^2 z z']``, Cardoso 1989), and on the most skew
one. Compiled, because this is done for every cluster in every round of the search.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc
from scipy.stats import norm

from clusterwise._compiled import compiled

__all__ = ["first_sides", "log_p_gaussian", "projections"]

# Edges of the eighths of a Gaussian, and how many points each should have for a chi-squared test to hold.
EIGHTHS = norm.ppf(np.arange(1, 8) / 8)
POINTS_PER_EIGHTH = 5


@compiled
def projections(points: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Projections (m, n), m <= ``most``, of weighted points (n, d) on the least Gaussian directions.

    They have mean zero and unit variance.
    """
    n, count = len(points), weights.sum()
    by_column = weights.reshape(-1, 1)
    centred = points - np.dot(weights, points) / count
    variances, axes = np.linalg.eigh(np.dot((centred * by_column).T, centred) / count)
    wide = variances > 1e-10 * max(variances[-1], 1e-300)
    if not wide.any():
        return np.empty((0, n))
    white = np.dot(centred, axes[:, wide] / np.sqrt(variances[wide]))
    f = white.shape[1]
    if f == 1:
        return white.reshape(1, n)
    lengths = np.empty(n)
    for i in range(n):
        square = 0.0
        for a in range(f):
            square += white[i, a] * white[i, a]
        lengths[i] = square * weights[i]
    fourth, directions = np.linalg.eigh(np.dot((white * lengths.reshape(-1, 1)).T, white) / count)
    ranked = np.argsort(-np.abs(fourth - (f + 2)), kind="mergesort")[: most - 1]
    skew = np.dot(lengths, white)
    chosen = np.empty((len(ranked) + 1, f))
    for row, which in enumerate(ranked):
        chosen[row] = directions[:, which]
    chosen[-1] = skew / max(math.sqrt(np.dot(skew, skew)), 1e-300)
    return np.dot(chosen, white.T)


def log_p_gaussian(projected: np.ndarray, weights: np.ndarray) -> float:
    """Log probability that a Gaussian looks as odd as weighted projections (m, n) of unit variance; at least.

    Skewness and kurtosis (Jarque & Bera 1980), and how many points lie in each eighth of a Gaussian, are both
    chi-squared; the smallest of all probabilities counts, as many times as there are tests.
    """
    if len(projected) == 0:
        return 0.0
    by_moments, by_eighths, count = _oddness(projected, weights, EIGHTHS)
    log_p = -by_moments / 2
    if count >= 8 * POINTS_PER_EIGHTH:  # three clusters in a row may have the moments of one
        # Mean and variance were estimated: five degrees of freedom are left.
        log_p = min(log_p, math.log(max(chdtrc(5, by_eighths), 1e-300)))
    return log_p + math.log(2 * len(projected))


@compiled
def _oddness(projected: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> tuple[float, float, float]:
    """Largest chi-squared statistics of projections (m, n), by moments and by eighths; and the weight."""
    count, by_moments, by_eighths = weights.sum(), 0.0, 0.0
    for row in projected:
        third = fourth = 0.0
        counts = np.zeros(8)
        for value, weight in zip(row, weights):  # noqa: B905  not known to numba
            square = value * value
            third += square * value * weight
            fourth += square * square * weight
            eighth = 0
            for edge in edges:
                eighth += edge < value
            counts[eighth] += weight
        skewness, kurtosis = third / count, fourth / count - 3
        by_moments = max(by_moments, count / 6 * (skewness**2 + kurtosis**2 / 4))
        excess = 0.0
        for of_eighth in counts:
            excess += (of_eighth - count / 8) ** 2
        by_eighths = max(by_eighths, excess / (count / 8))
    return by_moments, by_eighths, count


def _cut_gaussian(size: int = 199) -> np.ndarray:
    """What cutting a Gaussian at its quantile p adds to the log-likelihood per point, for p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p = np.arange(1, size + 1) / (size + 1)
    cut = norm.ppf(p)
    density = norm.pdf(cut)
    left, right = -density / p, density / (1 - p)
    below = 1 - cut * density / p - np.square(left)
    above = 1 + cut * density / (1 - p) - np.square(right)
    return -0.5 * (p * np.log(below) + (1 - p) * np.log(above)) + p * np.log(p) + (1 - p) * np.log(1 - p)


CUT_GAUSSIAN = _cut_gaussian()


def first_sides(projected: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Two cuts of each projection (m, n), (2 m, n) bool: the likeliest, and the least expected of a Gaussian.

    The first finds few points far from the others, the second two overlapping halves.
    """
    order = np.argsort(projected, axis=1, kind="stable")
    return np.asarray(_sides(projected, order, weights, CUT_GAUSSIAN))


@compiled
def _sides(projected: np.ndarray, order: np.ndarray, weights: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The cuts of ``first_sides`` for points in the order (m, n) of each projection.

    ``expected`` has what a cut of a Gaussian at evenly spaced quantiles gains per point.
    """
    m, n = projected.shape
    sides = np.zeros((2 * m, n), dtype=np.bool_)
    total = weights.sum()
    least = 1 / (len(expected) + 1)
    for row in range(m):
        place = projected[row]
        first_total = second_total = 0.0
        for i in range(n):
            first_total += weights[i] * place[i]
            second_total += weights[i] * place[i] ** 2
        count = first = second = 0.0
        likeliest = oddest = -np.inf
        cuts = np.zeros(2, dtype=np.int64)
        for rank in range(n - 1):
            i = order[row, rank]
            count += weights[i]
            first += weights[i] * place[i]
            second += weights[i] * place[i] ** 2
            share = count / total
            if min(count, total - count) < 1 and min(share, 1 - share) < least:
                continue
            value = _log_likelihood(count, first, second) - total * math.log(total)
            value += _log_likelihood(total - count, first_total - first, second_total - second)
            if min(count, total - count) >= 1 and value > likeliest:
                likeliest, cuts[0] = value, rank
            if min(share, 1 - share) >= least:
                excess = value - total * _between(expected, share)
                if excess > oddest:
                    oddest, cuts[1] = excess, rank
        for which in range(2):
            for rank in range(cuts[which] + 1, n):
                sides[which * m + row, order[row, rank]] = True
    return sides


@compiled
def _log_likelihood(count: float, first: float, second: float) -> float:
    """Log-likelihood of one side with these moments, its share included, up to constants."""
    safe = max(count, 1e-9)
    variance = max(second - first**2 / safe, 0.0) / safe
    # A few points that happen to be equal are no cluster.
    return count * (math.log(safe) - 0.5 * math.log(variance + 1 / (1 + safe)))


@compiled
def _between(values: np.ndarray, share: float) -> float:
    """Interpolate values at the quantiles 1 / (size + 1), 2 / (size + 1), ... to ``share``."""
    position = share * (len(values) + 1) - 1
    if position <= 0:
        return values[0]
    low = int(position)
    if low >= len(values) - 1:
        return values[-1]
    return values[low] + (position - low) * (values[low + 1] - values[low])
