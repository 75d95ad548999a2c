"""Compiled measurements of ranges of rows, and of their splits in two halves; see ``branches``.

Rows stand in some ``order`` (m,); ``neighbours`` (m, N_NEIGHBOURS) has the places of those next to each row,
both in that order, -1 where there are too few. A row of ``segments`` (r, 4) is a range: its left half is
``order[s[0]:s[1]]``, its right half ``order[s[2]:s[3]]``. Where halves are of no interest the left one is the
whole range. Results are written to ``out``, one row for each range. All room is given by the caller, because
code that allocates takes longer to compile.
"""

from __future__ import annotations

import math

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.clusterer.graph import N_NEIGHBOURS

__all__ = [
    "edges_of_segments",
    "gaussians_of_ranges",
    "gaussians_of_splits",
    "neighbours_of_ranges",
    "neighbours_of_splits",
]

# Of larger ranges every s-th row is looked at, at least this many of them.
ROWS_PER_RANGE = 400
# Stands for "no edge leaves": about the largest log ratio that occurs.
NONE = 4.0
RIDGE = 1e-3


@compiled
def edges_of_segments(
    ends: np.ndarray,
    lengths: np.ndarray,
    segments: np.ndarray,
    parents: np.ndarray,
    listed: np.ndarray,
    counts: np.ndarray,
    spare: np.ndarray,
    out: np.ndarray,
) -> None:
    """Edges of a spanning tree inside each range against those that leave it, and those between its halves.

    ``ends`` (m - 1, 2) are places in the order, ``lengths`` (m - 1,) grow. A range with a parent is part of
    that one, so that only the edges that touch the parent, which are ``listed`` (r, m - 1), can touch it.
    ``out`` (r, 12): eight numbers on edges that leave, four on edges between the halves. ``spare`` (3, m) is
    room.
    """
    for i in range(len(segments)):
        a, b, c, d = segments[i, 0], segments[i, 1], segments[i, 2], segments[i, 3]
        parent = parents[i]
        n_listed, n_inside, n_leaving, n_left, n_right, n_cross = 0, 0, 0, 0, 0, 0
        shortest, total, crossing = 0.0, 0.0, 0.0
        for t in range(counts[parent] if parent >= 0 else len(lengths)):
            e = listed[parent, t] if parent >= 0 else t
            x, y = ends[e, 0], ends[e, 1]
            left_x, left_y = a <= x < b, a <= y < b
            in_x, in_y = left_x or c <= x < d, left_y or c <= y < d
            if not (in_x or in_y):
                continue
            listed[i, n_listed] = e
            n_listed += 1
            length = lengths[e]
            if not (in_x and in_y):
                if n_leaving == 0:
                    shortest = length
                total += length
                n_leaving += 1
                continue
            spare[0, n_inside] = length
            n_inside += 1
            if left_x != left_y:
                if n_cross == 0:
                    crossing = length
                n_cross += 1
            elif left_x:
                spare[1, n_left] = length
                n_left += 1
            else:
                spare[2, n_right] = length
                n_right += 1
        counts[i] = n_listed
        out[i, 0] = n_inside / max(b - a + d - c - 1, 1)
        out[i, 1] = out[i, 2] = out[i, 3] = 0.0
        out[i, 4] = math.log1p(n_leaving)
        out[i, 5] = out[i, 6] = out[i, 7] = NONE
        if n_inside > 0:
            top = spare[0, n_inside - 1]
            median = spare[0, min(n_inside - 1, int(0.5 * n_inside))]
            high = spare[0, min(n_inside - 1, int(0.9 * n_inside))]
            higher = spare[0, min(n_inside - 1, int(0.95 * n_inside))]
            out[i, 1], out[i, 2], out[i, 3] = top - median, top - higher, high - median
            if n_leaving > 0:
                out[i, 5], out[i, 7] = shortest - higher, shortest - top
                out[i, 6] = total / n_leaving - high
        out[i, 8] = math.log1p(n_cross)
        out[i, 9] = out[i, 10] = out[i, 11] = NONE
        if n_cross > 0 and n_left + n_right > 0:
            of_left = of_right = top_left = top_right = -math.inf
            if n_left > 0:
                of_left, top_left = spare[1, min(n_left - 1, int(0.9 * n_left))], spare[1, n_left - 1]
            if n_right > 0:
                of_right, top_right = spare[2, min(n_right - 1, int(0.9 * n_right))], spare[2, n_right - 1]
            if n_left == 0:
                of_left = of_right
            if n_right == 0:
                of_right = of_left
            out[i, 9] = crossing - max(of_left, of_right)
            out[i, 10] = crossing - min(of_left, of_right)
            out[i, 11] = crossing - max(top_left, top_right)


@compiled
def neighbours_of_ranges(
    neighbours: np.ndarray,
    log_distances: np.ndarray,
    log_core: np.ndarray,
    order: np.ndarray,
    segments: np.ndarray,
    out: np.ndarray,
) -> None:
    """Size, neighbours inside, densities, and the edges of the neighbour graph that lead out, (r, 17)."""
    m, k = len(order), N_NEIGHBOURS
    overall, overall_slope = 0.0, 0.0
    for row in range(m):
        overall += log_core[row]
        overall_slope += log_distances[row, k - 1] - log_core[row]
    overall /= m
    overall_slope /= m
    for i in range(len(segments)):
        start, end = segments[i, 0], segments[i, 3]
        size = end - start
        step = max(1, size // ROWS_PER_RANGE)
        seen, n_out, in3, in8, in20, below_half, below_most, pure = 0, 0, 0, 0, 0, 0, 0, 0
        mean, square, cube, top, slope, far_square, far_mean = 0.0, 0.0, 0.0, -math.inf, 0.0, 0.0, 0.0
        out_max, out_core, out_length = 0.0, 0.0, 0.0
        for place in range(start, end, step):
            row = order[place]
            seen += 1
            own = log_core[row]
            mean += own
            square += own * own
            top = max(top, own)
            far = log_distances[row, k - 1]
            slope += far - own
            far_mean += far
            far_square += far * far
            inside3, inside8, inside = 0, 0, 0
            for j in range(3):
                inside3 += (neighbours[place, j] >= start) & (neighbours[place, j] < end)
            for j in range(8):
                inside8 += (neighbours[place, j] >= start) & (neighbours[place, j] < end)
            for j in range(k):
                inside += (neighbours[place, j] >= start) & (neighbours[place, j] < end)
            if inside8 < 8:
                for j in range(8):
                    other = neighbours[place, j]
                    if other >= 0 and not start <= other < end:
                        near = log_core[order[other]]
                        n_out += 1
                        out_max += max(own, near)
                        out_core += near
                        out_length += log_distances[row, j] - 0.5 * (own + near)
            in3 += inside3
            in8 += inside8
            in20 += inside
            below_half += inside8 < 4
            below_most += inside8 < 7
            pure += inside == k
        mean /= seen
        deviation = math.sqrt(max(square / seen - mean * mean, 0.0))
        for place in range(start, end, step):
            gap = log_core[order[place]] - mean
            cube += gap * gap * gap
        out[i, 0], out[i, 1] = math.log(size), size / m
        out[i, 2], out[i, 3], out[i, 4] = in3 / (3 * seen), in8 / (8 * seen), in20 / (k * seen)
        out[i, 5], out[i, 6], out[i, 7] = below_half / seen, below_most / seen, pure / seen
        out[i, 8], out[i, 9] = mean - overall, deviation
        floor = max(deviation, 0.05)
        out[i, 10] = cube / seen / (floor * floor * floor)
        out[i, 11] = top - mean
        out[i, 12] = slope / seen - overall_slope
        far_mean /= seen
        out[i, 13] = math.sqrt(max(far_square / seen - far_mean * far_mean, 0.0))
        out[i, 14] = out[i, 15] = out[i, 16] = NONE
        if n_out > 0:
            out[i, 14], out[i, 15] = out_max / n_out - mean, out_core / n_out - mean
            out[i, 16] = out_length / n_out


@compiled
def neighbours_of_splits(
    neighbours: np.ndarray,
    log_distances: np.ndarray,
    log_core: np.ndarray,
    order: np.ndarray,
    segments: np.ndarray,
    out: np.ndarray,
) -> None:
    """Sizes of the halves, and how the neighbour graph connects them, (r, 12)."""
    k = N_NEIGHBOURS
    for i in range(len(segments)):
        n_left, n_right = segments[i, 1] - segments[i, 0], segments[i, 3] - segments[i, 2]
        size, smaller = n_left + n_right, min(n_left, n_right)
        step = max(1, size // ROWS_PER_RANGE)
        small_step = max(1, min(step, smaller // 50))  # rows of the smaller half are never skipped over
        seen, cross3, cross8, cross20, n8 = 0, 0, 0, 0, 0
        total_max, least_max, total_length = 0.0, math.inf, 0.0
        of_left, of_right = 0.0, 0.0
        for half in range(2):
            first, last = segments[i, 2 * half], segments[i, 2 * half + 1]
            low, high = segments[i, 2 - 2 * half], segments[i, 3 - 2 * half]  # of the other half
            stride = small_step if last - first == smaller else step
            total, n_rows = 0.0, 0
            for place in range(first, last, stride):
                row = order[place]
                own = log_core[row]
                total += own
                n_rows += 1
                crossing = 0
                for j in range(k):
                    crossing += (neighbours[place, j] >= low) & (neighbours[place, j] < high)
                if crossing == 0:
                    continue
                cross20 += stride * crossing
                for j in range(8):
                    if not low <= neighbours[place, j] < high:
                        continue
                    cross8 += stride
                    n8 += 1
                    if j < 3:
                        cross3 += stride
                    near = log_core[order[neighbours[place, j]]]
                    highest = max(own, near)
                    total_max += highest
                    least_max = min(least_max, highest)
                    total_length += log_distances[row, j] - 0.5 * (own + near)
            seen += stride * n_rows
            if half == 0:
                of_left = total / n_rows
            else:
                of_right = total / n_rows
        out[i, 0], out[i, 1] = smaller / size, math.log(smaller)
        out[i, 2], out[i, 3], out[i, 4] = cross3 / (3 * seen), cross8 / (8 * seen), cross20 / (k * seen)
        out[i, 5] = cross8 / (8 * smaller)
        out[i, 6] = out[i, 7] = out[i, 8] = out[i, 9] = NONE
        if n8 > 0:
            out[i, 6] = total_max / n8 - max(of_left, of_right)
            out[i, 7] = total_max / n8 - min(of_left, of_right)
            out[i, 8] = least_max - max(of_left, of_right)
            out[i, 9] = total_length / n8
        out[i, 10] = abs(of_left - of_right)
        out[i, 11] = of_left - of_right if n_left < n_right else of_right - of_left  # smaller against larger


@compiled
def _moments(sums: np.ndarray, start: int, end: int, mean: np.ndarray, scatter: np.ndarray) -> None:
    """Mean (q,) and the lower half of the covariance (q, q) of the rows of a range."""
    q, size = len(mean), end - start
    column = q + 1
    for a in range(q):
        mean[a] = (sums[end, 1 + a] - sums[start, 1 + a]) / size
    for a in range(q):
        for b in range(a, q):
            scatter[b, a] = (sums[end, column] - sums[start, column]) / size - mean[a] * mean[b]
            column += 1


@compiled
def _cholesky(matrix: np.ndarray, ridge: float, root: np.ndarray) -> float:
    """Write the lower root of a covariance (q, q) with a ridge, its diagonal inverted; log determinant."""
    q = len(matrix)
    log_det = 0.0
    for a in range(q):
        for b in range(a + 1):
            value = matrix[a, b]
            if a == b:
                value += ridge
            for c in range(b):
                value -= root[a, c] * root[b, c]
            if a == b:
                value = max(value, 1e-12)
                log_det += math.log(value)
                root[a, a] = 1.0 / math.sqrt(value)
            else:
                root[a, b] = value * root[b, b]
    return log_det


@compiled
def gaussians_of_ranges(
    points: np.ndarray,
    order: np.ndarray,
    segments: np.ndarray,
    sums: np.ndarray,
    scatters: np.ndarray,
    spare: np.ndarray,
    rows: np.ndarray,
    out: np.ndarray,
) -> None:
    """How Gaussian ranges are, (r, 7); the first number is left to be written from ``scatters`` (r, q, q).

    ``sums`` (m + 1, p) are those of T(x) over the first rows of the order; ``spare`` (1 + 2 q, q) and
    ``rows`` (q + 1, 2 ROWS_PER_RANGE) are room.
    """
    q = points.shape[1]
    mean, root, inverse = spare[0], spare[1 : 1 + q], spare[1 + q :]
    for i in range(len(segments)):
        start, end = segments[i, 0], segments[i, 3]
        size = end - start
        scatter = scatters[i]
        _moments(sums, start, end, mean, scatter)
        trace, square = 0.0, 0.0
        for a in range(q):
            trace += scatter[a, a]
            square += scatter[a, a] * scatter[a, a]
            for b in range(a):
                square += 2 * scatter[a, b] * scatter[a, b]
        log_det = _cholesky(scatter, RIDGE * max(trace / q, 1e-6), root)
        for a in range(q):
            for b in range(a):
                value = 0.0
                for c in range(b, a):
                    value -= root[a, c] * inverse[c, b]
                inverse[a, b] = value * root[a, a]
            inverse[a, a] = root[a, a]
        seen = 0
        for place in range(start, end, max(1, size // ROWS_PER_RANGE)):
            row = order[place]
            for a in range(q):
                rows[a, seen] = points[row, a] - mean[a]
            rows[q, seen] = 0.0  # the squared distance
            seen += 1
        for a in range(q - 1, -1, -1):  # column by column, which is several rows at once
            factor = inverse[a, a]
            for t in range(seen):
                rows[a, t] *= factor
            for b in range(a):
                factor = inverse[a, b]
                for t in range(seen):
                    rows[a, t] += factor * rows[b, t]
            for t in range(seen):
                rows[q, t] += rows[a, t] * rows[a, t]
        fourth, largest = 0.0, 0.0
        near, far = 0, 0
        for t in range(seen):
            distance = rows[q, t]
            fourth += distance * distance
            near += distance < 0.3 * q
            far += distance > 2.5 * q
            largest = max(largest, distance)
        out[i, 1] = trace * trace / (square + 1e-18) / q
        out[i, 2] = math.log(fourth / seen / (q * (q + 2)) + 1e-3)
        out[i, 3], out[i, 4] = near / seen, far / seen
        out[i, 5] = math.log(largest / q + 1e-3)
        # Room that an ellipsoid would have to spare, for points of unit spread, but for the density inside.
        out[i, 6] = 0.5 * log_det / q - math.log(size) / q


@compiled
def gaussians_of_splits(
    points: np.ndarray,
    order: np.ndarray,
    segments: np.ndarray,
    sums: np.ndarray,
    spare: np.ndarray,
    projected: np.ndarray,
    out: np.ndarray,
) -> None:
    """Two Gaussians against one, and the density along the line that parts them best, (r, 7).

    Zeros if one half has fewer than three rows. ``spare`` (4 + 5 q, q) and ``projected`` (m,) are room.
    """
    q = points.shape[1]
    left_mean, right_mean, axis, middle = spare[0], spare[1], spare[2], spare[3]
    left, right = spare[4 : 4 + q], spare[4 + q : 4 + 2 * q]
    within, both, root = spare[4 + 2 * q : 4 + 3 * q], spare[4 + 3 * q : 4 + 4 * q], spare[4 + 4 * q :]
    for i in range(len(segments)):
        first, second = segments[i, 0], segments[i, 2]
        n_left, n_right = segments[i, 1] - first, segments[i, 3] - second
        size = n_left + n_right
        if min(n_left, n_right) < 3:
            continue
        _moments(sums, first, first + n_left, left_mean, left)
        _moments(sums, second, second + n_right, right_mean, right)
        p_left, p_right = n_left / size, n_right / size
        trace = 0.0
        for a in range(q):
            axis[a] = right_mean[a] - left_mean[a]
            middle[a] = 0.5 * (left_mean[a] + right_mean[a])
            for b in range(a + 1):
                within[a, b] = p_left * left[a, b] + p_right * right[a, b]
                both[a, b] = within[a, b] + p_left * p_right * axis[a] * axis[b]
            trace += both[a, a]
        ridge = RIDGE * max(trace / q, 1e-6)
        _cholesky(within, ridge, root)
        square = 0.0
        for a in range(q):  # axis = within^-1 (right mean - left mean)
            for b in range(a):
                axis[a] -= root[a, b] * axis[b]
            axis[a] *= root[a, a]
            square += axis[a] * axis[a]
        for a in range(q - 1, -1, -1):
            for b in range(a + 1, q):
                axis[a] -= root[b, a] * axis[b]
            axis[a] *= root[a, a]
        distance, scale = math.sqrt(square), 2 / max(square, 1e-9)
        step, n_projected = max(1, size // ROWS_PER_RANGE), 0
        for place in range(0, size, step):
            row = order[first + place] if place < n_left else order[second + place - n_left]
            along = 0.0
            for a in range(q):
                along += (points[row, a] - middle[a]) * axis[a]
            projected[n_projected] = along * scale
            n_projected += 1
        least, centre, left_peak, right_peak = math.inf, 0.0, 0.0, 0.0
        for at in range(-5, 6):  # five places between the means, three around each of them
            position = 0.2 * at if abs(at) < 3 else (0.7 + 0.3 * (abs(at) - 3)) * (1.0 if at > 0 else -1.0)
            count = 1.0
            for j in range(n_projected):
                count += abs(projected[j] - position) < 0.25
            if abs(at) < 3:
                least = min(least, count)
                if at == 0:
                    centre = count
            elif at < 0:
                left_peak = max(left_peak, count)
            else:
                right_peak = max(right_peak, count)
        peak = min(left_peak, right_peak)
        det_both = _cholesky(both, ridge, root)
        det_left = _cholesky(left, ridge, root)
        det_right = _cholesky(right, ridge, root)
        gain = det_both - p_left * det_left - p_right * det_right
        gain += 2 * (p_left * math.log(p_left) + p_right * math.log(p_right))
        out[i, 0] = math.log(distance + 1e-9)
        out[i, 1], out[i, 2] = math.log(least / peak), math.log(centre / peak)
        out[i, 3] = gain
        out[i, 4] = gain - (q + q * (q + 1) / 2 + 1) * math.log(size) / size
        out[i, 5] = (det_left - det_right) / q if n_left < n_right else (det_right - det_left) / q
        out[i, 6] = math.log(distance + 1e-9) - 0.5 * math.log(math.log(size) + 1)
