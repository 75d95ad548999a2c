"""Numbers that tell a cluster from a part or a union of clusters, whatever k and the number of features.

A *range* is a set of rows that stand side by side in some order: the rows below a node of a tree, or a
cluster of a partition sorted by its labels. ``nodes_of`` measures the former and the two halves of each,
``features_of_clusters`` the latter and pairs of them. Distances enter as logs of ratios, points have
unit spread: units do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.clusterer.graph import Neighbourhood
from clusterwise.clusterer.loops import (
    ROWS_OF_RANGE,
    cumulated_moments,
    edges_of_segments,
    gaussians_of_ranges,
    gaussians_of_splits,
    neighbours_of_ranges,
    neighbours_of_splits,
)
from clusterwise.clusterer.tree import Tree
from clusterwise.gaussian.full import full_terms

__all__ = [
    "N_RANGE_FEATURES",
    "N_SPLIT_FEATURES",
    "Measured",
    "Nodes",
    "features_of_clusters",
    "measure",
    "nodes_of",
]

N_RANGE_FEATURES = 40
N_SPLIT_FEATURES = 28
# Place of the ratio of heights, which pairs of clusters do not have, among the features of a split.
HEIGHTS = 20
# Covariances are taken in at most this many leading directions.
MOST_DIRECTIONS = 8
# Ranges smaller than this, or than this share of all rows, are not judged; nor more than this many.
LEAST_SIZE, LEAST_SHARE, MOST_NODES = 4, 0.004, 256


@dataclass(frozen=True)
class Measured:
    """A neighbourhood in the form that the compiled functions take."""

    indices: np.ndarray  # (m, N_NEIGHBOURS)
    log_distances: np.ndarray  # (m, N_NEIGHBOURS)
    log_core: np.ndarray  # (m,)
    plain: tuple[np.ndarray, np.ndarray]  # ends (m - 1, 2), log lengths (m - 1,)
    reachability: tuple[np.ndarray, np.ndarray]
    directions: np.ndarray  # (m, q) leading directions of the points, the first of unit variance
    lifted: np.ndarray  # (m, p) T(x) of these; see ``components.niw``


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
    """Prepare a neighbourhood for ``nodes_of`` and ``features_of_clusters``."""
    centred = near.points - near.points.mean(axis=0)
    if centred.shape[1] > MOST_DIRECTIONS:
        _, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        centred = centred @ vectors[:, ::-1][:, :MOST_DIRECTIONS]
    spread = float(centred.std(axis=0).max())
    directions = np.ascontiguousarray(centred / (spread if spread > 0 else 1.0))
    return Measured(
        near.indices,
        near.log_distances,
        near.log_core,
        (near.plain.ends, near.plain.log_lengths),
        (near.reachability.ends, near.reachability.log_lengths),
        directions,
        full_terms(directions),
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
    middles = starts + tree.sizes[tree.children[nodes, 0]]
    segments = np.stack([starts, middles, middles, starts + tree.sizes[nodes]], axis=1)
    of_children = tree.heights[tree.children[nodes]].max(axis=1)
    ratios = np.log(np.maximum(tree.heights[nodes], 1e-12) / np.maximum(of_children, 1e-12))
    ordered = _Ordered(measured, tree.order)
    edges = ordered.edges(segments, parents)
    features = np.concatenate([ordered.ranges(segments, edges), ordered.splits(segments, edges)], axis=1)
    features[:, N_RANGE_FEATURES + HEIGHTS] = np.where(of_children > 0, ratios, 0.0)
    return Nodes(tree, nodes, np.clip(np.nan_to_num(features), -30, 30), parents, children)


def features_of_clusters(
    measured: Measured, order: np.ndarray, bounds: np.ndarray, pairs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Features of the K clusters of a partition and of pairs of them.

    Cluster c has the rows ``order[bounds[c]:bounds[c + 1]]``. Returns (K, N_RANGE_FEATURES), and for each of
    ``pairs`` (p, 2) what parting the union of two clusters is like, (p, N_SPLIT_FEATURES).
    """
    ordered = _Ordered(measured, order)
    starts, ends = bounds[:-1], bounds[1:]
    segments = np.stack([starts, ends, ends, ends], axis=1)
    ranges = ordered.ranges(segments, ordered.edges(segments))
    a, b = pairs.T
    segments = np.stack([starts[a], ends[a], starts[b], ends[b]], axis=1)
    splits = ordered.splits(segments, ordered.edges(segments))
    return ranges, np.clip(np.nan_to_num(splits), -30, 30)


class _Ordered:
    """All that was measured, for ranges of rows in one order; see ``loops``."""

    def __init__(self, measured: Measured, order: np.ndarray) -> None:
        self.measured, self.order = measured, order
        m, q = measured.directions.shape
        self.places = np.full(m + 1, -1, dtype=np.int32)  # a neighbour that is missing, -1, stands nowhere
        self.places[order] = np.arange(m)
        self.neighbours = self.places[measured.indices[order]]
        self.sums = np.empty((m + 1, q + q * (q + 1) // 2))
        cumulated_moments(measured.directions, order, self.sums)

    def edges(self, segments: np.ndarray, parents: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """What both spanning trees say of ranges (r, 4), (r, 12) each."""
        m, r = len(self.order), len(segments)
        if parents is None:
            parents = np.full(r, -1)
        listed, counts = np.empty((r, m - 1), dtype=np.int32), np.empty(r, dtype=np.int64)
        spare = np.empty((3, m))
        found = []
        for ends, lengths in (self.measured.plain, self.measured.reachability):
            out = np.empty((r, 12))
            edges_of_segments(self.places[ends], lengths, segments, parents, listed, counts, spare, out)
            found.append(out)
        return found[0], found[1]

    def ranges(self, segments: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Features (r, N_RANGE_FEATURES) of ranges (r, 4)."""
        q = self.measured.directions.shape[1]
        out = np.zeros((len(segments), N_RANGE_FEATURES))
        neighbours_of_ranges(*self._neighbours, segments, out)  # type: ignore[call-arg]
        out[:, 17:25], out[:, 25:33] = edges[0][:, :8], edges[1][:, :8]
        scatters, gaussian = np.zeros((len(segments), q, q)), np.zeros((len(segments), 7))
        spare, rows = np.empty((1 + 2 * q, q)), np.empty((q + 1, 2 * ROWS_OF_RANGE))
        gaussians_of_ranges(
            self.measured.directions, self.order, segments, self.sums, scatters, spare, rows, gaussian
        )
        values = np.linalg.eigvalsh(scatters)  # of the lower halves
        gaussian[:, 0] = np.log((values[:, -1] + 1e-9) / (np.maximum(values[:, 0], 0.0) + 1e-9))
        gaussian[:, 6] -= out[:, 8] + self.measured.log_core.mean()
        out[:, 33:] = gaussian
        return out

    def splits(self, segments: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Features (r, N_SPLIT_FEATURES) of the halves of ranges (r, 4)."""
        m, q = self.measured.directions.shape
        out = np.zeros((len(segments), N_SPLIT_FEATURES))
        neighbours_of_splits(*self._neighbours, segments, out)  # type: ignore[call-arg]
        out[:, 12:16], out[:, 16:20] = edges[0][:, 8:], edges[1][:, 8:]
        gaussian = np.zeros((len(segments), 7))
        spare, projected = np.empty((4 + 5 * q, q)), np.empty(m)
        gaussians_of_splits(
            self.measured.directions, self.order, segments, self.sums, spare, projected, gaussian
        )
        out[:, 21:] = gaussian
        return out

    @property
    def _neighbours(self) -> tuple[np.ndarray, ...]:
        measured = self.measured
        return self.neighbours, measured.log_distances, measured.log_core, self.order
