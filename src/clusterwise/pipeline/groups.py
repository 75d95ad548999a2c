"""Groups among rows that lie far from all clusters: small clusters that an even choice of rows has missed."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from clusterwise.trees.neighbourhood import CORE_NEIGHBOUR, nearest
from clusterwise.trees.points import fit_projection

__all__ = ["find_groups"]

# Fewer rows are no group, whatever room there is around them.
LEAST_GROUP = 10
# A group lies apart: around most of its rows the room to all others is this many times that within it.
APART = 1.5
MOST_ROWS_NEAR = 0.25


def find_groups(features: np.ndarray, far: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
    """Groups among outlying rows, as positions in ``features``, the largest first.

    ``features`` (m, f) are those of rows that are not ordinary, ``far`` (m,) bool tells which are out of place
    altogether, and ``known`` (s, f) has some rows of all kinds. A group is a connected part of the graph of
    mutual nearest neighbours of which most rows are far, with a gap around it. The tail of a cluster goes on
    to it without a gap, and single rows have no neighbours.
    """
    if np.count_nonzero(far) < LEAST_GROUP or len(features) <= CORE_NEIGHBOUR:
        return []
    projection = fit_projection(known)
    points, known = projection.apply(features), projection.apply(known)
    indices, distances = nearest(points, points, CORE_NEIGHBOUR + 1)
    parts = _parts_of_mutual_graph(indices)
    to_known = nearest(points, known, 1)[1][:, 0]
    groups = []
    for part in np.flatnonzero(np.bincount(parts) >= LEAST_GROUP):
        inside = parts == part
        members = np.flatnonzero(inside)
        if far[members].mean() <= 0.5:
            continue
        room = to_known[members]
        if not inside.all():
            room = np.minimum(room, nearest(points[members], points[~inside], 1)[1][:, 0])
        if np.quantile(room, MOST_ROWS_NEAR) > APART * np.median(distances[members, -1]):
            groups.append(members)
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _parts_of_mutual_graph(indices: np.ndarray) -> np.ndarray:
    """Connected parts (m,) of rows of which each is among the other's neighbours (m, j)."""
    m, j = indices.shape
    graph = csr_array((np.ones(m * j), indices.ravel(), np.arange(0, m * j + 1, j)), shape=(m, m))
    mutual = graph.multiply(graph.T)
    return np.asarray(connected_components(mutual, directed=False)[1])
