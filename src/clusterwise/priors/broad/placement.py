"""Where the clusters of a table lie, from touching to far apart."""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad.geometry import frame
from clusterwise.priors.broad.sizes import log_uniform

__all__ = [
    "best_candidates",
    "draw_centres",
    "draw_separation",
    "grid",
    "nearest_separations",
    "scatter_matrices",
    "spread_apart",
]

_DISCRIMINANT_UP_TO = 4  # in more dimensions the spread along the line between the centres stands in
_HOPELESS = 2.2  # two Gaussians nearer than this many standard deviations look like one


def draw_separation(rng: np.random.Generator) -> float:
    """Draw how many standard deviations neighbours are apart: mostly 2.5 to 6, up to 14."""
    if rng.random() < 0.75:
        return log_uniform(rng, 2.5, 6.0)
    return log_uniform(rng, 5.0, 14.0)


def scatter_matrices(points: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Covariance of each cluster about its mean, rows far out weighted down; shape (k, d, d).

    ``points`` (n, d) are sorted by cluster.
    """
    d = points.shape[1]
    out = np.empty((len(sizes), d, d))
    ends = np.cumsum(sizes)
    for j, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        own = points[end - size : end]
        own = own - own.mean(axis=0)
        radii = np.sqrt(np.einsum("nd,nd->n", own, own))
        limit = 2.5 * np.sort(radii)[size // 2] + 1e-12
        own = own * np.minimum(1.0, limit / np.maximum(radii, 1e-12))[:, None]
        out[j] = own.T @ own / size
    return out


def grid(rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    """k cells of a regular grid in up to three dimensions, sometimes brick-like, jittered; shape (k, d)."""
    m = 1 if d == 1 else 3 if d > 2 and rng.random() < 0.3 else 2
    side = int(np.ceil(k ** (1 / m) - 1e-9))
    cells = np.stack(np.meshgrid(*[np.arange(side)] * m, indexing="ij"), axis=-1).reshape(-1, m).astype(float)
    if m >= 2 and rng.random() < 0.3:
        cells[:, 0] += 0.5 * (cells[:, 1] % 2)
    chosen = cells[:k] if rng.random() < 0.5 else cells[rng.permutation(len(cells))[:k]]
    chosen = chosen + rng.choice([0.0, 0.05, 0.15]) * rng.standard_normal(chosen.shape)
    chosen = chosen * rng.uniform(0.7, 1.3, m)
    return chosen @ frame(rng, m, d) if d > m or rng.random() < 0.4 else chosen


def draw_centres(
    rng: np.random.Generator, radii: np.ndarray, d: int, side_by_side: bool = False
) -> np.ndarray:
    """Draw centres (k, d) for clusters of these radii (k,), up to the overall scale.

    ``side_by_side`` spreads them evenly, so that all neighbours are about equally near.
    """
    k = len(radii)
    law = 1.0 if side_by_side else rng.random()
    if law < 0.12 and k > 3:
        return _in_groups(rng, k, d)
    if law < 0.20 and d > 1:
        return _on_a_curve(rng, k, d)
    m = d if d <= 3 or rng.random() < 0.6 else int(rng.integers(2, d + 1))
    evenness = 12 if side_by_side else (1, 2, 5, 12)[rng.integers(4)]
    unit = rng.standard_normal if rng.random() < 0.5 else lambda shape: rng.uniform(-1.7, 1.7, shape)
    candidates = unit((k, evenness, m)) * (radii.mean() * k ** (1 / m))
    centres = candidates[:, 0] if evenness == 1 else best_candidates(candidates, radii)
    return centres if m == d else centres @ frame(rng, m, d)


def best_candidates(candidates: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Of the candidates (k, c, m) of each centre take the one farthest from the centres before it; (k, m)."""
    k = len(candidates)
    centres = candidates[:, 0].copy()
    for j in range(1, k):
        gaps = np.linalg.norm(candidates[j][:, None] - centres[None, :j], axis=2) - radii[:j]
        centres[j] = candidates[j][gaps.min(axis=1).argmax()]
    return centres


def _in_groups(rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    """Clusters of clusters."""
    n_groups = int(rng.integers(2, max(3, k // 3 + 1)))
    groups = rng.standard_normal((n_groups, d)) * rng.uniform(2.0, 5.0)
    return groups[rng.integers(0, n_groups, k)] + rng.uniform(-1.7, 1.7, (k, d))


def _on_a_curve(rng: np.random.Generator, k: int, d: int) -> np.ndarray:
    """Centres along a line, a parabola or a circle."""
    t = np.arange(k) + rng.uniform(0, 0.3) * rng.standard_normal(k)
    law = rng.integers(3)
    if law == 0:
        flat = np.column_stack([t, 0.1 * rng.standard_normal(k)])
    elif law == 1:
        s = t / k - 0.5
        flat = np.column_stack([s, rng.uniform(0.5, 3.0) * s**2])
    else:
        angles = 2 * np.pi * t / k
        flat = np.column_stack([np.cos(angles), np.sin(angles)])
    return flat @ frame(rng, 2, d)


def nearest_separations(centres: np.ndarray, scatters: np.ndarray) -> np.ndarray:
    """How many standard deviations each cluster is from the neighbour that it overlaps most; shape (k,).

    ``centres`` (k, d), ``scatters`` (k, d, d).
    """
    d = centres.shape[1]
    if d > _DISCRIMINANT_UP_TO:
        offsets = centres[:, None] - centres[None]  # (k, k, d)
        along = np.einsum("ijd,ijd->ij", offsets @ scatters, offsets)  # by the first cluster's scatter
        lengths = np.einsum("ijd,ijd->ij", offsets, offsets)
        squares = lengths**2 / np.maximum(0.5 * (along + along.T), 1e-12)
        np.fill_diagonal(squares, np.inf)
    else:
        squares = _discriminant_squares(centres, scatters)
    separations: np.ndarray = np.sqrt(squares.min(axis=1))
    return separations


def _discriminant_squares(centres: np.ndarray, scatters: np.ndarray) -> np.ndarray:
    """Squared Mahalanobis distances of each centre to a few near ones, by pooled scatters; shape (k, m)."""
    k, d = centres.shape
    gaps = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    radii = np.sqrt(np.einsum("kii->k", scatters) / d)
    crowding = gaps / (radii[:, None] + radii[None] + 1e-12)
    np.fill_diagonal(crowding, np.inf)
    m = min(k - 1, 5)
    near = np.argpartition(crowding, m - 1, axis=1)[:, :m]  # (k, m)
    offsets = centres[:, None] - centres[near]  # (k, m, d)
    pooled = 0.5 * (scatters[:, None] + scatters[near])  # (k, m, d, d)
    ridge = 1e-6 * np.einsum("kmii->km", pooled)[..., None, None] * np.eye(d) + 1e-12 * np.eye(d)
    solved = np.linalg.solve(pooled + ridge, offsets[..., None])[..., 0]
    squares: np.ndarray = np.einsum("kmd,kmd->km", offsets, solved)
    return squares


def spread_apart(centres: np.ndarray, scatters: np.ndarray, separation: float) -> np.ndarray:
    """Scale the centres so that crowded neighbours are ``separation`` standard deviations apart.

    Crowded are those at the lower quarter; hardly any pair remains so near that it looks like one cluster.
    """
    found = np.sort(nearest_separations(centres, scatters))
    k = len(found)
    by_target = separation / max(found[k // 4], 1e-9)
    by_hope = _HOPELESS / max(found[k // 20], 1e-9)
    return centres * min(max(by_target, by_hope), 3 * by_target)
