"""Gaps between clusters and rows far from them, compiled: what ``misfit`` looks at after every fit.

Rows of one cluster stand together here: cluster k has those from ``bounds[k]`` to ``bounds[k + 1]``.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["groups_without_gap", "n_far_rows", "valley"]

N_BINS = 128
# Valleys that cut off a smaller share of the values do not count.
MIN_MASS = 0.05
# Each cluster is compared with its nearest others, this many, if both have enough rows.
N_NEIGHBOURS = 2
MIN_MEMBERS = 5


def valley(values: np.ndarray) -> float:
    """Depth of the deepest valley of a density of values (n,), as a share of the lower of the two peaks.

    1 if there is no valley; valleys that cut off less than 5 % of the values do not count.
    """
    return float(_valley(values, len(values), np.empty(len(values)), np.empty((5, N_BINS))))


def groups_without_gap(rows: np.ndarray, bounds: np.ndarray, no_gap: float) -> np.ndarray:
    """Number of the group of each cluster, (K,), where neighbours without a gap are in the same group.

    There is no gap where the density never falls below the share ``no_gap`` of the lower peak.
    """
    k, f = len(bounds) - 1, rows.shape[1]
    means, scatters, group = np.zeros((k, f)), np.zeros((k, f, f)), np.arange(k)
    spare, axis = np.empty((2, len(rows))), np.empty((f + 1, f))
    _group(rows, bounds, no_gap, means, scatters, axis, spare, np.empty((5, N_BINS)), group)
    return (np.cumsum(group == np.arange(k)) - 1)[group]  # each has the name of its first cluster so far


# Plain loops from here on, and room from the caller: numpy's functions take seconds to compile.


@compiled
def _select(values: np.ndarray, n: int, rank: int) -> float:
    """The value of this rank, from 0 on, among the first n values, which change their order."""
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]


@compiled
def _valley(values: np.ndarray, n: int, spare: np.ndarray, bins: np.ndarray) -> float:
    """See ``valley``, of the first n values; ``spare`` (n,) and ``bins`` (5, N_BINS) are room."""
    counts, density, kernel, from_left, from_right = bins[0], bins[1], bins[2], bins[3], bins[4]
    low, high, mean, square = values[0], values[0], 0.0, 0.0
    for i in range(n):
        spare[i] = values[i]
        low, high = min(low, values[i]), max(high, values[i])
        mean += values[i]
    mean /= n
    for i in range(n):
        square += (values[i] - mean) ** 2
    spread = math.sqrt(square / n)
    upper = _select(spare, n, (3 * n) // 4)
    between = upper - _select(spare, (3 * n) // 4 + 1, n // 4)
    if between > 0:
        spread = min(spread, between / 1.349)
    if not 0 < spread < math.inf or high - low > 1e6 * spread:
        return 1.0
    width = 1.06 * spread * n**-0.2  # Silverman's rule
    step = (high - low + 2 * width) / (N_BINS - 1)
    for i in range(N_BINS):
        counts[i] = density[i] = 0.0
    for i in range(n):
        counts[min(max(int((values[i] - low + width) / step + 0.5), 0), N_BINS - 1)] += 1
    # the counts spread out by a Gaussian
    width /= step
    reach = min(math.ceil(3 * width), N_BINS // 2 - 1)
    total = 0.0
    for i in range(2 * reach + 1):
        kernel[i] = math.exp(-0.5 * ((i - reach) / max(width, 0.5)) ** 2)
        total += kernel[i]
    for i in range(N_BINS):
        if counts[i] > 0:
            for j in range(max(0, i - reach), min(N_BINS, i + reach + 1)):
                density[j] += counts[i] * kernel[j - i + reach] / total
    highest = 0.0
    for i in range(N_BINS):
        highest = max(highest, density[i])
        from_left[i] = highest
    highest = 0.0
    for i in range(N_BINS - 1, -1, -1):
        highest = max(highest, density[i])
        from_right[i] = highest
    deepest, below = 1.0, 0.0
    for i in range(N_BINS):
        below += counts[i]
        if MIN_MASS < below / n < 1 - MIN_MASS:
            deepest = min(deepest, density[i] / min(from_left[i], from_right[i]))
    return deepest


@compiled
def _group(
    rows: np.ndarray,
    bounds: np.ndarray,
    no_gap: float,
    means: np.ndarray,
    scatters: np.ndarray,
    axis: np.ndarray,
    spare: np.ndarray,
    bins: np.ndarray,
    group: np.ndarray,
) -> None:
    """Write the ``group`` (K,) of each cluster, named by its first one; see ``groups_without_gap``.

    ``means`` (K, f) and ``scatters`` (K, f, f) are zeros; ``axis`` (f + 1, f), ``spare`` (2, n) and ``bins``
    (5, N_BINS) are room.
    """
    k, f = means.shape
    root, line, both = axis[:f], axis[f], spare[0]
    for j in range(k):
        for r in range(bounds[j], bounds[j + 1]):
            for a in range(f):
                means[j, a] += rows[r, a]
        for a in range(f):
            means[j, a] /= bounds[j + 1] - bounds[j]
        for r in range(bounds[j], bounds[j + 1]):
            for a in range(f):
                gap = rows[r, a] - means[j, a]
                for b in range(a + 1):
                    scatters[j, a, b] += gap * (rows[r, b] - means[j, b])
    for i in range(k):
        last, last_distance = -1, -1.0
        for _ in range(min(N_NEIGHBOURS, k - 1)):
            j, shortest = -1, math.inf  # the next one by distance, of equals by number
            for other in range(k):
                distance = 0.0
                for a in range(f):
                    distance += (means[i, a] - means[other, a]) ** 2
                after = distance > last_distance or (distance == last_distance and other > last)
                if other != i and after and (distance < shortest or j < 0):
                    j, shortest = other, distance
            if j < 0:
                break
            last, last_distance = j, shortest
            n_i, n_j = bounds[i + 1] - bounds[i], bounds[j + 1] - bounds[j]
            if group[i] == group[j] or min(n_i, n_j) < MIN_MEMBERS:
                continue
            # the line that parts them best: pooled covariance^-1 (mean_j - mean_i), by Cholesky
            trace = 0.0
            for a in range(f):
                trace += (scatters[i, a, a] + scatters[j, a, a]) / (n_i + n_j)
            least = 1e-9 * max(1.0, trace)
            for a in range(f):
                line[a] = means[j, a] - means[i, a]
                for b in range(a + 1):
                    value = (scatters[i, a, b] + scatters[j, a, b]) / (n_i + n_j)
                    for c in range(b):
                        value -= root[a, c] * root[b, c]
                    root[a, b] = math.sqrt(max(value + least, 1e-300)) if a == b else value / root[b, b]
                for b in range(a):
                    line[a] -= root[a, b] * line[b]
                line[a] /= root[a, a]
            for a in range(f - 1, -1, -1):
                for b in range(a + 1, f):
                    line[a] -= root[b, a] * line[b]
                line[a] /= root[a, a]
            for t in range(n_i + n_j):
                r = bounds[i] + t if t < n_i else bounds[j] + t - n_i
                both[t] = 0.0
                for a in range(f):
                    both[t] += rows[r, a] * line[a]
            if _valley(both, n_i + n_j, spare[1], bins) > no_gap:
                first, second = min(group[i], group[j]), max(group[i], group[j])
                for c in range(k):
                    if group[c] == second:
                        group[c] = first


def n_far_rows(
    rows: np.ndarray, bounds: np.ndarray, fewest: int, full: bool, middle: float, limit: float
) -> int:
    """Rows whose squared distance from their own cluster, in its standard deviations, is beyond ``limit``.

    ``middle`` is the distance that half of the rows should not pass: extreme rows widen the covariance that
    they are measured by, and the median is safe from them. Clusters with less than ``fewest`` rows do not
    count; with ``full`` they may be correlated.
    """
    n, f = rows.shape
    room = np.empty((2, n)), np.empty((f, f)), np.empty((2, f))
    return int(_n_far_rows(rows, bounds, fewest, full, middle, limit, *room))


@compiled
def _n_far_rows(
    rows: np.ndarray,
    bounds: np.ndarray,
    fewest: int,
    full: bool,
    middle: float,
    limit: float,
    spare: np.ndarray,
    root: np.ndarray,
    lines: np.ndarray,
) -> int:
    """See ``n_far_rows``; ``spare`` (2, n), ``root`` (f, f) and ``lines`` (2, f) are room."""
    f, far, lengths, changing = rows.shape[1], 0, spare[0], spare[1]
    mean, white = lines[0], lines[1]
    for j in range(len(bounds) - 1):
        start, n = bounds[j], bounds[j + 1] - bounds[j]
        if n < fewest:
            continue
        for a in range(f):
            mean[a] = 0.0
            for b in range(a + 1):
                root[a, b] = 0.0
        for r in range(start, start + n):
            for a in range(f):
                mean[a] += rows[r, a]
        for a in range(f):
            mean[a] /= n
        for r in range(start, start + n):
            for a in range(f):
                gap = rows[r, a] - mean[a]
                for b in range(0 if full else a, a + 1):
                    root[a, b] += gap * (rows[r, b] - mean[b]) / n
        trace = 0.0
        for a in range(f):
            trace += root[a, a]
        for a in range(f):  # Cholesky's root, in place
            if full:
                root[a, a] += max(1e-6 * trace / f, 1e-9)
            elif root[a, a] <= 0.0:
                root[a, a] = 1.0
            for b in range(a + 1):
                for c in range(b):
                    root[a, b] -= root[a, c] * root[b, c]
                root[a, b] = math.sqrt(max(root[a, a], 1e-300)) if a == b else root[a, b] / root[b, b]
        for i in range(n):
            lengths[i] = 0.0
            for a in range(f):
                white[a] = rows[start + i, a] - mean[a]
                for b in range(a):
                    white[a] -= root[a, b] * white[b]
                white[a] /= root[a, a]
                lengths[i] += white[a] * white[a]
            changing[i] = lengths[i]
        median = 0.5 * (_select(changing, n, n // 2) + _select(changing, n, (n - 1) // 2))
        for i in range(n):
            far += lengths[i] * middle > limit * max(median, 1e-300)
    return far
