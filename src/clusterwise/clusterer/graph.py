"""The rows that partitions are proposed of, with their nearest neighbours and spanning trees."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from clusterwise._compiled import compiled
from clusterwise._threads import in_threads
from clusterwise.gaussian.niw import full_terms
from clusterwise.neighbours import CORE_NEIGHBOUR, nearest, nearest_in

if TYPE_CHECKING:
    from clusterwise.clusterer.branches import ScoredTree

__all__ = ["N_NEIGHBOURS", "Edges", "Graph", "adjacency_of_neighbours", "neighbour_graph"]

N_NEIGHBOURS = 20
N_ADJACENT = 15  # those of them that are edges of the adjacency matrix
# Distances below this part of the median core distance count as this part: copies of a row are no clusters.
MIN_DISTANCE = 0.02
# Covariances are taken in at most this many leading directions.
MAX_DIRECTIONS = 8


@dataclass(frozen=True)
class Edges:
    """The m - 1 edges of a spanning tree, shortest first."""

    ends: np.ndarray  # (m - 1, 2)
    lengths: np.ndarray  # (m - 1,)
    log_lengths: np.ndarray  # (m - 1,) with a floor


@dataclass(frozen=True)
class Graph:
    """m rows with all that partitions of them are proposed and judged by."""

    points: np.ndarray  # (m, f)
    neighbours: np.ndarray  # (m, N_NEIGHBOURS) nearest first, without the row itself; -1 where m is too small
    log_distances: np.ndarray  # (m, N_NEIGHBOURS) with a floor
    core: np.ndarray  # (m,) core distances
    log_core: np.ndarray  # (m,) with a floor
    plain: Edges  # spanning tree of the distances
    reachability: Edges  # spanning tree of the mutual reachability distances
    trees: tuple[ScoredTree, ...] = field(default=(), repr=False)  # linkage trees, their branches judged
    more_points: np.ndarray | None = None  # (s, f) more rows of the table, for communities
    places: np.ndarray | None = None  # (m,) where the m rows are among these

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return len(self.points)

    @cached_property
    def adjacency(self) -> csr_matrix:
        """Unweighted symmetric graph (m, m) of the nearest neighbours."""
        return adjacency_of_neighbours(self.neighbours[:, : min(N_ADJACENT, self.n_rows - 1)])

    @cached_property
    def adjacency_of_more(self) -> csr_matrix:
        """The same of ``more_points``, (s, s); ``adjacency`` if there are none."""
        points = self.more_points
        if points is None:
            return self.adjacency
        indices, _ = nearest(points, points, min(N_ADJACENT + 1, len(points)))
        others = indices != np.arange(len(points))[:, None]
        others[others.all(axis=1), -1] = False  # where copies of a row came before it
        return adjacency_of_neighbours(indices[others].reshape(len(points), -1))

    @cached_property
    def directions(self) -> np.ndarray:
        """Leading directions (m, q) of the points, the first of unit variance."""
        centred = self.points - self.points.mean(axis=0)
        if centred.shape[1] > MAX_DIRECTIONS:
            _, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
            centred = centred @ vectors[:, ::-1][:, :MAX_DIRECTIONS]
        spread = float(centred.std(axis=0).max())
        return np.ascontiguousarray(centred / (spread if spread > 0 else 1.0))

    @cached_property
    def shape_of_table(self) -> np.ndarray:
        """Logs of the number of columns and of the dimensions that the rows fill, and two shares, (4,).

        Shares of the variance in the first direction, and of the rows that are copies of others.
        """
        spectrum = self.points.var(axis=0)
        if self.points.shape[1] > 1:
            covariance = np.cov(self.points, rowvar=False)
            spectrum = np.linalg.eigvalsh(covariance)
        total = max(float(spectrum.sum()), 1e-300)
        filled = total**2 / max(float(np.square(spectrum).sum()), 1e-300)
        copies = float((self.core <= 0).mean())
        return np.array([np.log(self.points.shape[1]), np.log(filled), spectrum.max() / total, copies])

    @cached_property
    def moments(self) -> np.ndarray:
        """Sufficient statistics T(x) of the directions, (m, p); see ``gaussian.niw``."""
        return full_terms(self.directions)


def adjacency_of_neighbours(indices: np.ndarray) -> csr_matrix:
    """Unweighted graph (m, m) with an edge between a row and each of its neighbours (m, j)."""
    m, j = indices.shape
    graph = csr_matrix((np.ones(m * j), (np.repeat(np.arange(m), j), indices.ravel())), shape=(m, m))
    graph = graph.maximum(graph.T).tocsr()
    graph.sort_indices()
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    return graph


def neighbour_graph(
    points: np.ndarray, more_points: np.ndarray | None = None, places: np.ndarray | None = None
) -> Graph:
    """Graph of points (m, f), m >= 2; communities may be those of more points (s, f) of the table.

    ``places`` (m,) tells where the points are among ``more_points``.
    """
    m = len(points)
    distances = np.empty((m, m), dtype=np.float32)
    _measure(np.ascontiguousarray(points.T), np.empty(m), distances)
    indices, near = nearest_in(distances, min(N_NEIGHBOURS, m - 1))
    core = near[:, min(CORE_NEIGHBOUR, near.shape[1]) - 1].copy()
    positive = core[core > 0]
    floor = max(MIN_DISTANCE * float(np.median(positive)) if len(positive) else 0.0, 1e-300)
    neighbours = np.full((m, N_NEIGHBOURS), -1)
    neighbours[:, : indices.shape[1]] = indices
    logs = np.zeros((m, N_NEIGHBOURS))
    logs[:, : near.shape[1]] = np.log(np.maximum(near, floor))
    plain, reachability = in_threads(lambda core: _spanning_tree(distances, core, floor), (np.zeros(m), core))
    return Graph(
        points,
        neighbours,
        logs,
        core,
        np.log(np.maximum(core, floor)),
        plain,
        reachability,
        more_points=more_points,
        places=places,
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


def _spanning_tree(distances: np.ndarray, core: np.ndarray, floor: float) -> Edges:
    """Minimum spanning tree of max(d_ij, core_i, core_j)."""
    m = len(core)
    ends, lengths = np.empty((m - 1, 2), dtype=np.int64), np.empty(m - 1)
    _prim(distances, core, np.full(m, np.inf), core.copy(), np.zeros(m, dtype=np.int64), ends, lengths)
    order = np.argsort(lengths, kind="stable")
    lengths = lengths[order]
    return Edges(ends[order], lengths, np.log(np.maximum(lengths, floor)))


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
