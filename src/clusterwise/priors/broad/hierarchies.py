"""Wide tables whose classes are one level of a hierarchy, as classes of images, texts and cells are.

Groups have parts, which have parts of their own; the parts at the bottom are patches of few dimensions with
spectra that fall off like a power. Which level the labels speak of is anybody's guess, so that a judge that
has seen such tables does not claim to know it.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.embeddings import as_recorded, to_features
from clusterwise.priors.broad.overlap import clarity, hopeless_groups, link_counts
from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["draw_hierarchy"]

_ROWS_OF_LEAF = 10  # at least, on average
_MOST_LEAVES = 80
_MOST_CLASSES = 40
_TRIES = 5
_EASIER = 1.35
_LEAST_CLARITY = 0.45


def _draw_levels(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Parents of the nodes of each level, the top one first: level 0 has one node; shapes (m_l,)."""
    most = max(2, min(_MOST_LEAVES, n // _ROWS_OF_LEAF))
    levels: list[np.ndarray] = []
    n_nodes = 1
    for _ in range(int(rng.integers(2, 5))):
        children = 1 + rng.geometric(rng.uniform(0.25, 0.6), n_nodes)
        if n_nodes == 1:
            children[0] = int(rng.integers(2, 13))
        if children.sum() > most and levels:
            break
        children = np.minimum(children, most)
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


def _draw_once(rng: np.random.Generator, n: int, d: int, ease: float) -> tuple[np.ndarray, np.ndarray]:
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
    able = [level for level in ancestors if level.max() < _MOST_CLASSES]
    classes = np.repeat(able[int(rng.integers(len(able)))], sizes)
    return features, np.unique(classes, return_inverse=True)[1].reshape(-1)


def draw_hierarchy(rng: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw features (n, d) and classes (n,), sorted, that neighbours can tell apart.

    Each new try is easier. Classes that cannot be told apart even then are one.
    """
    for attempt in range(_TRIES):
        points, labels = _draw_once(rng, n, d, _EASIER**attempt)
        k = int(labels.max()) + 1
        if k == 1:
            continue
        links = link_counts(rng, points, labels, k)
        groups = hopeless_groups(links)
        if clarity(links) >= _LEAST_CLARITY and groups.max() + 1 >= max(2, 0.8 * k):
            break
    if k > 1:
        labels = groups[labels]
    order = np.argsort(labels, kind="stable")
    return points[order], labels[order]
