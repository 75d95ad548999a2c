"""Nearest rows, and the points that distances are taken between."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial import cKDTree

from clusterwise._compiled import compiled
from clusterwise._threads import in_threads, n_threads
from clusterwise.affine import fit_scaling, scatter_axes

__all__ = [
    "CORE_NEIGHBOUR",
    "MANY_COLUMNS",
    "Projection",
    "fit_projection",
    "in_one_unit",
    "look_like_components",
    "nearest",
    "nearest_in",
    "standardized",
]

# The distance to this neighbour stands for the density at a row, as HDBSCAN's core distance does.
CORE_NEIGHBOUR = 5
# From this many columns on, with spreads no more unequal than this, they count as measured in one unit:
# pixels, counts, coordinates of an embedding. Small ones are then small for a reason.
MANY_COLUMNS = 16
MAX_RATIO_OF_SPREADS = 10.0
# Rows that spreads are compared by.
MAX_ROWS_OF_SPREADS = 10_000
# Components: how few and how many are looked at, from how many on a sample of their rows is enough, how far
# from zero correlations of all rows may be; in a sample, times the root of its size: how much larger the next
# spread, the median of the correlations and the largest of them may be.
MIN_COMPONENTS, MANY_COMPONENTS, MAX_COMPONENTS_LOOKED_AT, ROUNDING = 3, 8, 500, 1e-4
MAX_BY_CHANCE = (10.0, 1.0, 8.0)
# Distances are taken between at most this many leading principal components.
MAX_COMPONENTS = 50
# Up to this many features a k-d tree finds neighbours faster than comparing all rows.
MAX_FEATURES_OF_KD_TREE = 6
# Entries of a block of distances between rows.
BLOCK = 1_000_000


def nearest(points: np.ndarray, among: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and distances (n, n_neighbours) of the rows of ``among`` (m, f) nearest to points (n, f)."""
    if points.shape[1] <= MAX_FEATURES_OF_KD_TREE:
        distances, indices = cKDTree(among).query(points, k=n_neighbours, workers=n_threads())
        return indices.reshape(len(points), -1), distances.reshape(len(points), -1)
    indices = np.empty((len(points), n_neighbours), dtype=np.int64)
    squares = np.empty((len(points), n_neighbours))
    norms = np.square(among).sum(axis=1)
    step = max(1, BLOCK // len(among))

    def compare(start: int) -> None:
        some, part = points[start : start + step], slice(start, start + step)
        block = some @ among.T
        block *= -2.0
        block += norms
        indices[part], squares[part] = nearest_in(block, n_neighbours)
        squares[part] += np.square(some).sum(axis=1, keepdims=True)

    in_threads(compare, range(0, len(points), step))
    return indices, np.sqrt(np.maximum(squares, 0))


def nearest_in(distances: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n, n_neighbours) with the smallest entries of a matrix (n, m), and these; first of equals."""
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


def in_one_unit(points: np.ndarray) -> bool:
    """Whether the columns of points (n, d) seem to have one unit."""
    if look_like_components(points):
        return True
    if points.shape[1] < MANY_COLUMNS:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = points[:: -(-len(points) // MAX_ROWS_OF_SPREADS)].std(axis=0)
    spreads = spreads[spreads > 0]
    if len(spreads) == 0 or not np.isfinite(spreads).all():
        return False
    low, high = np.quantile(spreads, [0.25, 0.75])  # some pixels hardly vary
    return bool(high <= MAX_RATIO_OF_SPREADS * low)


def look_like_components(points: np.ndarray) -> bool:
    """Whether the columns of points (n, d) seem to be principal components: ever smaller, uncorrelated.

    Those of the rows themselves have no correlation at all, those of more rows, of which these are some, a
    little. Few columns that are not may look like that by chance.
    """
    n, d = points.shape
    if not MIN_COMPONENTS <= d <= MAX_COMPONENTS_LOOKED_AT or n <= d:
        return False
    if d >= MANY_COMPONENTS:
        points = points[:: -(-n // MAX_ROWS_OF_SPREADS)]
        n = len(points)
    with np.errstate(over="ignore", invalid="ignore"):
        centred = points - points.mean(axis=0)
        spreads = centred.std(axis=0)
    if n <= d or not (np.isfinite(spreads).all() and spreads.min() > 0):
        return False
    scaled = centred / spreads
    correlations = np.abs(scaled.T @ scaled / n - np.eye(d))
    growth = (spreads[1:] / spreads[:-1]).max()
    if growth <= 1 and correlations.max() <= ROUNDING:
        return True
    by_chance = np.array([growth - 1, np.median(correlations), correlations.max()]) * np.sqrt(n)
    return d >= MANY_COMPONENTS and bool((by_chance <= MAX_BY_CHANCE).all())


def standardized(points: np.ndarray) -> np.ndarray:
    """Points (n, d), each column with unit spread, or all together if they have one unit."""
    return fit_scaling(points, per_feature=not in_one_unit(points)).apply(points)


@dataclass(frozen=True)
class Projection:
    """From features (n, f) to the points that distances are taken between."""

    centre: np.ndarray = field(default_factory=lambda: np.zeros(1))  # (f,)
    axes: np.ndarray | None = None  # (f, q) leading directions; None: features are few enough

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Points (n, at most MAX_COMPONENTS), each row on its own."""
        if self.axes is None:
            return features
        return (features - self.centre) @ self.axes


def fit_projection(features: np.ndarray) -> Projection:
    """Leading principal components of features (n, f); the features themselves if they are few."""
    centre = features.mean(axis=0)
    if features.shape[1] <= MAX_COMPONENTS:
        return Projection(centre, None)
    axes = scatter_axes(features - centre)[1][:, ::-1][:, :MAX_COMPONENTS]
    return Projection(centre, np.ascontiguousarray(axes))
