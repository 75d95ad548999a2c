"""Groups among rows that lie far from all clusters: small clusters that an even choice of rows has missed."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from clusterwise.neighbours import CORE_NEIGHBOUR, fit_projection, nearest

__all__ = ["find_groups"]

# Rows that are among each other's nearest neighbours, this many, are connected.
N_NEIGHBOURS = 10
# Fewer rows are no group, whatever room there is around them.
MIN_GROUP = 10
# A group lies apart: from all but so few of its rows the way to others is this many times that within it.
APART = 2.0
FEW_CLOSE = 2


def find_groups(features: np.ndarray, far: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
    """Groups among outlying rows, as positions in ``features``, the largest first.

    ``features`` (m, f) are those of rows to look at, ``far`` (m,) bool tells which of them are out of place,
    and ``known`` (s, f) has some rows of all kinds, or none. A group is a connected part of the graph of
    mutual nearest neighbours of which most rows are far, with a gap around it. The tail of a cluster goes on
    to it without a gap, and single rows have no neighbours.
    """
    if np.count_nonzero(far) < MIN_GROUP or len(features) <= N_NEIGHBOURS:
        return []
    projection = fit_projection(known if len(known) > 0 else features)
    points, known = projection.apply(features), projection.apply(known)
    indices, distances = nearest(points, points, N_NEIGHBOURS + 1)
    core = distances[:, CORE_NEIGHBOUR]
    parts = _with_surroundings(points, _parts_of_mutual_graph(indices), core)
    to_known = nearest(points, known, 1)[1][:, 0] if len(known) > 0 else np.full(len(points), np.inf)
    groups = []
    for part in range(parts.max() + 1):
        inside = parts == part
        members = np.flatnonzero(inside)
        alone = inside.all() and len(known) == 0  # there is nothing that it could lie apart from
        if alone or far[members].mean() <= 0.5:
            continue
        room = to_known[members]
        if not inside.all():
            room = np.minimum(room, nearest(points[members], points[~inside], 1)[1][:, 0])
        if np.partition(room, FEW_CLOSE)[FEW_CLOSE] > APART * np.median(core[members]):
            groups.append(members)
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _with_surroundings(points: np.ndarray, parts: np.ndarray, core: np.ndarray) -> np.ndarray:
    """Number the large parts, and let rows near one of them join it, (m,); -1 for single rows.

    At the edge of a group in many dimensions most rows are no row's nearest neighbour.
    """
    large = np.flatnonzero(np.bincount(parts) >= MIN_GROUP)
    result = np.full(len(parts), -1)
    for number, part in enumerate(large):
        result[parts == part] = number
    inside, outside = np.flatnonzero(result >= 0), np.flatnonzero(result < 0)
    if len(inside) > 0 and len(outside) > 0:
        found, distances = nearest(points[outside], points[inside], 1)
        host = result[inside[found[:, 0]]]
        typical = np.array([np.median(core[result == number]) for number in range(len(large))])
        joins = distances[:, 0] <= APART * typical[host]
        result[outside[joins]] = host[joins]
    return result


def _parts_of_mutual_graph(indices: np.ndarray) -> np.ndarray:
    """Connected parts (m,) of rows of which each is among the other's neighbours (m, j)."""
    m, j = indices.shape
    graph = csr_array((np.ones(m * j), indices.ravel(), np.arange(0, m * j + 1, j)), shape=(m, m))
    mutual = graph.multiply(graph.T)
    return np.asarray(connected_components(mutual, directed=False)[1])
