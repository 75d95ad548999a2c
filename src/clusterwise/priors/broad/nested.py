"""Clusters around, inside and through each other: rings, shells, cores in halos.

Each function takes the number of rows and of clusters, and returns points (n, 2) or (n, 3) with labels (n,).
Gaps between neighbouring clusters are about 1.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.geometry import directions
from clusterwise.priors.broad.layout import polar, split_rows, thickness
from clusterwise.priors.broad.shapes import along_path
from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["circles", "frames", "halo", "links", "rings", "shells", "target"]


def rings(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Concentric rings; the innermost may be a disc."""
    radii = rng.uniform(0.6, 1.6) + np.arange(k) * 1.0
    labels = split_rows(rng, n, radii)
    radius = radii[labels] + thickness(rng, (n,))
    if rng.random() < 0.4:
        inner = labels == 0
        radius[inner] = 0.5 * radii[0] * np.sqrt(rng.random(inner.sum()))
    points = polar(radius, rng.uniform(0, 2 * np.pi, n))
    return points * [1.0, rng.uniform(0.6, 1.0)], labels


def shells(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nested shells in three dimensions around a ball."""
    radii = np.arange(k) * 1.0
    labels = split_rows(rng, n, (radii + 0.5) ** 2)
    radius = radii[labels] + thickness(rng, (n,))
    inner = labels == 0
    radius[inner] = 0.4 * rng.random(inner.sum()) ** (1 / 3)
    return radius[:, None] * directions(rng, n, 3), labels


def frames(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nested outlines of squares or of other polygons."""
    radii = 0.7 + np.arange(k)
    labels = split_rows(rng, n, radii)
    sides = int(rng.integers(3, 7))
    angles = 2 * np.pi * np.arange(sides + 1) / sides
    outline = along_path(rng, n, polar(np.ones(sides + 1), angles))
    return radii[labels][:, None] * outline + thickness(rng, (n, 2)), labels


def halo(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Dense cores within a wide, sparse cluster."""
    labels = split_rows(rng, n, np.r_[rng.uniform(0.6, 2.0), np.ones(k - 1)])
    wide = rng.standard_normal((n, 2)) if rng.random() < 0.6 else np.sqrt(3) * rng.uniform(-1, 1, (n, 2))
    centres = np.zeros((k, 2))
    if k > 2 or rng.random() < 0.5:
        angles = 2 * np.pi * np.arange(k) / max(k - 1, 1) + rng.uniform(0, 2 * np.pi)
        centres[1:] = polar(rng.uniform(0.5, 1.4, k - 1), angles[1:])
    width = log_uniform(rng, 0.04, 0.16)
    points = np.where((labels == 0)[:, None], wide, centres[labels] + width * rng.standard_normal((n, 2)))
    return points, labels


def target(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Blobs inside a ring, or inside an open arc."""
    labels = split_rows(rng, n, np.r_[3.0, np.ones(k - 1)])
    reach = 2 * np.pi if rng.random() < 0.6 else rng.uniform(3.0, 5.0)
    angles = 2 * np.pi * np.arange(k) / max(k - 1, 1) + rng.uniform(0, 2 * np.pi)
    centres = polar(np.full(k, 0.0 if k == 2 else 1.3), angles)
    blob = centres[labels] + rng.uniform(0.15, 0.38) * rng.standard_normal((n, 2))
    ring = polar(3.0 + thickness(rng, (n,)), reach * rng.random(n))
    return np.where((labels == 0)[:, None], ring, blob), labels


def links(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A chain of rings in three dimensions, each through the next."""
    labels = split_rows(rng, n, np.ones(k))
    flat = polar(np.ones(n), rng.uniform(0, 2 * np.pi, n))
    points = np.zeros((n, 3))
    points[:, 0] = flat[:, 0] + 1.2 * labels
    even = labels % 2 == 0
    points[even, 1] = flat[even, 1]
    points[~even, 2] = flat[~even, 1]
    return points + thickness(rng, (n, 3), 0.6), labels


def circles(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Circles side by side in the plane, each of which crosses the next."""
    labels = split_rows(rng, n, np.ones(k))
    row = np.arange(k)
    centres = np.column_stack([rng.uniform(0.8, 1.6) * row, (row % 2) * rng.uniform(0.0, 1.2)])
    rim = polar(1.0 + thickness(rng, (n,), 0.6), rng.uniform(0, 2 * np.pi, n))
    return centres[labels] + rim, labels
