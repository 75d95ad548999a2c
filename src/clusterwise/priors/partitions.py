"""Distributions over partitions: binomial k with Dirichlet weights."""

from __future__ import annotations

import numpy as np

__all__ = ["binomial_k", "categorical_labels", "dirichlet_weights"]


def binomial_k(rng: np.random.Generator, n_sets: int, k_max: int, k_exact: int | None) -> np.ndarray:
    """Draw k with k - 1 ~ Binomial(k_max - 1, 1/2), or ``k_exact`` every time; shape (n_sets,)."""
    if k_exact is not None:
        return np.full(n_sets, k_exact)
    return 1 + rng.binomial(k_max - 1, 0.5, n_sets)


def dirichlet_weights(rng: np.random.Generator, k: np.ndarray, concentration: float) -> np.ndarray:
    """Draw pi ~ Dir(concentration 1_k) for each set; shape (B, max k), zero beyond k."""
    gammas = rng.standard_gamma(concentration, (len(k), int(k.max())))
    gammas *= np.arange(gammas.shape[1]) < k[:, None]
    return gammas / gammas.sum(axis=1, keepdims=True)


def categorical_labels(rng: np.random.Generator, weights: np.ndarray, n_points: int) -> np.ndarray:
    """Draw y_i ~ Cat(pi) for each set, by inversion; ``weights`` is (B, K), the result (B, N)."""
    edges = np.cumsum(weights, axis=1)
    edges /= edges[:, -1:]  # exactly 1 from the last used component on, so no draw falls beyond it
    uniforms = rng.random((len(weights), n_points))
    return (uniforms[:, :, None] >= edges[:, None, :-1]).sum(axis=2)
