"""A table with its true clusters: how many rows, clusters and columns, and whether they can be told apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

__all__ = [
    "EASIER",
    "FEW",
    "MAX_TRIES",
    "NOISE",
    "LabelledTable",
    "by_cluster",
    "confused_groups",
    "confusion",
    "draw_n_clusters",
    "draw_n_features",
    "draw_n_rows",
    "draw_sizes",
    "draw_uneven_sizes",
    "link_counts",
    "log_uniform",
    "neighbour_purity",
    "told_apart",
]

NOISE = -1  # label of rows that belong to no cluster
# A table whose clusters cannot be told apart is drawn again, with clusters so much farther apart each time.
MAX_TRIES, EASIER = 5, 1.35


@dataclass(frozen=True)
class LabelledTable:
    """One table of a prior over tables, with its true clusters."""

    points: np.ndarray  # (n, d), finite
    labels: np.ndarray  # (n,) 0..k-1, all in use; NOISE marks rows that belong to no cluster
    kind: str  # name of the arrangement, for results by kind
    categories: tuple[int, ...] = ()  # columns whose numbers stand for words
    framed: bool = False  # whether it comes as a data frame, which is prepared before it is clustered

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""
        return int(self.labels.max()) + 1


_SINGLE_SHARE = 0.12
_MANY_SHARE = 0.25  # of all tables with enough rows; the rest have at most FEW clusters
FEW = 15
_ROWS_PER_CLUSTER = 8
_MIN_SIZE = 4  # no cluster is smaller


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_n_rows(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw n, log-uniform."""
    return round(log_uniform(rng, low, high))


def draw_n_clusters(rng: np.random.Generator, n_rows: int, max_k: int) -> int:
    """Draw k: often 1, mostly few, and with a heavy tail of many where the rows suffice."""
    max_k = max(1, min(max_k, n_rows // _ROWS_PER_CLUSTER))
    u = rng.random()
    if u < _SINGLE_SHARE or max_k == 1:
        return 1
    if u < _SINGLE_SHARE + _MANY_SHARE and max_k > FEW:
        return min(max_k, int(log_uniform(rng, FEW + 1, max_k + 1)))
    few = min(FEW, max_k)
    return 2 + (int(rng.geometric(0.22)) - 1) % (few - 1)


def draw_n_features(rng: np.random.Generator, max_d: int) -> int:
    """Draw d: seldom 1, often 2, as often 3 to 16, and more in a quarter of the tables."""
    u = rng.random()
    if u < 0.05 or max_d == 1:
        return 1
    if u < 0.40 or max_d == 2:
        return 2
    if u < 0.75 or max_d <= 16:
        return int(log_uniform(rng, 3, min(16, max_d) + 1))
    return int(log_uniform(rng, 17, max_d + 1))


def draw_sizes(rng: np.random.Generator, n_rows: int, k: int) -> np.ndarray:
    """Split the rows among k clusters, from balanced to a power law; shape (k,), each at least 3.

    ``n_rows`` must be at least 3 k.
    """
    law = rng.integers(6)
    if law == 0:
        shares = np.full(k, 1 / k)
        sizes = np.full(k, n_rows // k)
        sizes[: n_rows % k] += 1
        return sizes
    if law <= 4:
        shares = rng.dirichlet(np.full(k, (1000.0, 20.0, 3.0, 0.8)[law - 1]))
    else:
        shares = np.arange(1, k + 1) ** -rng.uniform(0.5, 1.6)
        shares = rng.permutation(shares / shares.sum())
    shares = 0.9 * shares + 0.1 / k
    floor = min(_MIN_SIZE, n_rows // k)
    return floor + rng.multinomial(n_rows - floor * k, shares / shares.sum())


def draw_uneven_sizes(rng: np.random.Generator, n_rows: int, k: int) -> np.ndarray:
    """Split the rows among k clusters by a uniform Dirichlet law: some are a handful in a thousand."""
    floor = min(_MIN_SIZE, n_rows // k)
    return floor + rng.multinomial(n_rows - floor * k, rng.dirichlet(np.ones(k)))


_N_NEIGHBOURS = 4
_TREE_UP_TO = 5  # a k-d tree is the faster search up to this many dimensions
_ROWS_COMPARED = 500  # in more dimensions, at least; 12 for each cluster
_MAX_CONFUSION = 0.6  # clusters that are mixed more than this look like one


def link_counts(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Count how many neighbours of the rows of each cluster belong to which cluster; shape (k, k)."""
    n, d = points.shape
    if d > _TREE_UP_TO:
        n_compared = max(_ROWS_COMPARED, 12 * k)
        if n > n_compared:
            rows = rng.permutation(n)[:n_compared]
            points, labels, n = points[rows], labels[rows], n_compared
        compared = (points - points.mean(axis=0)).astype(np.float32)
        squares = np.einsum("nd,nd->n", compared, compared)
        distances = squares[None] - 2 * (compared @ compared.T)
        np.fill_diagonal(distances, np.inf)
        neighbours = np.empty((n, _N_NEIGHBOURS), dtype=np.intp)
        every = np.arange(n)
        for column in range(_N_NEIGHBOURS):
            neighbours[:, column] = distances.argmin(axis=1)
            distances[every, neighbours[:, column]] = np.inf
    else:
        neighbours = cKDTree(points).query(points, k=_N_NEIGHBOURS + 1)[1][:, 1:]
    codes = labels[:, None] * k + labels[neighbours]
    return np.bincount(codes.ravel(), minlength=k * k).reshape(k, k)


def neighbour_purity(links: np.ndarray) -> float:
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


def confused_groups(links: np.ndarray) -> np.ndarray:
    """Give clusters that cannot be told apart the same number 0..m-1; shape (k,)."""
    confused = csr_array(confusion(links) > _MAX_CONFUSION)
    groups: np.ndarray = connected_components(confused, directed=False)[1]
    return groups


def told_apart(
    rng: np.random.Generator,
    points: np.ndarray,
    labels: np.ndarray,
    min_purity: float,
    min_share: float = 0.8,
) -> tuple[bool, np.ndarray]:
    """Whether neighbours tell the clusters apart, and labels (n,) in which those that they do not are one.

    ``min_share`` is how many of the k > 1 clusters must remain.
    """
    k = int(labels.max()) + 1
    links = link_counts(rng, points, labels, k)
    groups = confused_groups(links)
    enough = int(groups.max()) + 1 >= max(2, min_share * k)
    return enough and neighbour_purity(links) >= min_purity, groups[labels]


def by_cluster(points: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same rows, sorted by cluster."""
    order = np.argsort(labels, kind="stable")
    return points[order], labels[order]
