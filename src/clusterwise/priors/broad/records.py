"""Tables like records of many kinds: clusters differ in some columns only, and columns are of mixed types.

All clusters share the correlations between columns. A column may be a skewed measurement, a count or a
category, and many say little about the clusters.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.placement import scatter_matrices, spread_apart
from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["draw_records"]


def _as_types(rng: np.random.Generator, columns: np.ndarray) -> np.ndarray:
    """Turn some of the columns (n, d) into skewed ones, counts, and categories."""
    n_types = 4
    shares = rng.dirichlet([2.0, 0.7, 0.5, 0.5])
    types = rng.choice(n_types, columns.shape[1], p=shares)
    scaled = (columns - columns.mean(axis=0)) / (columns.std(axis=0) + 1e-12)
    out = columns.copy()
    skewed, counts, levels = (types == j for j in (1, 2, 3))
    out[:, skewed] = np.exp(rng.uniform(0.3, 0.8) * np.clip(scaled[:, skewed], -5, 5))
    out[:, counts] = np.floor(np.exp(0.5 * np.clip(scaled[:, counts], -5, 5) + rng.uniform(0.5, 2.5)))
    for j in np.flatnonzero(levels):
        cuts = np.sort(rng.normal(0, 0.8, int(rng.integers(1, 5))))
        out[:, j] = np.searchsorted(cuts, scaled[:, j])
    return out


def draw_records(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Draw records (n, d), sorted by cluster, with columns of variance 1 or constant."""
    k, n = len(sizes), int(sizes.sum())
    n_factors = int(rng.integers(0, 4))
    noise = rng.standard_normal((n, d))
    if n_factors:
        loadings = rng.normal(0, rng.uniform(0.3, 1.0), (n_factors, d))
        noise += rng.standard_normal((n, n_factors)) @ loadings
    widths = np.exp(rng.choice([0.0, 0.25]) * rng.standard_normal((k, d)).clip(-2, 2))
    noise *= np.repeat(widths, sizes, axis=0)
    weights = rng.standard_exponential(d) ** rng.choice([0.5, 1.0, 2.0])
    weights[rng.random(d) < rng.choice([0.0, 0.3, 0.6])] = 0.0
    weights[int(rng.integers(d))] += 1.0  # at least one column matters
    means = rng.standard_normal((k, d)) * weights
    means = spread_apart(means, scatter_matrices(noise, sizes), ease * log_uniform(rng, 2.4, 7.0))
    columns = noise + np.repeat(means, sizes, axis=0)
    typed = _as_types(rng, columns)
    spreads = typed.std(axis=0)
    return typed / np.where(spreads > 1e-9, spreads, 1.0)  # a category may have one level only
