"""Does a cluster look like one Gaussian, and if not, where may it be cut in two?

Its points are made round by its own covariance and projected on the directions in which fourth moments are
most unlike those of a Gaussian (the eigenvectors of ``E[|z|^2 z z']``, Cardoso 1989), and on the most skew
one. Compiled, because this is done for every cluster in every round of the search.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtrc, ndtri

from clusterwise._compiled import compiled

__all__ = ["first_sides", "log_p_gaussian", "projections"]

# Edges of the eighths of a Gaussian, and how many points each should have for a chi-squared test to hold.
EIGHTHS = ndtri(np.arange(1, 8) / 8)
POINTS_PER_EIGHTH = 5
# Jacobi's method squares the error in each sweep; this many are never needed.
MOST_SWEEPS = 50


def projections(points: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Projections (m, n), m <= ``most``, of weighted points (n, d) on the least Gaussian directions.

    They have mean zero and unit variance.
    """
    n, d = points.shape
    white, projected, matrices = np.empty((n, d)), np.zeros((max(most, 1), n)), np.empty((2, d, d))
    count = _project(
        points, weights, white, np.empty(n), matrices, np.empty((max(most, 1) + 2, d)), projected
    )
    return projected[:count]


# Plain loops, and room from the caller: numpy's functions take seconds to compile.


@compiled
def _scatter(rows: np.ndarray, f: int, weights: np.ndarray, count: float, out: np.ndarray) -> None:
    """Weighted mean of x x' over rows (n, f at least), to ``out`` (f, f at least)."""
    for a in range(f):
        for b in range(f):
            out[a, b] = 0.0
    for i in range(len(weights)):
        for a in range(f):
            factor = weights[i] * rows[i, a] / count
            for b in range(a + 1):
                out[a, b] += factor * rows[i, b]
    for a in range(f):
        for b in range(a):
            out[b, a] = out[a, b]


@compiled
def _diagonalize(matrix: np.ndarray, f: int, vectors: np.ndarray) -> None:
    """Jacobi's method: eigenvalues of a symmetric matrix (f, f), on its diagonal afterwards, and vectors."""
    for a in range(f):
        for b in range(f):
            vectors[a, b] = 1.0 if a == b else 0.0
    for _ in range(MOST_SWEEPS):
        beside, on = 0.0, 0.0
        for a in range(f):
            on += matrix[a, a] * matrix[a, a]
            for b in range(a):
                beside += matrix[a, b] * matrix[a, b]
        if beside <= 1e-30 * on:
            break
        for a in range(f):
            for b in range(a):
                if matrix[a, b] == 0.0:
                    continue
                ratio = (matrix[b, b] - matrix[a, a]) / (2 * matrix[a, b])
                tangent = 1.0 / (abs(ratio) + math.sqrt(ratio * ratio + 1))
                if ratio < 0:
                    tangent = -tangent
                cosine = 1.0 / math.sqrt(tangent * tangent + 1)
                sine = tangent * cosine
                for c in range(f):
                    of_a, of_b = matrix[a, c], matrix[b, c]
                    matrix[a, c], matrix[b, c] = cosine * of_a - sine * of_b, sine * of_a + cosine * of_b
                for c in range(f):
                    of_a, of_b = matrix[c, a], matrix[c, b]
                    matrix[c, a], matrix[c, b] = cosine * of_a - sine * of_b, sine * of_a + cosine * of_b
                    of_a, of_b = vectors[c, a], vectors[c, b]
                    vectors[c, a], vectors[c, b] = cosine * of_a - sine * of_b, sine * of_a + cosine * of_b


@compiled
def _project(
    points: np.ndarray,
    weights: np.ndarray,
    white: np.ndarray,
    lengths: np.ndarray,
    matrices: np.ndarray,
    chosen: np.ndarray,
    out: np.ndarray,
) -> int:
    """Write ``projections`` to ``out`` (most, n), zeros; how many there are. The others are room."""
    (n, d), most = points.shape, len(out)
    matrix, vectors, row = matrices[0], matrices[1], chosen[most + 1]
    count = 0.0
    for i in range(n):
        count += weights[i]
    for a in range(d):
        row[a] = 0.0
    for i in range(n):
        for a in range(d):
            row[a] += weights[i] * points[i, a]
    for i in range(n):
        for a in range(d):
            white[i, a] = points[i, a] - row[a] / count
    _scatter(white, d, weights, count, matrix)
    _diagonalize(matrix, d, vectors)
    largest = 1e-300
    for a in range(d):
        largest = max(largest, matrix[a, a])
    f = int(np.int64(0))  # directions with any width come first; a plain 0 would be compiled for on its own
    for a in range(d):
        if matrix[a, a] > 1e-10 * largest:
            scale = 1.0 / math.sqrt(matrix[a, a])
            for b in range(d):
                vectors[b, f] = vectors[b, a] * scale
            f += 1
    for i in range(n):
        for a in range(f):
            row[a] = 0.0
        for b in range(d):
            for a in range(f):
                row[a] += white[i, b] * vectors[b, a]
        lengths[i] = 0.0
        for a in range(f):
            white[i, a] = row[a]
            lengths[i] += row[a] * row[a] * weights[i]
    if f <= 1:
        for i in range(n):
            out[0, i] = white[i, 0] if f == 1 else 0.0
        return f
    _scatter(white, f, lengths, count, matrix)
    _diagonalize(matrix, f, vectors)
    n_chosen = min(f, most - 1)
    for which in range(n_chosen):
        best = 0
        for a in range(1, f):
            if abs(matrix[a, a] - (f + 2)) > abs(matrix[best, best] - (f + 2)):
                best = a
        matrix[best, best] = f + 2.0  # not again
        for a in range(f):
            chosen[which, a] = vectors[a, best]
    square = 0.0  # the most skew direction
    for a in range(f):
        chosen[n_chosen, a] = 0.0
        for i in range(n):
            chosen[n_chosen, a] += lengths[i] * white[i, a]
        square += chosen[n_chosen, a] ** 2
    for a in range(f):
        chosen[n_chosen, a] /= max(math.sqrt(square), 1e-300)
    for which in range(n_chosen + 1):
        for i in range(n):
            for a in range(f):
                out[which, i] += chosen[which, a] * white[i, a]
    return n_chosen + 1


def log_p_gaussian(projected: np.ndarray, weights: np.ndarray) -> float:
    """Log probability that a Gaussian looks as odd as weighted projections (m, n) of unit variance; at least.

    Skewness and kurtosis (Jarque & Bera 1980), and how many points lie in each eighth of a Gaussian, are both
    chi-squared; the smallest of all probabilities counts, as many times as there are tests.
    """
    if len(projected) == 0:
        return 0.0
    by_moments, by_eighths, count = _oddness(projected, weights, EIGHTHS, np.empty(8))
    log_p = -by_moments / 2
    if count >= 8 * POINTS_PER_EIGHTH:  # three clusters in a row may have the moments of one
        # Mean and variance were estimated: five degrees of freedom are left.
        log_p = min(log_p, math.log(max(chdtrc(5, by_eighths), 1e-300)))
    return log_p + math.log(2 * len(projected))


@compiled
def _oddness(
    projected: np.ndarray, weights: np.ndarray, edges: np.ndarray, counts: np.ndarray
) -> tuple[float, float, float]:
    """Largest chi-squared statistics of projections (m, n), by moments and by eighths; and the weight.

    ``counts`` (8,) is room.
    """
    m, n = projected.shape
    count, by_moments, by_eighths = 0.0, 0.0, 0.0
    for i in range(n):
        count += weights[i]
    for row in range(m):
        third = fourth = 0.0
        for eighth in range(8):
            counts[eighth] = 0.0
        for i in range(n):
            value, weight = projected[row, i], weights[i]
            square = value * value
            third += square * value * weight
            fourth += square * square * weight
            below = 0
            for edge in range(7):
                below += edges[edge] < value
            counts[below] += weight
        skewness, kurtosis = third / count, fourth / count - 3
        by_moments = max(by_moments, count / 6 * (skewness**2 + kurtosis**2 / 4))
        excess = 0.0
        for eighth in range(8):
            excess += (counts[eighth] - count / 8) ** 2
        by_eighths = max(by_eighths, excess / (count / 8))
    return by_moments, by_eighths, count


def _cut_gaussian(size: int = 199) -> np.ndarray:
    """What cutting a Gaussian at its quantile p adds to the log-likelihood per point, for p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p = np.arange(1, size + 1) / (size + 1)
    cut = ndtri(p)
    density = np.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
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
    sides = np.zeros((2 * len(projected), len(weights)), dtype=bool)
    _cut(projected, order, weights, CUT_GAUSSIAN, sides)
    return sides


@compiled
def _cut(
    projected: np.ndarray, order: np.ndarray, weights: np.ndarray, expected: np.ndarray, sides: np.ndarray
) -> None:
    """Write the cuts of ``first_sides`` for points in the order (m, n) of each projection, to ``sides``.

    ``expected`` has what a cut of a Gaussian at evenly spaced quantiles gains per point.
    """
    m, n = projected.shape
    total = 0.0
    for i in range(n):
        total += weights[i]
    least = 1 / (len(expected) + 1)
    for row in range(m):
        place = projected[row]
        first_total = second_total = 0.0
        for i in range(n):
            first_total += weights[i] * place[i]
            second_total += weights[i] * place[i] ** 2
        count = first = second = 0.0
        likeliest = oddest = -math.inf
        by_likelihood = by_oddness = 0
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
                likeliest, by_likelihood = value, rank
            if min(share, 1 - share) >= least:
                excess = value - total * _between(expected, share)
                if excess > oddest:
                    oddest, by_oddness = excess, rank
        for rank in range(by_likelihood + 1, n):
            sides[row, order[row, rank]] = True
        for rank in range(by_oddness + 1, n):
            sides[m + row, order[row, rank]] = True


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
