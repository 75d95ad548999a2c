"""Random directions, frames and rotations."""

from __future__ import annotations

import numpy as np

__all__ = ["directions", "frame", "lift", "rotate"]

_EXACT_UP_TO = 6  # beyond this a product of reflections is random enough, and much cheaper


def directions(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw n unit vectors; shape (n, d)."""
    vectors = rng.standard_normal((n, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-300
    return vectors


def frame(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Draw m <= d orthonormal directions; shape (m, d)."""
    basis: np.ndarray = np.linalg.qr(rng.standard_normal((d, m)))[0].T
    return basis


def rotate(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Turn points (n, d) in a random way."""
    d = points.shape[1]
    if d == 1:
        return points if rng.random() < 0.5 else -points
    if d <= _EXACT_UP_TO:
        return points @ frame(rng, d, d)
    for mirror in directions(rng, 4, d):
        points = points - np.outer(2 * (points @ mirror), mirror)
    return points


def lift(rng: np.random.Generator, points: np.ndarray, d: int) -> np.ndarray:
    """Place points (n, m) into a random m-dimensional subspace of d >= m dimensions."""
    return points @ frame(rng, points.shape[1], d)
