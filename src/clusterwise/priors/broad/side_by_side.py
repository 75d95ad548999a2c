"""Clusters side by side that are no blobs: moons, spirals, stripes, letters and others.

Each function takes the number of rows and of clusters, and returns points (n, 2) or (n, 3) with labels (n,).
Gaps between neighbouring clusters are about 1.
"""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.layout import polar, split_rows, thickness
from clusterwise.priors.broad.placement import best_candidates
from clusterwise.priors.broad.shapes import along_path

__all__ = ["chain", "corners", "cross", "letters", "lobes", "moons", "spirals", "stripes", "worms"]


def moons(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A row of half circles, open up and down in turn, each reaching into the next."""
    labels = split_rows(rng, n, np.ones(k))
    angles = rng.uniform(0, np.pi, n)
    down = labels % 2
    x = np.cos(angles) + labels * rng.uniform(0.9, 1.1)
    y = np.sin(angles) * (1 - 2 * down) + down * rng.uniform(0.2, 0.6)
    return np.column_stack([x, y]) + thickness(rng, (n, 2), 0.5), labels


def spirals(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Arms of one spiral; neighbouring arms are 1 apart."""
    labels = split_rows(rng, n, np.ones(k))
    turns = rng.uniform(0.5, 1.6)
    angles = 2 * np.pi * turns * np.sqrt(rng.uniform(0.02, 1, n))
    radii = angles * k / (2 * np.pi) + rng.uniform(0.2, 0.5)
    return polar(radii, angles + 2 * np.pi * labels / k) + thickness(rng, (n, 2)), labels


def stripes(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Parallel stripes, straight or in waves, thin or as wide as the gaps allow."""
    labels = split_rows(rng, n, np.ones(k))
    x = rng.uniform(-1, 1, n) * rng.uniform(1.5, 5.0)
    bend = rng.choice([0.0, 0.0, 0.5, 1.5]) * np.sin(rng.uniform(0.5, 1.5) * x)
    across = rng.uniform(-0.3, 0.3, n) if rng.random() < 0.4 else thickness(rng, (n,))
    return np.column_stack([x + rng.uniform(-1, 1, k)[labels], labels + bend + across]), labels


def chain(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A row of Gaussians of equal height that touch."""
    labels = split_rows(rng, n, np.ones(k))
    across = rng.standard_normal(n) * rng.uniform(0.2, 1.5)
    along = labels + rng.uniform(0.12, 0.28) * rng.standard_normal(n)
    return np.column_stack([along, across + rng.uniform(-0.5, 0.5) * np.sin(labels)]), labels


def cross(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Straight bars that cross in the middle."""
    labels = split_rows(rng, n, np.ones(k))
    angles = np.pi * (np.arange(k) + rng.uniform(-0.15, 0.15, k)) / k
    along = rng.uniform(-1, 1, n) if rng.random() < 0.5 else 0.6 * rng.standard_normal(n)
    return polar(4 * along, angles[labels]) + thickness(rng, (n, 2)), labels


def corners(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles around the four corners of a square, which face the middle or the outside."""
    labels = split_rows(rng, n, np.ones(k))
    corner = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])[labels % 4]
    along = rng.uniform(0, 2.5, n)
    first = rng.random(n) < 0.5
    arms = np.where(np.column_stack([first, ~first]), along[:, None], 0.0)
    ward = 1 if rng.random() < 0.5 else -1
    middle = 0.5 if ward == 1 else 3.2
    return corner * (middle + ward * arms) + thickness(rng, (n, 2)), labels


def letters(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Letters in lines of text: each of a few strokes within its own cell."""
    labels = split_rows(rng, n, np.ones(k))
    points = np.empty((n, 2))
    width = int(np.ceil(np.sqrt(k * rng.uniform(1, 2.5))))
    room = rng.uniform(1.15, 1.6)
    for j in range(k):
        own = labels == j
        corners = rng.permutation(np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5], [0.5, 0], [0.5, 1]]))
        path = along_path(rng, int(own.sum()), corners[: rng.integers(2, 5)])
        points[own] = path * [0.8, 1.0] + [room * (j % width), 1.15 * room * (j // width)]
    return points + thickness(rng, (n, 2), 0.4), labels


def lobes(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Evenly filled diamonds, discs or squares in a row that hardly touch."""
    labels = split_rows(rng, n, np.ones(k))
    law = rng.integers(3)
    if law == 0:
        filled = polar(np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n))
    else:
        filled = rng.uniform(-1, 1, (n, 2))
        if law == 1:
            filled = filled @ np.array([[1, 1], [-1, 1]]) / 2
    shift = np.column_stack([np.arange(k), 0.3 * rng.standard_normal(k)])
    return filled + rng.uniform(2.05, 2.6) * shift[labels], labels


def worms(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth curves that wander through a square, and seldom cross."""
    labels = split_rows(rng, n, np.ones(k))
    sizes = np.bincount(labels)
    n_steps = 12
    headings = np.cumsum(rng.normal(0, rng.uniform(0.05, 0.4), (k, n_steps)), axis=1)
    headings += rng.uniform(0, 2 * np.pi, (k, 1)) if rng.random() < 0.7 else 0.0
    steps = np.stack([np.cos(headings), np.sin(headings)], axis=2) * (rng.uniform(2.0, 5.0) / n_steps)
    paths = np.concatenate([np.zeros((k, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
    paths -= paths.mean(axis=1, keepdims=True)
    starts = best_candidates(rng.uniform(0, 2.4 * np.sqrt(k), (k, 12, 2)), np.zeros(k))
    points = np.concatenate(
        [
            along_path(rng, int(size), path + start)
            for size, path, start in zip(sizes, paths, starts, strict=True)
        ]
    )
    return points + thickness(rng, (n, 2)), labels
