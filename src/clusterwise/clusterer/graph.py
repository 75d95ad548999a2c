"""Nearest neighbours and minimum spanning trees of the rows that trees are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from clusterwise._compiled import compiled

__all__ = ["Edges", "Neighbourhood", "first_smallest", "nearest", "neighbour_graph", "neighbourhood_of"]

N_NEIGHBOURS = 20
GRAPH_NEIGHBOURS = 15  # those of them that are edges of the graph
# The distance to this neighbour stands for the density at a row, as HDBSCAN's core distance does.
CORE_NEIGHBOUR = 5
# Distances below this part of the median core distance count as this part: copies of a row are no clusters.
LEAST_DISTANCE = 0.02
# Up to this many features a k-d tree finds neighbours faster than comparing all rows.
FEATURES_OF_KD_TREE = 6
# Entries of a block of distances between rows.
BLOCK = 1_000_000


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

    @cached_property
    def graph(self) -> csr_matrix:
        """Graph (m, m) of the nearest neighbours, which Paris and Leiden see."""
        return _symmetric(self.indices[:, : min(GRAPH_NEIGHBOURS, len(self.points) - 1)])


def _symmetric(indices: np.ndarray) -> csr_matrix:
    """Unweighted graph (m, m) with an edge between a row and each of its neighbours (m, j)."""
    m, j = indices.shape
    graph = csr_matrix((np.ones(m * j), (np.repeat(np.arange(m), j), indices.ravel())), shape=(m, m))
    graph = graph.maximum(graph.T).tocsr()
    graph.sort_indices()
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    return graph


def neighbour_graph(points: np.ndarray) -> csr_matrix:
    """Graph (m, m) of the nearest neighbours of points (m, f), as ``Neighbourhood.graph``, for many rows."""
    indices, _ = nearest(points, points, min(GRAPH_NEIGHBOURS + 1, len(points)))
    others = indices != np.arange(len(points))[:, None]
    others[others.all(axis=1), -1] = False  # where copies of a row came before it
    return _symmetric(indices[others].reshape(len(points), -1))


def neighbourhood_of(points: np.ndarray) -> Neighbourhood:
    """Measure points (m, f), m >= 2."""
    m = len(points)
    distances = np.empty((m, m), dtype=np.float32)
    _measure(np.ascontiguousarray(points.T), np.empty(m), distances)
    indices, near = _nearest_in(distances, min(N_NEIGHBOURS, m - 1))
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
    )


# Plain loops from here on, and room from the caller: code that allocates takes longer to compile.


@compiled
def _measure(columns: np.ndarray, squares: np.ndarray, distances: np.ndarray) -> None:
    """Write the distances (m, m) between the rows of a table, given by its columns (f, m).

    They are infinite on the diagonal; taken in double precision, kept in single precision: half the memory to
    go through. ``squares`` (m,) is room.
    """
    f, m = columns.shape
    for i in range(m):
        own = columns[0, i]
        for j in range(m):
            gap = columns[0, j] - own
            squares[j] = gap * gap
        for a in range(1, f):
            own = columns[a, i]
            for j in range(m):
                gap = columns[a, j] - own
                squares[j] += gap * gap
        for j in range(m):
            distances[i, j] = math.sqrt(squares[j])
        distances[i, i] = math.inf


def _nearest_in(distances: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest rows (n, n_neighbours) and their distances, of a matrix (n, m); of equals the first rows."""
    n = len(distances)
    indices, near = np.empty((n, n_neighbours), dtype=np.int64), np.empty((n, n_neighbours))
    _find_nearest(distances, indices, near)
    return indices, near


@compiled
def _find_nearest(distances: np.ndarray, indices: np.ndarray, near: np.ndarray) -> None:
    (n, m), n_neighbours = distances.shape, near.shape[1]
    for i in range(n):
        for place in range(n_neighbours):
            indices[i, place] = -1
            near[i, place] = math.inf
        farthest = math.inf
        for j in range(m):
            distance = distances[i, j]
            if distance < farthest:
                place = n_neighbours - 1
                while place > 0 and near[i, place - 1] > distance:
                    near[i, place], indices[i, place] = near[i, place - 1], indices[i, place - 1]
                    place -= 1
                near[i, place], indices[i, place] = distance, j
                farthest = near[i, n_neighbours - 1]


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
        block = some @ among.T
        block *= -2.0
        block += norms
        part = slice(start, start + step)
        indices[part], squares[part] = _nearest_in(block, n_neighbours)
        squares[part] += np.square(some).sum(axis=1, keepdims=True)
    return indices, np.sqrt(np.maximum(squares, 0))


@compiled
def first_smallest(values: np.ndarray, n: int) -> int:
    """Place of the smallest of the first n values; of equals the first one."""
    # Eight minima at once are four times quicker than one.
    a = b = c = d = e = f = g = h = values[0]
    for j in range(0, n - 7, 8):
        a = values[j] if values[j] < a else a
        b = values[j + 1] if values[j + 1] < b else b
        c = values[j + 2] if values[j + 2] < c else c
        d = values[j + 3] if values[j + 3] < d else d
        e = values[j + 4] if values[j + 4] < e else e
        f = values[j + 5] if values[j + 5] < f else f
        g = values[j + 6] if values[j + 6] < g else g
        h = values[j + 7] if values[j + 7] < h else h
    for j in range(n - n % 8, n):
        a = values[j] if values[j] < a else a
    smallest = min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
    place = 0
    while place < n - 1 and values[place] != smallest:
        place += 1
    return place


def _edges(distances: np.ndarray, core: np.ndarray, floor: float) -> Edges:
    m = len(core)
    ends, lengths = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    _prim(distances, core, np.full(m, np.inf), core.copy(), np.zeros(m, dtype=np.int64), ends, lengths)
    order = np.argsort(lengths, kind="stable")
    lengths = lengths[order]
    return Edges(ends[order], lengths, np.log(np.maximum(lengths, floor)))


@compiled
def _prim(
    distances: np.ndarray,
    core: np.ndarray,
    best: np.ndarray,
    least: np.ndarray,
    origin: np.ndarray,
    ends: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Write the spanning tree of max(d_ij, core_i, core_j) by Prim's algorithm.

    ``best`` (m,), infinite, is the distance of each row to the tree. None of its edges is shorter than
    ``least`` (m,), a copy of ``core``, which becomes infinite for rows of the tree. ``origin`` (m,) is zero.
    """
    m = len(distances)
    current = 0
    for step in range(m - 1):
        best[current] = least[current] = math.inf
        own = core[current]
        for j in range(m):
            length = max(max(distances[current, j], own), least[j])
            if length < best[j]:
                best[j] = length
                origin[j] = current
        current = first_smallest(best, m)
        ends[step, 0], ends[step, 1], lengths[step] = origin[current], current, best[current]
