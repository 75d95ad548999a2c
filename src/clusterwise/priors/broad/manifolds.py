"""Tables of many features, as networks and counts produce them.

Clusters lie on curved manifolds of few dimensions, overlap, and come in groups of similar ones or in a
hierarchy; a random map takes them to many features. Classes of images, texts and cells are one level of a
hierarchy: groups have parts, which have parts of their own. Which level the labels are of cannot be told from
the rows: a network that was trained on such tables is not sure of it either.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.labelled_table import EASIER, MAX_TRIES, by_cluster, log_uniform, told_apart

__all__ = ["draw_embedding", "draw_hierarchy"]

_ROWS_OF_PART = 8  # at least
_MAX_PARTS = 12
_MAX_SPREAD = 0.6  # of the separation of the clusters: parts of one are nearer than clusters


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
    n_parts = int(min(rng.geometric(0.3), n // _ROWS_OF_PART, _MAX_PARTS))
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
        spread = min(log_uniform(rng, 0.3, 1.2), _MAX_SPREAD * separation)
        latent = np.concatenate([_latent_parts(rng, int(size), q, spread) for size in sizes])
    else:
        latent = np.concatenate([_latent_cluster(rng, int(size), q) for size in sizes])
    latent += np.repeat(separation * _latent_means(rng, k, q), sizes, axis=0)
    features = to_features(rng, latent, d)
    features = features + rng.uniform(0.05, 0.6) * rng.standard_normal(features.shape)
    return as_recorded(rng, features)


_ROWS_OF_LEAF = 10  # at least, on average
_MAX_LEAVES = 80
_MAX_CLASSES = 40
_MIN_PURITY = 0.45


def _draw_levels(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Parents of the nodes of each level, the top one first: level 0 has one node; shapes (m_l,)."""
    max_nodes = max(2, min(_MAX_LEAVES, n // _ROWS_OF_LEAF))
    levels: list[np.ndarray] = []
    n_nodes = 1
    for _ in range(int(rng.integers(2, 5))):
        children = 1 + rng.geometric(rng.uniform(0.25, 0.6), n_nodes)
        if n_nodes == 1:
            children[0] = int(rng.integers(2, 13))
        if children.sum() > max_nodes and levels:
            break
        children = np.minimum(children, max_nodes)
        levels.append(np.repeat(np.arange(n_nodes), children))
        n_nodes = int(children.sum())
    return levels


def _draw_patch(rng: np.random.Generator, n: int, spectrum: np.ndarray, tails: float) -> np.ndarray:
    """Rows (n, q) on a patch of few dimensions, of directions with this spectrum (q,), bent or not."""
    q = len(spectrum)
    r = int(rng.integers(2, min(q, 10) + 1))
    inner = rng.standard_normal((n, r))
    basis = rng.standard_normal((r, q)) * spectrum / np.sqrt(r)
    patch = inner @ basis
    if rng.random() < 0.5:
        patch += np.sin(rng.uniform(1.0, 2.5) * inner[:, :1]) * (0.5 * spectrum * rng.standard_normal(q))
    return np.asarray(patch * np.exp(tails * rng.standard_normal((n, 1)).clip(-2.5, 2.5)))


def _hierarchy_once(rng: np.random.Generator, n: int, d: int, ease: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw features (n, d) and classes (n,) as they come."""
    q = min(d, int(rng.integers(6, 41)))
    spectrum = np.arange(1, q + 1) ** -rng.uniform(0.2, 1.2)
    spectrum /= np.sqrt(np.square(spectrum).mean())
    levels = _draw_levels(rng, n)
    scale = ease * log_uniform(rng, 0.8, 2.5)
    falling = rng.uniform(0.45, 0.95)  # of the offsets, from each level to the next
    tilt = rng.uniform(0.0, 1.0)  # 0: offsets in all directions, 1: in those in which patches extend
    centres = np.zeros((1, q))
    shares = np.ones(1)
    ancestors: list[np.ndarray] = []
    for depth, parents in enumerate(levels):
        m = len(parents)
        centres = centres[parents] + scale * falling**depth * spectrum**tilt * rng.standard_normal((m, q))
        weights = rng.gamma(log_uniform(rng, 0.8, 20.0), size=m)
        shares = shares[parents] * weights / np.bincount(parents, weights)[parents]
        ancestors = [above[parents] for above in ancestors] + [np.arange(m)]
    shares = 0.9 * shares + 0.1 / len(shares)
    sizes = rng.multinomial(n, shares / shares.sum())
    tails = float(rng.choice([0.0, 0.1, 0.3]))
    widths = np.exp(rng.choice([0.0, 0.25]) * rng.standard_normal(len(sizes)).clip(-2, 2))
    latent = np.concatenate(
        [
            width * _draw_patch(rng, int(size), spectrum, tails)
            for size, width in zip(sizes, widths.tolist(), strict=True)
        ]
    )
    latent += np.repeat(centres, sizes, axis=0) + rng.uniform(0.05, 0.4) * rng.standard_normal(latent.shape)
    features = to_features(rng, latent, d)
    features = as_recorded(rng, features + rng.uniform(0.05, 0.5) * rng.standard_normal(features.shape))
    able = [level for level in ancestors if level.max() < _MAX_CLASSES]
    classes = np.repeat(able[int(rng.integers(len(able)))], sizes)
    return features, np.unique(classes, return_inverse=True)[1].reshape(-1)


def draw_hierarchy(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features (n, d) and classes (n,), sorted, that neighbours can tell apart.

    Each new try is easier. Classes that cannot be told apart even then are one.
    """
    for attempt in range(MAX_TRIES):
        points, labels = _hierarchy_once(rng, n, d, EASIER**attempt)
        if labels.max() == 0:
            continue
        clear, merged = told_apart(rng, points, labels, _MIN_PURITY)
        if clear:
            break
    return by_cluster(points, merged if labels.max() > 0 else labels)
