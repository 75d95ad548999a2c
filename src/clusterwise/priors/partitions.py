"""Distributions over partitions: binomial k with Dirichlet weights, and the Chinese restaurant process."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from clusterwise.exceptions import RecipeError

__all__ = [
    "binomial_k",
    "categorical_labels",
    "crp_labels",
    "crp_labels_exact_k",
    "dirichlet_weights",
    "log_stirling_first",
    "uniform_k",
]


def binomial_k(rng: np.random.Generator, n_sets: int, k_max: int) -> np.ndarray:
    """Draw k with k - 1 ~ Binomial(k_max - 1, 1/2); shape (n_sets,)."""
    return 1 + rng.binomial(k_max - 1, 0.5, n_sets)


def uniform_k(rng: np.random.Generator, n_sets: int, k_max: int) -> np.ndarray:
    """Draw k uniformly from 1 .. k_max; shape (n_sets,)."""
    return rng.integers(1, k_max + 1, n_sets)


def dirichlet_weights(rng: np.random.Generator, k: np.ndarray, concentration: float) -> np.ndarray:
    """Draw pi ~ Dir(concentration 1_k) for each set; shape (B, max k), zero beyond k."""
    gammas = rng.standard_gamma(concentration, (len(k), int(k.max())))
    gammas *= np.arange(gammas.shape[1]) < k[:, None]
    weights: np.ndarray = gammas / gammas.sum(axis=1, keepdims=True)
    return weights


def categorical_labels(rng: np.random.Generator, weights: np.ndarray, n_points: int) -> np.ndarray:
    """Draw y_i ~ Cat(pi) for each set, by inversion; ``weights`` is (B, K), the result (B, N)."""
    edges = np.cumsum(weights, axis=1)
    edges /= edges[:, -1:]  # exactly 1 from the last used component on, so no draw falls beyond it
    uniforms = rng.random((len(weights), n_points))
    labels: np.ndarray = (uniforms[:, :, None] >= edges[:, None, :-1]).sum(axis=2)
    return labels


def _seat(rng: np.random.Generator, opens: np.ndarray) -> np.ndarray:
    """Seat the customers of B restaurants, given which of them open a table; both (B, N).

    Who opens no table joins that of an earlier customer chosen uniformly, which is the same as
    choosing a table by its size. Following these links to the customer who opened the table takes
    O(log N) rounds when each round doubles the length of every link.
    """
    customer = np.arange(opens.shape[1])
    earlier = (rng.random(opens.shape) * customer).astype(np.intp)
    link = np.where(opens, customer, earlier)
    while True:
        further = np.take_along_axis(link, link, axis=1)
        if np.array_equal(further, link):
            break
        link = further
    tables = np.cumsum(opens, axis=1) - 1  # tables are numbered as they open: by first appearance
    return np.take_along_axis(tables, link, axis=1)


def crp_labels(rng: np.random.Generator, alpha: np.ndarray, n_points: int) -> np.ndarray:
    """Draw c ~ CRP(alpha_b) for each of B concentrations; ``alpha`` is (B,), the result (B, N).

    Labels are numbered by first appearance.
    """
    seated = np.arange(n_points)
    opens = rng.random((len(alpha), n_points)) * (alpha[:, None] + seated) < alpha[:, None]
    opens[:, :1] = True  # the first customer opens a table however small alpha is
    return _seat(rng, opens)


def log_stirling_first(n: int, k: int) -> np.ndarray:
    """Return log |s(i, j)|, unsigned Stirling numbers of the first kind, shape (n + 1, k + 1).

    |s(i, j)| is the sum of prod (n_l - 1)! over the partitions of i points into j clusters.
    """
    table = np.full((n + 1, k + 1), -np.inf)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        if i > 1:
            table[i] = np.log(i - 1) + table[i - 1]
        table[i, 1:] = np.logaddexp(table[i, 1:], table[i - 1, :-1])
    return table


@lru_cache(maxsize=32)
def _opening_probabilities(n: int, k: int) -> np.ndarray:
    """P(customer i opened a table | i customers sit at j tables), shape (n + 1, k + 1)."""
    log_counts = log_stirling_first(n, k)
    possible = np.isfinite(log_counts[1:, 1:])
    log_ratio = np.full((n, k), -np.inf)
    np.subtract(log_counts[:-1, :-1], log_counts[1:, 1:], out=log_ratio, where=possible)
    probabilities = np.zeros((n + 1, k + 1))
    probabilities[1:, 1:] = np.exp(log_ratio)
    probabilities.flags.writeable = False  # shared between calls
    return probabilities


def crp_labels_exact_k(rng: np.random.Generator, n_sets: int, k: int, n_points: int) -> np.ndarray:
    """Draw a CRP partition given that it has ``k`` clusters, exactly; shape (n_sets, n_points).

    Given K the law is proportional to prod (n_j - 1)! whatever alpha is. Going backwards, the last
    of n customers at k tables opened one with probability |s(n-1, k-1)| / |s(n, k)|; then the others
    are seated forwards. Labels are numbered by first appearance.
    """
    if not 1 <= k <= n_points:
        raise RecipeError(
            f"{n_points} points cannot form exactly {k} clusters: set k_exact from 1 to the number of points."
        )
    probabilities = _opening_probabilities(n_points, k)
    uniforms = rng.random((n_points, n_sets))
    opens = np.empty((n_points, n_sets), dtype=bool)
    tables = np.full(n_sets, k)
    for n in range(n_points, 0, -1):
        opens[n - 1] = uniforms[n - 1] < probabilities[n, tables]
        tables -= opens[n - 1]
    return _seat(rng, opens.T)
