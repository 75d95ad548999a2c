"""Tables whose clusters are shapes around centres: one family or many, one scale or many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clusterwise.priors.broad.geometry import rotate
from clusterwise.priors.broad.placement import (
    draw_centres,
    draw_separation,
    grid,
    scatter_matrices,
    spread_apart,
)
from clusterwise.priors.broad.shapes import BLOBS, Style, draw_family, draw_shape, draw_style
from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["draw_densities", "draw_gaussians", "draw_grid", "draw_mixture", "draw_single"]


def _draw_clusters(
    rng: np.random.Generator, sizes: np.ndarray, d: int, families: Sequence[str], styles: Sequence[Style]
) -> np.ndarray:
    """Draw each cluster around the origin, one after the other; shape (n, d)."""
    drawn = [
        draw_shape(rng, family, int(size), d, style)
        for size, family, style in zip(sizes, families, styles, strict=True)
    ]
    return np.concatenate(drawn)


def _draw_scales(rng: np.random.Generator, k: int) -> np.ndarray:
    """Scales of the clusters of one table: all the same, similar, or very different; shape (k,)."""
    spread = (0.0, 0.0, 0.3, 0.8)[rng.integers(4)]
    return np.exp(spread * rng.standard_normal(k).clip(-2, 2))


def _place(points: np.ndarray, sizes: np.ndarray, centres: np.ndarray, separation: float) -> np.ndarray:
    """Move each cluster to its centre."""
    if len(sizes) == 1:
        return points
    centres = spread_apart(centres, scatter_matrices(points, sizes), separation)
    return points + np.repeat(centres, sizes, axis=0)


def _bridge(rng: np.random.Generator, points: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Join pairs of near clusters by thin bridges of their own rows, each up to the middle."""
    k = len(sizes)
    first = np.cumsum(sizes) - sizes
    means = np.add.reduceat(points, first, axis=0) / sizes[:, None]
    gaps = np.linalg.norm(means[:, None] - means[None], axis=2)
    np.fill_diagonal(gaps, np.inf)
    points = points.copy()
    share, width = rng.uniform(0.03, 0.12), rng.uniform(0.01, 0.04)
    for i in rng.permutation(k)[: max(1, k // 4)]:
        j = int(gaps[i].argmin())
        for start, end in ((i, j), (j, i)):
            m = int(share * sizes[start])
            place = rng.uniform(0, 0.5, (m, 1))
            between = means[start] + place * (means[end] - means[start])
            spread = width * gaps[i, j] * rng.standard_normal(between.shape)
            points[first[start] : first[start] + m] = between + spread
    return points


def draw_mixture(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Clusters of one family or of several, anywhere; shape (n, d), sorted by cluster."""
    k = len(sizes)
    style = draw_style(rng)
    if rng.random() < 0.6:
        families, styles = [draw_family(rng, d)] * k, [style] * k
        if rng.random() < 0.5:
            styles = [draw_style(rng) for _ in range(k)]
    else:
        families, styles = [draw_family(rng, d) for _ in range(k)], [draw_style(rng) for _ in range(k)]
    points = _draw_clusters(rng, sizes, d, families, styles)
    scales = _draw_scales(rng, k)
    points *= np.repeat(scales, sizes)[:, None]
    centres = draw_centres(rng, scales, d)
    points = _place(points, sizes, centres, ease * draw_separation(rng))
    return _bridge(rng, points, sizes) if k > 1 and rng.random() < 0.08 else points


def draw_gaussians(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Gaussian clusters side by side, which overlap a little or much; shape (n, d)."""
    k = len(sizes)
    style = replace(draw_style(rng), elongation=(0.0, 0.3, 0.8, 1.5)[rng.integers(4)])
    points = _draw_clusters(rng, sizes, d, ["gaussian"] * k, [style] * k)
    scales = np.exp(rng.choice([0.0, 0.15, 0.3]) * rng.standard_normal(k).clip(-2, 2))
    points *= np.repeat(scales, sizes)[:, None]
    centres = draw_centres(rng, scales, d, side_by_side=True)
    return _place(points, sizes, centres, ease * log_uniform(rng, 2.4, 4.5))


def draw_grid(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Clusters of one family on a grid; shape (n, d)."""
    k = len(sizes)
    family = list(BLOBS)[rng.integers(len(BLOBS))] if rng.random() < 0.6 else "gaussian"
    style = replace(draw_style(rng), elongation=(0.0, 0.0, 0.5, 1.2)[rng.integers(4)])
    points = _draw_clusters(rng, sizes, d, [family] * k, [style] * k)
    return _place(points, sizes, grid(rng, k, d), ease * log_uniform(rng, 2.8, 9.0))


def draw_densities(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Round clusters of very different widths near or inside each other; shape (n, d).

    Each cluster after the first lies near an earlier, wider one: next to it, or as a dense core within it.
    """
    k = len(sizes)
    widths = np.sort(np.exp(rng.uniform(-rng.uniform(1.2, 3.0), 0.0, k)))[::-1]
    families = ["gaussian" if rng.random() < 0.7 else "ball"] * k
    style = replace(draw_style(rng), elongation=(0.0, 0.4)[rng.integers(2)])
    points = _draw_clusters(rng, sizes, d, families, [style] * k) * np.repeat(widths, sizes)[:, None]
    gap = ease * log_uniform(rng, 1.0, 2.0)
    centres = np.zeros((k, d))
    for j in range(1, k):
        hosts = rng.integers(0, j, 8)
        toward = rng.standard_normal((8, d))
        toward /= np.linalg.norm(toward, axis=1, keepdims=True)
        inside = (rng.random(8) < 0.4) & (widths[j] < 0.35 * widths[hosts])
        reach = np.where(
            inside, rng.uniform(0, 1.2, 8) * widths[hosts], 2.2 * gap * (widths[hosts] + widths[j])
        )
        places = centres[hosts] + toward * reach[:, None]
        clear = np.linalg.norm(places[:, None] - centres[None, :j], axis=2)
        # A core may lie within one wide cluster, but not on another core.
        similar = widths[j] > 0.35 * widths[:j]
        room = np.where(similar, clear / (widths[:j] + widths[j]), np.inf).min(axis=1)
        centres[j] = places[room.argmax() if room.max() < 2.0 else np.flatnonzero(room >= 2.0)[0]]
    return points + np.repeat(centres, sizes, axis=0)


def draw_single(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """One cluster of any shape, or uniform noise, which is one cluster as well; shape (n, d)."""
    if rng.random() < 0.15:
        return rng.uniform(-1, 1, (n, d))
    style = draw_style(rng)
    family = draw_family(rng, d) if rng.random() < 0.7 else list(BLOBS)[rng.integers(len(BLOBS))]
    points = draw_shape(rng, family, n, d, style)
    if d > 1 and rng.random() < 0.3:  # any correlation: a Gaussian matrix is of all condition numbers
        points = rotate(rng, points) @ rng.standard_normal((d, d))
    return points
