"""How many rows, clusters and columns a table has, and how the rows are split among the clusters."""

from __future__ import annotations

import numpy as np

__all__ = [
    "draw_n_clusters",
    "draw_n_features",
    "draw_n_rows",
    "draw_sizes",
    "draw_uneven_sizes",
    "log_uniform",
]

_SINGLE_SHARE = 0.12
_MANY_SHARE = 0.25  # of all tables with enough rows; the rest have at most _FEW clusters
_FEW = 15
_ROWS_PER_CLUSTER = 8
_LEAST_SIZE = 4  # no cluster is smaller


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_n_rows(rng: np.random.Generator, least: int, most: int) -> int:
    """Draw n, log-uniform."""
    return round(log_uniform(rng, least, most))


def draw_n_clusters(rng: np.random.Generator, n_rows: int, most: int) -> int:
    """Draw k: often 1, mostly few, and with a heavy tail of many where the rows suffice."""
    most = max(1, min(most, n_rows // _ROWS_PER_CLUSTER))
    u = rng.random()
    if u < _SINGLE_SHARE or most == 1:
        return 1
    if u < _SINGLE_SHARE + _MANY_SHARE and most > _FEW:
        return min(most, int(log_uniform(rng, _FEW + 1, most + 1)))
    few = min(_FEW, most)
    return 2 + (int(rng.geometric(0.22)) - 1) % (few - 1)


def draw_n_features(rng: np.random.Generator, most: int) -> int:
    """Draw d: seldom 1, often 2, as often 3 to 16, and more in a quarter of the tables."""
    u = rng.random()
    if u < 0.05 or most == 1:
        return 1
    if u < 0.40 or most == 2:
        return 2
    if u < 0.75 or most <= 16:
        return int(log_uniform(rng, 3, min(16, most) + 1))
    return int(log_uniform(rng, 17, most + 1))


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
    least = min(_LEAST_SIZE, n_rows // k)
    return least + rng.multinomial(n_rows - least * k, shares / shares.sum())


def draw_uneven_sizes(rng: np.random.Generator, n_rows: int, k: int) -> np.ndarray:
    """Split the rows among k clusters by a uniform Dirichlet law: some are a handful in a thousand."""
    least = min(_LEAST_SIZE, n_rows // k)
    return least + rng.multinomial(n_rows - least * k, rng.dirichlet(np.ones(k)))
