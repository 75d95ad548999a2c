"""Tables of many features, as networks and counts produce them.

Clusters lie on curved manifolds of few dimensions, overlap, and come in groups of similar ones; in some
tables each has parts of its own, as a subject has topics. A random map takes them to many features.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["as_recorded", "draw_embedding", "to_features"]

_ROWS_OF_PART = 8  # at least
_MOST_PARTS = 12
_WIDEST_PARTS = 0.6  # of the separation of the clusters: parts of one are nearer than clusters


def _latent_means(rng: np.random.Generator, k: int, q: int) -> np.ndarray:
    """Means (k, q), often in groups, which may be in groups themselves."""
    means = rng.standard_normal((k, q))
    n_groups = k
    while n_groups > 3 and rng.random() < 0.4:
        n_groups = max(2, n_groups // int(rng.integers(2, 6)))
        means = means + 1.5 * rng.standard_normal((n_groups, q))[rng.integers(0, n_groups, k)]
    return means


def _latent_cluster(rng: np.random.Generator, n: int, q: int) -> np.ndarray:
    """One cluster (n, q) on a manifold of up to 8 dimensions, flat or curved."""
    r = int(rng.integers(1, min(q, 8) + 1))
    basis = rng.standard_normal((r, q)) * (np.exp(rng.uniform(-0.7, 0.4)) / np.sqrt(r))
    law = rng.random()
    if law < 0.2:
        inner = np.clip(rng.standard_t(4, (n, r)), -12, 12)
    elif law < 0.35:
        inner = rng.uniform(-1.7, 1.7, (n, r))
    else:
        inner = rng.standard_normal((n, r))
    points = inner @ basis
    if rng.random() < 0.35:
        bend = inner[:, :1] ** 2 - 1 if rng.random() < 0.6 else np.sin(2 * inner[:, :1])
        points += np.clip(bend, -8, 8) * (0.4 * rng.standard_normal(q))
    points += rng.uniform(0.1, 0.5) * rng.standard_normal((n, q))
    return points


def _latent_parts(rng: np.random.Generator, n: int, q: int, spread: float) -> np.ndarray:
    """One cluster (n, q) of several parts around it, or along a path, each on a manifold of its own."""
    n_parts = int(min(rng.geometric(0.3), n // _ROWS_OF_PART, _MOST_PARTS))
    if n_parts < 2:
        return _latent_cluster(rng, n, q)
    centres = spread * rng.standard_normal((n_parts, q))
    if rng.random() < 0.3:
        centres = np.cumsum(centres, axis=0)
        centres *= spread / max(float(centres.std()), 1e-12)
    shares = 0.8 * rng.dirichlet(np.full(n_parts, 2.0)) + 0.2 / n_parts
    sizes = rng.multinomial(n, shares)
    drawn = np.concatenate([_latent_cluster(rng, int(size), q) for size in sizes])
    parts: np.ndarray = drawn + np.repeat(centres, sizes, axis=0)
    return parts


def to_features(rng: np.random.Generator, latent: np.ndarray, d: int) -> np.ndarray:
    """Map (n, q) to d features of variance 1, by a linear map or through one or two layers of tanh."""
    q = latent.shape[1]
    out = latent @ (rng.standard_normal((q, d)) / np.sqrt(q))
    law = rng.random()
    if law < 0.6:
        out = np.tanh(out * rng.uniform(0.3, 1.2))
        if law < 0.4:
            out = out @ (rng.standard_normal((d, d)) / np.sqrt(d))
        if law < 0.1:
            out = np.tanh(out)
    return out / (out.std() + 1e-12)


def as_recorded(rng: np.random.Generator, features: np.ndarray) -> np.ndarray:
    """Give the features the form of real ones: unit-length rows, counts, rounded, cut off at zero."""
    law = rng.random()
    if law < 0.25:
        return features / (np.linalg.norm(features, axis=1, keepdims=True) + 1e-12)
    if law < 0.45:
        rates = np.exp(np.clip(0.8 * features, -4, 4)) * log_uniform(rng, 0.4, 5.0)
        return np.log1p(rng.poisson(rates).astype(float))
    if law < 0.58:
        return np.round(features * rng.choice([2.0, 4.0]))
    if law < 0.70:
        return np.maximum(features, 0.0)
    if law < 0.76:
        return 1.0 / (1.0 + np.exp(-np.clip(rng.uniform(0.7, 1.7) * features, -30, 30)))
    return features


def draw_embedding(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Clusters on curved manifolds, seen through a random map; shape (n, d), sorted by cluster."""
    k = len(sizes)
    q = min(d, int(rng.integers(4, 21)))
    separation = ease * log_uniform(rng, 0.7, 3.0)
    if rng.random() < 0.5:
        spread = min(log_uniform(rng, 0.3, 1.2), _WIDEST_PARTS * separation)
        latent = np.concatenate([_latent_parts(rng, int(size), q, spread) for size in sizes])
    else:
        latent = np.concatenate([_latent_cluster(rng, int(size), q) for size in sizes])
    latent += np.repeat(separation * _latent_means(rng, k, q), sizes, axis=0)
    features = to_features(rng, latent, d)
    features = features + rng.uniform(0.05, 0.6) * rng.standard_normal(features.shape)
    return as_recorded(rng, features)
