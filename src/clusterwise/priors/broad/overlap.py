"""Whether clusters can be told apart, judged by the neighbours of their rows."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

__all__ = ["clarity", "confusion", "hopeless_groups", "link_counts"]

_N_NEIGHBOURS = 4
_TREE_UP_TO = 5  # a k-d tree is the faster search up to this many dimensions
_ROWS_COMPARED = 500  # in more dimensions, at least; 12 for each cluster
_HOPELESS_CONFUSION = 0.6


def link_counts(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Count how many near neighbours of the rows of each cluster belong to which cluster; shape (k, k)."""
    n, d = points.shape
    if d > _TREE_UP_TO:
        most = max(_ROWS_COMPARED, 12 * k)
        if n > most:
            rows = rng.permutation(n)[:most]
            points, labels, n = points[rows], labels[rows], most
        compared = (points - points.mean(axis=0)).astype(np.float32)
        squares = np.einsum("nd,nd->n", compared, compared)
        distances = squares[None] - 2 * (compared @ compared.T)
        np.fill_diagonal(distances, np.inf)
        near = np.empty((n, _N_NEIGHBOURS), dtype=np.intp)
        every = np.arange(n)
        for column in range(_N_NEIGHBOURS):
            near[:, column] = distances.argmin(axis=1)
            distances[every, near[:, column]] = np.inf
    else:
        near = cKDTree(points).query(points, k=_N_NEIGHBOURS + 1)[1][:, 1:]
    codes = labels[:, None] * k + labels[near]
    return np.bincount(codes.ravel(), minlength=k * k).reshape(k, k)


def clarity(links: np.ndarray) -> float:
    """Share of the neighbours that belong to the same cluster, from 0 for labels at random to 1 for all."""
    total = max(links.sum(), 1)
    by_chance = float(np.square(links.sum(axis=1) / total).sum())
    return float((np.trace(links) / total - by_chance) / max(1.0 - by_chance, 1e-12))


def confusion(links: np.ndarray) -> np.ndarray:
    """How mixed each pair of clusters is, 0 for apart, 1 for labels at random; shape (k, k)."""
    own = np.diag(links).astype(float)
    across = (links + links.T).astype(float)
    rows = links.sum(axis=1).astype(float)
    both = own[:, None] + own[None] + across
    at_random = 2 * rows[:, None] * rows[None] / np.maximum((rows[:, None] + rows[None]) ** 2, 1.0)
    mixed: np.ndarray = across / np.maximum(both, 1.0) / np.maximum(at_random, 1e-12)
    np.fill_diagonal(mixed, 0.0)
    return mixed


def hopeless_groups(links: np.ndarray) -> np.ndarray:
    """Give clusters that cannot be told apart the same number 0..m-1; shape (k,)."""
    hopeless = csr_array(confusion(links) > _HOPELESS_CONFUSION)
    groups: np.ndarray = connected_components(hopeless, directed=False)[1]
    return groups
