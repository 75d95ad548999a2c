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
LEAST_MASS = 0.05
# Each cluster is compared with its nearest others, this many, if both have enough rows.
N_NEIGHBOURS = 2
FEWEST_MEMBERS = 5


@compiled
def valley(values: np.ndarray) -> float:
    """Depth of the deepest valley of a density of values (n,), as a share of the lower of the two peaks.

    1 if there is no valley; valleys that cut off less than 5 % of the values do not count.
    """
    n = len(values)
    low, high, spread = values.min(), values.max(), values.std()
    quarter, three_quarters = n // 4, (3 * n) // 4
    upper = np.partition(values, three_quarters)
    between = upper[three_quarters] - np.partition(upper[: three_quarters + 1], quarter)[quarter]
    if between > 0:
        spread = min(spread, between / 1.349)
    if not 0 < spread < np.inf or high - low > 1e6 * spread:
        return 1.0
    width = 1.06 * spread * n**-0.2  # Silverman's rule
    step = (high - low + 2 * width) / (N_BINS - 1)
    counts = np.zeros(N_BINS)
    for value in values:
        counts[min(max(int((value - low + width) / step + 0.5), 0), N_BINS - 1)] += 1
    density = _smoothed(counts, width / step)
    from_left, from_right = np.empty(N_BINS), np.empty(N_BINS)
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
        if LEAST_MASS < below / n < 1 - LEAST_MASS:
            deepest = min(deepest, density[i] / min(from_left[i], from_right[i]))
    return deepest


@compiled
def _smoothed(counts: np.ndarray, width: float) -> np.ndarray:
    """Counts (N_BINS,) spread out by a Gaussian of this width, in bins."""
    reach = min(math.ceil(3 * width), N_BINS // 2 - 1)
    kernel = np.empty(2 * reach + 1)
    for i in range(2 * reach + 1):
        kernel[i] = math.exp(-0.5 * ((i - reach) / max(width, 0.5)) ** 2)
    kernel /= kernel.sum()
    density = np.zeros(N_BINS)
    for i in range(N_BINS):
        if counts[i] > 0:
            for j in range(max(0, i - reach), min(N_BINS, i + reach + 1)):
                density[j] += counts[i] * kernel[j - i + reach]
    return density


@compiled
def groups_without_gap(rows: np.ndarray, bounds: np.ndarray, no_gap: float) -> np.ndarray:
    """Number of the group of each cluster, (K,), where neighbours without a gap are in the same group.

    There is no gap where the density never falls below the share ``no_gap`` of the lower peak.
    """
    k, f = len(bounds) - 1, rows.shape[1]
    means, scatters = np.empty((k, f)), np.empty((k, f, f))
    for j in range(k):
        members = rows[bounds[j] : bounds[j + 1]]
        means[j] = members.sum(axis=0) / len(members)
        centred = members - means[j]
        scatters[j] = np.dot(centred.T, centred)
    group = np.arange(k)
    for i in range(k):
        distances = np.empty(k)
        for j in range(k):
            distances[j] = np.inf if i == j else np.square(means[i] - means[j]).sum()
        for j in np.argsort(distances, kind="mergesort")[: min(N_NEIGHBOURS, k - 1)]:
            n_i, n_j = bounds[i + 1] - bounds[i], bounds[j + 1] - bounds[j]
            if group[i] == group[j] or min(n_i, n_j) < FEWEST_MEMBERS:
                continue
            pooled = (scatters[i] + scatters[j]) / (n_i + n_j)
            least = 1e-9 * max(1.0, np.trace(pooled))
            for a in range(f):
                pooled[a, a] += least
            axis = np.linalg.solve(pooled, means[j] - means[i])
            both = np.empty(n_i + n_j)
            both[:n_i] = np.dot(rows[bounds[i] : bounds[i + 1]], axis)
            both[n_i:] = np.dot(rows[bounds[j] : bounds[j + 1]], axis)
            if valley(both) > no_gap:
                first, second = min(group[i], group[j]), max(group[i], group[j])
                group[group == second] = first
    return np.searchsorted(np.unique(group), group)


@compiled
def n_far_rows(
    rows: np.ndarray, bounds: np.ndarray, fewest: int, full: bool, middle: float, limit: float
) -> int:
    """Rows whose squared distance from their own cluster, in its standard deviations, is beyond ``limit``.

    ``middle`` is the distance that half of the rows should not pass: extreme rows widen the covariance that
    they are measured by, and the median is safe from them. Clusters with less than ``fewest`` rows do not
    count; with ``full`` they may be correlated.
    """
    f, far = rows.shape[1], 0
    for j in range(len(bounds) - 1):
        n = bounds[j + 1] - bounds[j]
        if n < fewest:
            continue
        members = rows[bounds[j] : bounds[j + 1]]
        centred = members - members.sum(axis=0) / n
        if full:
            covariance = np.dot(centred.T, centred) / n
            least = max(1e-6 * np.trace(covariance) / f, 1e-9)
            for a in range(f):
                covariance[a, a] += least
            white = np.linalg.solve(np.linalg.cholesky(covariance), np.ascontiguousarray(centred.T))
            lengths = np.square(white).sum(axis=0)
        else:
            lengths = np.zeros(n)
            for a in range(f):
                square = np.square(centred[:, a])
                variance = square.mean()
                lengths += square / (variance if variance > 0 else 1.0)
        lengths *= middle / max(np.median(lengths), 1e-300)
        far += (lengths > limit).sum()
    return far
