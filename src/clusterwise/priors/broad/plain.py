"""Plain Gaussian mixtures of few features, whose clusters know nothing of each other.

Centres, covariances and sizes are drawn each on their own, so that one table has clusters far apart and
clusters that touch, and a handful of rows next to hundreds.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.geometry import rotate
from clusterwise.priors.broad.overlap import hopeless_groups, link_counts
from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["draw_plain"]

_FEATURES = (1, 2, 2, 2, 2, 3, 4, 6, 8)
_LEAST_SIZE = 3  # fewer rows say nothing of a cluster
_MOST_CLUSTERS = 20


def _draw_sizes(rng: np.random.Generator, n: int) -> np.ndarray:
    """Split n rows by a Chinese restaurant process, or by a Dirichlet law; sorted, largest first."""
    if rng.random() < 0.5:
        left = 1.0
        shares: list[float] = []
        concentration = log_uniform(rng, 0.3, 6.0)
        while len(shares) < _MOST_CLUSTERS and left * n >= _LEAST_SIZE:
            shares.append(left * rng.beta(1.0, concentration))
            left -= shares[-1]
        law = np.array([*shares, max(left, 0.0)])
    else:
        most = max(2, min(_MOST_CLUSTERS, n // 10))
        k = min(most, int(rng.geometric(0.2)))
        law = rng.dirichlet(np.full(k, log_uniform(rng, 0.3, 30.0)))
    sizes = np.sort(rng.multinomial(n, law / law.sum()))[::-1]
    kept = sizes[sizes >= _LEAST_SIZE][:_MOST_CLUSTERS]
    kept[0] += n - kept.sum()
    return np.asarray(kept)


def _draw_cluster(rng: np.random.Generator, size: int, d: int, law: int, scale: float) -> np.ndarray:
    """Rows (size, d) of one Gaussian around the origin: round, along the axes, or of any correlation."""
    rows = rng.standard_normal((size, d)) * scale
    if law >= 1:
        rows *= np.exp(0.4 * rng.standard_normal(d))
    if law == 2:
        rows = rotate(rng, rows * np.exp(0.4 * rng.standard_normal(d)))
    return rows


def draw_plain(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a mixture: points (n, d) and labels (n,), sorted. Clusters that cannot be told apart are one."""
    d = int(rng.choice(_FEATURES))
    sizes = _draw_sizes(rng, n)
    k = len(sizes)
    law = int(rng.integers(3))
    scales = np.exp(rng.choice([0.0, 0.2, 0.5]) * rng.standard_normal(k).clip(-2, 2))
    points = np.concatenate(
        [
            _draw_cluster(rng, int(size), d, law, scale)
            for size, scale in zip(sizes, scales.tolist(), strict=True)
        ]
    )
    unit = rng.standard_normal((k, d)) if rng.random() < 0.6 else rng.uniform(-1.7, 1.7, (k, d))
    points += np.repeat(log_uniform(rng, 2.0, 16.0) * unit, sizes, axis=0)
    labels = np.repeat(np.arange(k), sizes)
    if k > 1:
        labels = hopeless_groups(link_counts(rng, points, labels, k))[labels]
        order = np.argsort(labels, kind="stable")
        points, labels = points[order], labels[order]
    return points, labels
