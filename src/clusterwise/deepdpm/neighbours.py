"""The neighbour graph of raw rows: who is near whom, also up to variations that do not matter.

Two images of the same digit may be far apart because one is shifted. Where the user can draw variants of
rows, a row's *tangents* are the directions in which its variants differ from it, and the distance between
two rows leaves out what lies along the tangents of either: the tangent distance of Simard, LeCun & Denker
(1993), with tangents found from samples instead of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

__all__ = ["Vary", "graph_weights", "nearest_neighbours", "principal_axes", "tangent_neighbours", "tangents"]

# Draws a variant of each row (n, f).
Vary = Callable[[np.ndarray, np.random.Generator], np.ndarray]

N_VARIANTS, N_TANGENTS = 20, 12
# A row's neighbours by tangent distance are sought among this many of its neighbours by plain distance.
CANDIDATES = 400
# Numbers in the largest temporary.
CHUNK = 10_000_000


def principal_axes(inputs: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of inputs (n, d) as columns (d, m), m <= n_axes."""
    d = inputs.shape[1]
    centred = inputs - inputs.mean(axis=0)
    m = min(n_axes, d)
    _, axes = eigh(centred.T @ centred / len(inputs), subset_by_index=[d - m, d - 1])
    result: np.ndarray = axes[:, ::-1]
    return result


def nearest_neighbours(points: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, d), themselves left out, and their distances (n, k)."""
    points = points.astype(np.float32)
    squares = np.square(points).sum(axis=1)
    n, k = len(points), min(n_neighbours, len(points) - 1)
    neighbours, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    for start in range(0, n, 1000):
        part = np.arange(start, min(start + 1000, n))
        gaps = squares[part, None] + squares - 2 * points[part] @ points.T
        gaps[part - start, part] = np.inf
        nearest = np.argpartition(gaps, k - 1, axis=1)[:, :k]
        neighbours[part] = nearest
        distances[part] = np.sqrt(np.maximum(np.take_along_axis(gaps, nearest, axis=1), 0.0))
    return neighbours, distances


def tangents(rng: np.random.Generator, features: np.ndarray, axes: np.ndarray, vary: Vary) -> np.ndarray:
    """Orthonormal directions (n, m, t) in which the components (n, m) of variants of the rows differ most."""
    components = features @ axes
    offsets = np.stack(
        [vary(features, rng) @ axes - components for _ in range(N_VARIANTS)], axis=1
    )  # (n, v, m)
    t = min(N_TANGENTS, axes.shape[1] - 1, N_VARIANTS)
    squares, mixing = np.linalg.eigh(offsets @ offsets.transpose(0, 2, 1))
    directions = offsets.transpose(0, 2, 1) @ mixing[:, :, ::-1][:, :, :t]
    lengths = np.sqrt(np.maximum(squares[:, None, ::-1][:, :, :t], 0.0))
    # Variants that differ in fewer directions leave tangents of no length.
    result: np.ndarray = np.where(lengths > 1e-6 * lengths[:, :, :1], directions, 0.0)
    result /= np.where(lengths > 0, lengths, 1.0)
    return result.astype(np.float32)


def tangent_neighbours(
    components: np.ndarray, directions: np.ndarray, n_neighbours: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, m) by tangent distance, and these distances (n, k).

    The square of the distance between x and y is the mean of two squares: the length of x - y without the
    part along the tangents ``directions`` (n, m, t) of x, and without the part along those of y.
    """
    points = components.astype(np.float32)
    n, k = len(points), min(n_neighbours, len(points) - 1)
    candidates, _ = nearest_neighbours(points, max(CANDIDATES, k))
    neighbours, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    size = max(1, CHUNK // (candidates.shape[1] * directions[0].size))
    for start in range(0, n, size):
        part = slice(start, start + size)
        others = candidates[part]
        offsets = points[others] - points[part, None]  # (b, c, m)
        along = np.square(offsets @ directions[part]).sum(axis=2)
        along += np.square(np.einsum("bcm,bcmt->bct", offsets, directions[others], optimize=True)).sum(axis=2)
        squares = np.square(offsets).sum(axis=2) - along / 2
        nearest = np.argpartition(squares, k - 1, axis=1)[:, :k]
        neighbours[part] = np.take_along_axis(others, nearest, axis=1)
        distances[part] = np.sqrt(np.maximum(np.take_along_axis(squares, nearest, axis=1), 0.0))
    return neighbours, distances


def graph_weights(distances: np.ndarray) -> np.ndarray:
    """Weights (n, k) of the edges to neighbours as in UMAP: one for the nearest, log2(k + 1) in all."""
    beyond = distances - distances.min(axis=1, keepdims=True)
    low, high = np.zeros((len(distances), 1)), np.full((len(distances), 1), 1e3 * distances.max() + 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        too_wide = np.exp(-beyond / middle).sum(axis=1, keepdims=True) > np.log2(distances.shape[1] + 1)
        low, high = np.where(too_wide, low, middle), np.where(too_wide, middle, high)
    return np.exp(-beyond / high)
