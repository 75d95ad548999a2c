"""Splits and merges of Gaussian clusters: which pairs are near, what a merger gains, how two parts of one
cluster find each other. One engine for the search, the samplers of ``dp`` and DeepDPM, which differ in what
they accept.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from clusterwise.gaussian.niw import NormalInverseWishart

__all__ = ["NEIGHBOURS", "log_split_odds", "logistic", "nearest_pairs", "pairs_of", "two_parts"]

# Each cluster may merge with this many neighbours.
NEIGHBOURS = 3


def logistic(log_odds: np.ndarray) -> np.ndarray:
    """Probabilities of log odds, which are overwritten; several times quicker than scipy's ``expit``."""
    np.maximum(log_odds, -700.0, out=log_odds)  # the exponential of the negative must stay finite
    np.negative(log_odds, out=log_odds)
    np.exp(log_odds, out=log_odds)
    log_odds += 1.0
    return np.reciprocal(log_odds, out=log_odds)


def log_split_odds(parts: np.ndarray, alpha: float, prior: NormalInverseWishart) -> np.ndarray:
    """Log of alpha Gamma(n_1) f(X_1) Gamma(n_2) f(X_2) / (Gamma(n) f(X)) for statistics (..., 2, p)."""
    both = np.concatenate([parts, parts.sum(axis=-2, keepdims=True)], axis=-2)
    log_marginal = prior.log_marginal(both.reshape(-1, both.shape[-1])).reshape(both.shape[:-1])
    log_weight = log_marginal + gammaln(np.maximum(both[..., 0], 1e-300))
    odds: np.ndarray = np.log(alpha) + log_weight[..., 0] + log_weight[..., 1] - log_weight[..., 2]
    return odds


def nearest_pairs(means: np.ndarray, n_neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Pairs (P, 2) of clusters of which one is among the other's nearest, the closest pair first."""
    squares = np.square(means).sum(axis=1)
    distances = squares[:, None] + squares - 2 * means @ means.T
    np.fill_diagonal(distances, np.inf)
    return pairs_of(distances, n_neighbours)


def pairs_of(distances: np.ndarray, n_neighbours: int) -> np.ndarray:
    """Pairs (P, 2) by distances (K, K) with infinity on the diagonal, as in ``nearest_pairs``."""
    k = len(distances)
    if k > n_neighbours:  # in any order
        nearest = np.argpartition(distances, n_neighbours - 1, axis=1)[:, :n_neighbours]
    else:
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : k - 1]
    own = np.arange(k)[:, None]
    first, second = np.divmod(np.unique(np.minimum(own, nearest) * k + np.maximum(own, nearest)), k)
    order = np.argsort(distances[first, second], kind="stable")
    return np.stack([first[order], second[order]], axis=1)


def two_parts(
    lifted: np.ndarray, weights: np.ndarray, sides: np.ndarray, prior: NormalInverseWishart, n_steps: int
) -> np.ndarray:
    """Log odds of the second of two Gaussians, as natural parameters (m, p), by EM from m starts at once.

    ``lifted`` (n, p) has T(x) of the points of one cluster, ``weights`` (n,) what each counts for, ``sides``
    (m, n) who is in the second part at first. The prior may differ between starts: first parts come first.
    """
    weighted = lifted * weights[:, None]
    total, m = weighted.sum(axis=0), len(sides)
    share = sides.astype(np.float64)
    odds = np.zeros((m, len(total)))
    for step in range(n_steps):
        upper = (share if step == 0 else logistic(odds @ lifted.T)) @ weighted
        parts = np.concatenate([total - upper, upper])
        eta = prior.expected(parts)
        eta[:, 0] += np.log(np.maximum(parts[:, 0], 0.5))
        odds = eta[m:] - eta[:m]
    return odds
