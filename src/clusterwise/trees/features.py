"""Numbers that tell a cluster from a part or a union of clusters, whatever k and the number of features.

A *range* is a set of rows that stand side by side in some order: the rows below a node of a tree, or a
cluster of a partition sorted by its labels. ``features_of_ranges`` measures ranges, ``nodes_of`` also the two
halves of each, ``features_of_pairs`` pairs of clusters. Distances enter as logs of ratios, points have
unit spread: units do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.trees.neighbourhood import N_NEIGHBOURS, Neighbourhood
from clusterwise.trees.tree import Tree

__all__ = [
    "N_RANGE_FEATURES",
    "N_SPLIT_FEATURES",
    "Measured",
    "Nodes",
    "features_of_pairs",
    "features_of_ranges",
    "measure",
    "nodes_of",
]

N_RANGE_FEATURES = 40
N_SPLIT_FEATURES = 28
# Covariances are taken in at most this many leading directions.
MOST_DIRECTIONS = 8
# Of larger ranges every s-th row is looked at, at least this many of them.
ROWS_OF_RANGE = 400
# Stands for "no edge leaves": about the largest log ratio that occurs.
NONE = 4.0
# Ranges smaller than this, or than this share of all rows, are not judged; nor more than this many.
LEAST_SIZE, LEAST_SHARE, MOST_NODES = 4, 0.004, 256
RIDGE = 1e-3


@dataclass(frozen=True)
class Measured:
    """A neighbourhood in the form that the compiled functions take."""

    indices: np.ndarray  # (m, N_NEIGHBOURS)
    log_distances: np.ndarray  # (m, N_NEIGHBOURS)
    log_core: np.ndarray  # (m,)
    plain: tuple[np.ndarray, np.ndarray]  # ends (m - 1, 2), log lengths (m - 1,)
    reachability: tuple[np.ndarray, np.ndarray]
    directions: np.ndarray  # (m, q) leading directions of the points, the first of unit variance


@dataclass(frozen=True)
class Nodes:
    """The v nodes of a tree that are judged, the largest first, and what was measured of them."""

    tree: Tree
    nodes: np.ndarray  # (v,)
    features: np.ndarray  # (v, N_RANGE_FEATURES + N_SPLIT_FEATURES)
    parents: np.ndarray  # (v,) index among the v, -1 for the root
    children: np.ndarray  # (v, 2) index among the v, -1 for nodes that are too small

    @property
    def sizes(self) -> np.ndarray:
        """Rows below each node, (v,)."""
        return self.tree.sizes[self.nodes]


def measure(near: Neighbourhood) -> Measured:
    """Prepare a neighbourhood for ``nodes_of`` and ``features_of_ranges``."""
    centred = near.points - near.points.mean(axis=0)
    if centred.shape[1] > MOST_DIRECTIONS:
        _, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        centred = centred @ vectors[:, ::-1][:, :MOST_DIRECTIONS]
    spread = float(centred.std(axis=0).max())
    return Measured(
        near.indices,
        near.log_distances,
        near.log_core,
        (near.plain.ends, near.plain.log_lengths),
        (near.reachability.ends, near.reachability.log_lengths),
        np.ascontiguousarray(centred / (spread if spread > 0 else 1.0)),
    )


def nodes_of(measured: Measured, tree: Tree) -> Nodes:
    """Measure the larger nodes of a tree."""
    m = tree.n_rows
    inner = np.arange(m, 2 * m - 1)
    inner = inner[tree.sizes[inner] >= max(LEAST_SIZE, int(LEAST_SHARE * m))]
    # The largest ones; of equal size those joined last. So parents always come before their children.
    nodes = inner[np.lexsort((-inner, -tree.sizes[inner]))][:MOST_NODES]
    places = np.full(2 * m - 1, -1)
    places[nodes] = np.arange(len(nodes))
    parents = np.where(tree.parents[nodes] >= 0, places[tree.parents[nodes]], -1)
    children = places[tree.children[nodes]]
    starts = tree.starts[nodes]
    ends = starts + tree.sizes[nodes]
    middles = starts + tree.sizes[tree.children[nodes, 0]]
    of_children = tree.heights[tree.children[nodes]].max(axis=1)
    ratios = np.log(np.maximum(tree.heights[nodes], 1e-12) / np.maximum(of_children, 1e-12))
    ratios = np.where(of_children > 0, ratios, 0.0)
    features = np.concatenate(
        [
            features_of_ranges(measured, tree.order, starts, ends),
            _splits(*_ordered(measured, tree.order), starts, middles, ends, ratios),  # type: ignore[call-arg]
        ],
        axis=1,
    )
    return Nodes(tree, nodes, np.clip(np.nan_to_num(features), -30, 30), parents, children)


def features_of_ranges(
    measured: Measured, order: np.ndarray, starts: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Features (r, N_RANGE_FEATURES) of the ranges order[start:end] of rows."""
    return np.asarray(_ranges(*_ordered(measured, order), starts, ends))  # type: ignore[call-arg]


def features_of_pairs(
    measured: Measured, rows: Sequence[np.ndarray], pairs: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Features (p, N_SPLIT_FEATURES) of parting the union of two clusters, which have ``rows``."""
    result = np.zeros((len(pairs), N_SPLIT_FEATURES))
    places = np.full(len(measured.log_core), -1)
    for i, (a, b) in enumerate(pairs):
        both = np.concatenate([rows[a], rows[b]])
        places[both] = np.arange(len(both))
        edges: list[np.ndarray] = []
        for ends, lengths in (measured.plain, measured.reachability):
            inside = (places[ends] >= 0).all(axis=1)
            edges += [places[ends[inside]], lengths[inside]]
        indices = measured.indices[both]
        result[i] = _splits(  # type: ignore[call-arg]
            np.where(indices >= 0, places[indices], -1),
            measured.log_distances[both],
            measured.log_core[both],
            *edges,
            measured.directions[both],
            np.zeros(1, dtype=np.int64),
            np.array([len(rows[a])]),
            np.array([len(both)]),
            np.zeros(1),
        )[0]
        places[both] = -1
    return np.clip(np.nan_to_num(result), -30, 30)


def _ordered(measured: Measured, order: np.ndarray) -> tuple[np.ndarray, ...]:
    """All that was measured, rows by their place in the order."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    indices = measured.indices[order]
    return (
        np.where(indices >= 0, places[indices], -1),
        measured.log_distances[order],
        measured.log_core[order],
        places[measured.plain[0]],
        measured.plain[1],
        places[measured.reachability[0]],
        measured.reachability[1],
        measured.directions[order],
    )


@compiled
def _quantile(values: np.ndarray, n: int, q: float) -> float:
    """Quantile of the first n of sorted values."""
    return values[min(n - 1, int(q * n))]


@compiled
def _edge_features(
    ends: np.ndarray, lengths: np.ndarray, start: int, end: int, out: np.ndarray, inside: np.ndarray
) -> None:
    """Edges of a spanning tree inside a range against those that leave it, (8,)."""
    n_inside, n_leaving = 0, 0
    shortest, total = 0.0, 0.0
    for e in range(len(lengths)):
        a = start <= ends[e, 0] < end
        b = start <= ends[e, 1] < end
        if a and b:
            inside[n_inside] = lengths[e]
            n_inside += 1
        elif a or b:
            if n_leaving == 0:
                shortest = lengths[e]
            total += lengths[e]
            n_leaving += 1
    size = end - start
    out[0] = n_inside / max(size - 1, 1)
    out[4] = np.log1p(n_leaving)
    out[1] = out[2] = out[3] = 0.0
    out[5] = out[6] = out[7] = NONE
    if n_inside > 0:
        median, high, top = (
            _quantile(inside, n_inside, 0.5),
            _quantile(inside, n_inside, 0.9),
            inside[n_inside - 1],
        )
        higher = _quantile(inside, n_inside, 0.95)
        out[1], out[2], out[3] = top - median, top - higher, high - median
        if n_leaving > 0:
            out[5], out[6], out[7] = shortest - higher, total / n_leaving - high, shortest - top


@compiled
def _moments(points: np.ndarray, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean (q,) and covariance (q, q) of points in a range."""
    q = points.shape[1]
    mean, scatter = np.zeros(q), np.zeros((q, q))
    for r in range(start, end):
        for a in range(q):
            mean[a] += points[r, a]
    mean /= end - start
    for r in range(start, end):
        for a in range(q):
            xa = points[r, a] - mean[a]
            for b in range(a + 1):
                scatter[a, b] += xa * (points[r, b] - mean[b])
    for a in range(q):
        for b in range(a + 1):
            scatter[a, b] /= end - start
            scatter[b, a] = scatter[a, b]
    return mean, scatter


@compiled
def _cholesky(matrix: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
    """Lower root of a covariance with a ridge, and the log determinant."""
    q = len(matrix)
    root = np.zeros((q, q))
    log_det = 0.0
    for a in range(q):
        for b in range(a + 1):
            value = matrix[a, b] + (ridge if a == b else 0.0)
            for c in range(b):
                value -= root[a, c] * root[b, c]
            if a == b:
                root[a, a] = np.sqrt(max(value, 1e-12))
                log_det += 2 * np.log(root[a, a])
            else:
                root[a, b] = value / root[b, b]
    return root, log_det


@compiled
def _whiten(root: np.ndarray, centred: np.ndarray) -> np.ndarray:
    """Solve root z = centred."""
    q = len(root)
    z = np.empty(q)
    for a in range(q):
        value = centred[a]
        for b in range(a):
            value -= root[a, b] * z[b]
        z[a] = value / root[a, a]
    return z


@compiled
def _ranges(
    neighbours: np.ndarray,
    log_distances: np.ndarray,
    log_core: np.ndarray,
    plain_ends: np.ndarray,
    plain_lengths: np.ndarray,
    reach_ends: np.ndarray,
    reach_lengths: np.ndarray,
    points: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
) -> np.ndarray:
    m, q = points.shape
    k = N_NEIGHBOURS
    result = np.zeros((len(starts), N_RANGE_FEATURES))
    buffer = np.empty(m)
    overall = log_core.mean()
    overall_slope = (log_distances[:, k - 1] - log_core).mean()
    for i in range(len(starts)):
        start, end = starts[i], ends[i]
        size = end - start
        step = max(1, size // ROWS_OF_RANGE)
        f = result[i]
        f[0], f[1] = np.log(size), size / m
        # neighbours inside, densities, and the edges that lead out
        seen, n_out = 0, 0
        in3, in8, in20, below_half, below_most, pure = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        mean, square, cube, top, slope, far_square, far_mean = 0.0, 0.0, 0.0, -1e300, 0.0, 0.0, 0.0
        out_max, out_core, out_length = 0.0, 0.0, 0.0
        for r in range(start, end, step):
            seen += 1
            c = log_core[r]
            mean += c
            square += c * c
            top = max(top, c)
            far = log_distances[r, k - 1]
            slope += far - c
            far_mean += far
            far_square += far * far
            inside8, inside = 0, 0
            for j in range(k):
                other = neighbours[r, j]
                if start <= other < end:
                    inside += 1
                    if j < 8:
                        inside8 += 1
                        if j < 3:
                            in3 += 1
                elif j < 8 and other >= 0:
                    n_out += 1
                    out_max += max(c, log_core[other])
                    out_core += log_core[other]
                    out_length += log_distances[r, j] - 0.5 * (c + log_core[other])
            in8 += inside8
            in20 += inside
            below_half += inside8 < 4
            below_most += inside8 < 7
            pure += inside == k
        mean /= seen
        deviation = np.sqrt(max(square / seen - mean * mean, 0.0))
        for r in range(start, end, step):
            cube += (log_core[r] - mean) ** 3
        f[2], f[3], f[4] = in3 / (3 * seen), in8 / (8 * seen), in20 / (k * seen)
        f[5], f[6], f[7] = below_half / seen, below_most / seen, pure / seen
        f[8], f[9] = mean - overall, deviation
        f[10] = cube / seen / max(deviation, 0.05) ** 3
        f[11] = top - mean
        f[12] = slope / seen - overall_slope
        f[13] = np.sqrt(max(far_square / seen - (far_mean / seen) ** 2, 0.0))
        f[14] = f[15] = f[16] = NONE
        if n_out > 0:
            f[14], f[15], f[16] = out_max / n_out - mean, out_core / n_out - mean, out_length / n_out
        _edge_features(plain_ends, plain_lengths, start, end, f[17:25], buffer)
        _edge_features(reach_ends, reach_lengths, start, end, f[25:33], buffer)
        # how Gaussian it is
        centre, scatter = _moments(points, start, end)
        values = np.linalg.eigvalsh(scatter)
        trace = values.sum()
        root, log_det = _cholesky(scatter, RIDGE * max(trace / q, 1e-6))
        fourth, near, far_out, largest = 0.0, 0.0, 0.0, 0.0
        for r in range(start, end, step):
            z = _whiten(root, points[r] - centre)
            distance = (z * z).sum()
            fourth += distance * distance
            near += distance < 0.3 * q
            far_out += distance > 2.5 * q
            largest = max(largest, distance)
        f[33] = np.log((values[q - 1] + 1e-9) / (max(values[0], 0.0) + 1e-9))
        f[34] = trace * trace / ((values * values).sum() + 1e-18) / q
        f[35] = np.log(fourth / seen / (q * (q + 2)) + 1e-3)
        f[36], f[37] = near / seen, far_out / seen
        f[38] = np.log(largest / q + 1e-3)
        # Room that an ellipsoid would have to spare, for points of unit spread.
        f[39] = 0.5 * log_det / q - np.log(size) / q - mean
    return result


@compiled
def _crossing(
    ends: np.ndarray,
    lengths: np.ndarray,
    start: int,
    middle: int,
    end: int,
    out: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
) -> None:
    """Edges of a spanning tree that cross a split against those inside its halves, (4,)."""
    n_left, n_right, n_cross = 0, 0, 0
    shortest = 0.0
    for e in range(len(lengths)):
        a, b = ends[e, 0], ends[e, 1]
        if not (start <= a < end and start <= b < end):
            continue
        if (a < middle) != (b < middle):
            if n_cross == 0:
                shortest = lengths[e]
            n_cross += 1
        elif a < middle:
            left[n_left] = lengths[e]
            n_left += 1
        else:
            right[n_right] = lengths[e]
            n_right += 1
    out[0] = np.log1p(n_cross)
    out[1] = out[2] = out[3] = NONE
    if n_cross > 0 and n_left + n_right > 0:
        of_left = _quantile(left, n_left, 0.9) if n_left else _quantile(right, n_right, 0.9)
        of_right = _quantile(right, n_right, 0.9) if n_right else of_left
        top = max(left[n_left - 1] if n_left else -1e300, right[n_right - 1] if n_right else -1e300)
        out[1], out[2], out[3] = (
            shortest - max(of_left, of_right),
            shortest - min(of_left, of_right),
            shortest - top,
        )


@compiled
def _near(projected: np.ndarray, centre: float) -> float:
    count = 1.0
    for value in projected:
        count += abs(value - centre) < 0.25
    return count


@compiled
def _splits(
    neighbours: np.ndarray,
    log_distances: np.ndarray,
    log_core: np.ndarray,
    plain_ends: np.ndarray,
    plain_lengths: np.ndarray,
    reach_ends: np.ndarray,
    reach_lengths: np.ndarray,
    points: np.ndarray,
    starts: np.ndarray,
    middles: np.ndarray,
    ends: np.ndarray,
    height_ratios: np.ndarray,
) -> np.ndarray:
    m, q = points.shape
    k = N_NEIGHBOURS
    result = np.zeros((len(starts), N_SPLIT_FEATURES))
    left_buffer, right_buffer = np.empty(m), np.empty(m)
    for i in range(len(starts)):
        start, middle, end = starts[i], middles[i], ends[i]
        size = end - start
        smaller = min(middle - start, end - middle)
        f = result[i]
        f[0], f[1] = smaller / size, np.log(smaller)
        step = max(1, size // ROWS_OF_RANGE)
        small_step = max(1, min(step, smaller // 50))  # rows of the smaller half are never skipped over
        seen, cross3, cross8, cross20, n8 = 0.0, 0.0, 0.0, 0.0, 0.0
        total_max, least_max, total_length = 0.0, 1e300, 0.0
        sums = np.zeros(2)
        counts = np.zeros(2)
        for half in range(2):
            first, last = (start, middle) if half == 0 else (middle, end)
            stride = small_step if last - first == smaller else step
            for r in range(first, last, stride):
                seen += stride
                c = log_core[r]
                sums[half] += c
                counts[half] += 1
                for j in range(k):
                    other = neighbours[r, j]
                    if other < start or other >= end or (other < middle) == (half == 0):
                        continue
                    cross20 += stride
                    if j < 8:
                        cross8 += stride
                        n8 += 1
                        if j < 3:
                            cross3 += stride
                        highest = max(c, log_core[other])
                        total_max += highest
                        least_max = min(least_max, highest)
                        total_length += log_distances[r, j] - 0.5 * (c + log_core[other])
        of_left, of_right = sums[0] / counts[0], sums[1] / counts[1]
        f[2], f[3], f[4] = cross3 / (3 * seen), cross8 / (8 * seen), cross20 / (k * seen)
        f[5] = cross8 / (8 * smaller)
        f[6] = f[7] = f[8] = f[9] = NONE
        if n8 > 0:
            f[6] = total_max / n8 - max(of_left, of_right)
            f[7] = total_max / n8 - min(of_left, of_right)
            f[8] = least_max - max(of_left, of_right)
            f[9] = total_length / n8
        f[10] = abs(of_left - of_right)
        f[11] = (of_left - of_right) * (
            1.0 if middle - start < end - middle else -1.0
        )  # smaller against larger
        _crossing(plain_ends, plain_lengths, start, middle, end, f[12:16], left_buffer, right_buffer)
        _crossing(reach_ends, reach_lengths, start, middle, end, f[16:20], left_buffer, right_buffer)
        f[20] = height_ratios[i]
        if smaller < 3:
            continue
        # two Gaussians against one, and the density along the line that parts them best
        left_mean, left_scatter = _moments(points, start, middle)
        right_mean, right_scatter = _moments(points, middle, end)
        p_left, p_right = (middle - start) / size, (end - middle) / size
        within = p_left * left_scatter + p_right * right_scatter
        shift = right_mean - left_mean
        both = within + p_left * p_right * np.outer(shift, shift)
        ridge = RIDGE * max(np.trace(both) / q, 1e-6)
        root, _ = _cholesky(within, ridge)
        z = _whiten(root, shift)
        distance = np.sqrt((z * z).sum())
        axis = np.linalg.solve(within + ridge * np.eye(q), shift)
        middle_point = 0.5 * (left_mean + right_mean)
        n_projected = (size + step - 1) // step
        projected = np.empty(n_projected)
        for j in range(n_projected):
            projected[j] = (
                ((points[start + j * step] - middle_point) * axis).sum() * 2 / max(distance**2, 1e-9)
            )
        least, centre = 1e300, 0.0
        for c5 in range(-2, 3):
            count = _near(projected, 0.2 * c5)
            least = min(least, count)
            if c5 == 0:
                centre = count
        peak = min(
            max(_near(projected, -1.0), _near(projected, -0.7), _near(projected, -1.3)),
            max(_near(projected, 1.0), _near(projected, 0.7), _near(projected, 1.3)),
        )
        _, det_both = _cholesky(both, ridge)
        _, det_left = _cholesky(left_scatter, ridge)
        _, det_right = _cholesky(right_scatter, ridge)
        gain = det_both - p_left * det_left - p_right * det_right
        gain += 2 * (p_left * np.log(p_left) + p_right * np.log(p_right))
        penalty = (q + q * (q + 1) / 2 + 1) * np.log(size) / size
        f[21] = np.log(distance + 1e-9)
        f[22], f[23] = np.log(least / peak), np.log(centre / peak)
        f[24], f[25] = gain, gain - penalty
        f[26] = (det_left - det_right) / q * (1.0 if middle - start < end - middle else -1.0)
        f[27] = np.log(distance + 1e-9) - 0.5 * np.log(np.log(size) + 1)
    return result
