"""Tables of unlike parts: a pair of rings here, three blobs there, stripes next to them."""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.arrangements import ARRANGEMENTS, draw_arrangement
from clusterwise.priors.broad.mixtures import draw_mixture
from clusterwise.priors.broad.placement import best_candidates
from clusterwise.priors.broad.sizes import draw_sizes, log_uniform

__all__ = ["draw_composite"]

_ROWS_FOR_ARRANGEMENT = 40  # for each cluster, or its form could not be seen


def _draw_part(rng: np.random.Generator, n: int, k: int, ease: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw k clusters in the plane: an arrangement where the rows suffice, or a mixture."""
    if k > 1 and n >= _ROWS_FOR_ARRANGEMENT * k and rng.random() < 0.7:
        name = draw_arrangement(rng, k, 2)
        if name is not None:
            return ARRANGEMENTS[name].draw(rng, n, k)
    sizes = draw_sizes(rng, n, k)
    return draw_mixture(rng, sizes, 2, ease), np.repeat(np.arange(k), sizes)


def draw_composite(
    rng: np.random.Generator, n: int, k: int, ease: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw k >= 2 clusters in several parts, each with its own form; points (n, 2) and labels (n,)."""
    n_parts = min(k, int(rng.integers(2, 5)))
    clusters = 1 + rng.multinomial(k - n_parts, np.full(n_parts, 1 / n_parts))
    rows = 4 * clusters + rng.multinomial(n - 4 * k, clusters / k)
    parts = [_draw_part(rng, int(m), int(j), ease) for m, j in zip(rows, clusters, strict=True)]
    radii = np.sqrt(clusters) * np.exp(0.3 * rng.standard_normal(n_parts))
    places = best_candidates(rng.uniform(-1, 1, (n_parts, 12, 2)), np.zeros(n_parts))
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) / (radii[:, None] + radii[None])
    np.fill_diagonal(gaps, np.inf)
    places *= log_uniform(rng, 1.0, 1.8) * ease / gaps.min()
    points, labels = [], []
    first = np.cumsum(clusters) - clusters
    for j, (own, own_labels) in enumerate(parts):
        own = own - np.median(own, axis=0)
        reach = np.quantile(np.linalg.norm(own, axis=1), 0.97) + 1e-12
        points.append(own * (radii[j] / reach) + places[j])
        labels.append(own_labels + first[j])
    return np.concatenate(points), np.concatenate(labels)
