"""Nearest neighbours and minimum spanning trees of the rows that trees are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from clusterwise._compiled import compiled

__all__ = ["Edges", "Neighbourhood", "nearest", "neighbourhood_of"]

N_NEIGHBOURS = 20
# The distance to this neighbour stands for the density at a row, as HDBSCAN's core distance does.
CORE_NEIGHBOUR = 5
# Distances below this part of the median core distance count as this part: copies of a row are no clusters.
LEAST_DISTANCE = 0.02
# Up to this many features a k-d tree finds neighbours faster than comparing all rows.
FEATURES_OF_KD_TREE = 6
# Entries of a block of distances between rows.
BLOCK = 4_000_000


@dataclass(frozen=True)
class Edges:
    """The m - 1 edges of a spanning tree, shortest first."""

    ends: np.ndarray  # (m - 1, 2)
    lengths: np.ndarray  # (m - 1,)
    log_lengths: np.ndarray  # (m - 1,) with a floor


@dataclass(frozen=True)
class Neighbourhood:
    """What features of nodes are made from, for m rows with f features."""

    points: np.ndarray  # (m, f)
    indices: np.ndarray  # (m, N_NEIGHBOURS) nearest first, without the row itself; -1 where m is too small
    log_distances: np.ndarray  # (m, N_NEIGHBOURS) with a floor
    core: np.ndarray  # (m,) core distances
    log_core: np.ndarray  # (m,) with a floor
    plain: Edges  # spanning tree of the distances
    reachability: Edges  # spanning tree of the mutual reachability distances
    distances: np.ndarray | None  # (m, m), infinite from a row to itself; None once the trees are made


def neighbourhood_of(points: np.ndarray) -> Neighbourhood:
    """Measure points (m, f), m >= 2."""
    distances = _distances(np.ascontiguousarray(points.T))
    indices, near = _nearest_in(distances, min(N_NEIGHBOURS, len(points) - 1))
    core = near[:, min(CORE_NEIGHBOUR, near.shape[1]) - 1].copy()
    positive = core[core > 0]
    floor = max(LEAST_DISTANCE * float(np.median(positive)) if len(positive) else 0.0, 1e-300)
    full = np.full((len(points), N_NEIGHBOURS), -1)
    full[:, : indices.shape[1]] = indices
    logs = np.zeros((len(points), N_NEIGHBOURS))
    logs[:, : near.shape[1]] = np.log(np.maximum(near, floor))
    return Neighbourhood(
        points,
        full,
        logs,
        core,
        np.log(np.maximum(core, floor)),
        _edges(distances, np.zeros(len(points)), floor),
        _edges(distances, core, floor),
        distances,
    )


@compiled
def _distances(columns: np.ndarray) -> np.ndarray:
    """Distances (m, m) between the rows of a table, given by its columns (f, m); infinite on the diagonal."""
    f, m = columns.shape
    distances = np.zeros((m, m))
    for i in range(m):
        for a in range(f):
            own = columns[a, i]
            for j in range(m):
                gap = columns[a, j] - own
                distances[i, j] += gap * gap
        for j in range(m):
            distances[i, j] = math.sqrt(distances[i, j])
        distances[i, i] = math.inf
    return distances


@compiled
def _nearest_in(distances: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest rows (m, n_neighbours) and their distances, of a matrix (m, m); of equals the first rows."""
    m = len(distances)
    indices = np.empty((m, n_neighbours), dtype=np.int64)
    near = np.empty((m, n_neighbours))
    for i in range(m):
        for place in range(n_neighbours):
            indices[i, place] = -1
            near[i, place] = math.inf
        for j in range(m):
            distance = distances[i, j]
            if distance < near[i, n_neighbours - 1]:
                place = n_neighbours - 1
                while place > 0 and near[i, place - 1] > distance:
                    near[i, place], indices[i, place] = near[i, place - 1], indices[i, place - 1]
                    place -= 1
                near[i, place], indices[i, place] = distance, j
    return indices, near


def nearest(points: np.ndarray, among: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """The nearest rows of ``among`` (m, f) to points (n, f): indices and distances (n, n_neighbours)."""
    if points.shape[1] <= FEATURES_OF_KD_TREE:
        distances, indices = cKDTree(among).query(points, k=n_neighbours)
        return indices.reshape(len(points), -1), distances.reshape(len(points), -1)
    indices = np.empty((len(points), n_neighbours), dtype=np.int64)
    squares = np.empty((len(points), n_neighbours))
    norms = np.square(among).sum(axis=1)
    step = max(1, BLOCK // len(among))
    for start in range(0, len(points), step):
        some = points[start : start + step]
        block = norms - 2 * some @ among.T
        if n_neighbours == 1:
            found = block.argmin(axis=1)[:, None]
        else:
            found = np.argpartition(block, n_neighbours - 1, axis=1)[:, :n_neighbours]
        far = np.take_along_axis(block, found, axis=1)
        order = np.argsort(far, axis=1, kind="stable")
        indices[start : start + step] = np.take_along_axis(found, order, axis=1)
        far = np.take_along_axis(far, order, axis=1) + np.square(some).sum(axis=1, keepdims=True)
        squares[start : start + step] = far
    return indices, np.sqrt(np.maximum(squares, 0))


def _edges(distances: np.ndarray, core: np.ndarray, floor: float) -> Edges:
    ends, lengths = _prim(distances, core)
    order = np.argsort(lengths, kind="stable")
    lengths = lengths[order]
    return Edges(ends[order], lengths, np.log(np.maximum(lengths, floor)))


@compiled
def _prim(distances: np.ndarray, core: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spanning tree of max(d_ij, core_i, core_j) by Prim's algorithm."""
    m = len(distances)
    outside = np.arange(m)  # rows that are not in the tree yet, in their order
    best = np.empty(m)  # distance to the tree, of each of these
    origin = np.zeros(m, dtype=np.int64)
    for j in range(m):
        best[j] = math.inf
    ends = np.empty((m - 1, 2), dtype=np.int64)
    lengths = np.empty(m - 1)
    current, place = 0, 0
    for step in range(m - 1):
        n_outside = m - 1 - step
        for j in range(place, n_outside):
            outside[j], best[j], origin[j] = outside[j + 1], best[j + 1], origin[j + 1]
        own = core[current]
        place, shortest = 0, math.inf
        for j in range(n_outside):
            other = outside[j]
            length = max(distances[current, other], own, core[other])
            if length < best[j]:
                best[j] = length
                origin[j] = current
            if best[j] < shortest:
                place, shortest = j, best[j]
        current = outside[place]
        ends[step, 0], ends[step, 1] = origin[place], current
        lengths[step] = shortest
    return ends, lengths
