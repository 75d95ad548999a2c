"""What the arrangements share: how rows are split, how thick curves are, and polar coordinates."""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.sizes import log_uniform

__all__ = ["polar", "split_rows", "thickness"]


def split_rows(rng: np.random.Generator, n: int, lengths: np.ndarray) -> np.ndarray:
    """Labels (n,) of clusters that are even along their lengths, equally large, or anything between."""
    shares = lengths ** rng.choice([0.0, 0.5, 1.0])
    if rng.random() < 0.4:
        shares = shares * np.exp(0.5 * rng.standard_normal(len(shares)))
    shares = 0.9 * shares / shares.sum() + 0.1 / len(shares)
    k = len(shares)
    sizes = 4 + rng.multinomial(n - 4 * k, shares / shares.sum())
    return np.repeat(np.arange(k), sizes)


def thickness(rng: np.random.Generator, shape: tuple[int, ...], gap: float = 1.0) -> np.ndarray:
    """Noise whose standard deviation is a small part of the gap."""
    return gap / log_uniform(rng, 5.0, 30.0) * rng.standard_normal(shape)


def polar(radii: np.ndarray, angles: np.ndarray) -> np.ndarray:
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
