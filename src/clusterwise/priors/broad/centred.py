"""Tables whose clusters are shapes around centres: one family or many, from touching to far apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clusterwise.priors.broad.labelled_table import by_cluster, confused_groups, link_counts, log_uniform
from clusterwise.priors.broad.shapes import BLOBS, Style, draw_family, draw_shape, draw_style, frame, rotate

__all__ = [
    "best_candidates",
    "draw_centres",
    "draw_densities",
    "draw_gaussians",
    "draw_grid",
    "draw_mixture",
    "draw_plain",
    "draw_single",
    "grid",
    "nearest_separations",
    "scatter_matrices",
    "spread_apart",
]


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
    family = BLOBS[rng.integers(len(BLOBS))] if rng.random() < 0.6 else "gaussian"
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
    family = draw_family(rng, d) if rng.random() < 0.7 else BLOBS[rng.integers(len(BLOBS))]
    points = draw_shape(rng, family, n, d, style)
    if d > 1 and rng.random() < 0.3:  # any correlation: a Gaussian matrix is of all condition numbers
        points = rotate(rng, points) @ rng.standard_normal((d, d))
    return points


_FEATURES = (1, 2, 2, 2, 2, 3, 4, 6, 8)
_MIN_SIZE = 3  # rows of a cluster
_MAX_CLUSTERS = 20


def _plain_sizes(rng: np.random.Generator, n: int) -> np.ndarray:
    """Split n rows by a Chinese restaurant process, or by a Dirichlet law; sorted, largest first."""
    if rng.random() < 0.5:
        left = 1.0
        shares: list[float] = []
        concentration = log_uniform(rng, 0.3, 6.0)
        while len(shares) < _MAX_CLUSTERS and left * n >= _MIN_SIZE:
            shares.append(left * rng.beta(1.0, concentration))
            left -= shares[-1]
        law = np.array([*shares, max(left, 0.0)])
    else:
        k = min(max(2, min(_MAX_CLUSTERS, n // 10)), int(rng.geometric(0.2)))
        law = rng.dirichlet(np.full(k, log_uniform(rng, 0.3, 30.0)))
    sizes = np.sort(rng.multinomial(n, law / law.sum()))[::-1]
    kept = sizes[sizes >= _MIN_SIZE][:_MAX_CLUSTERS]
    kept[0] += n - kept.sum()
    return np.asarray(kept)


def _plain_cluster(rng: np.random.Generator, size: int, d: int, law: int, scale: float) -> np.ndarray:
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
    sizes = _plain_sizes(rng, n)
    k = len(sizes)
    law = int(rng.integers(3))
    scales = np.exp(rng.choice([0.0, 0.2, 0.5]) * rng.standard_normal(k).clip(-2, 2))
    points = np.concatenate(
        [
            _plain_cluster(rng, int(size), d, law, scale)
            for size, scale in zip(sizes, scales.tolist(), strict=True)
        ]
    )
    unit = rng.standard_normal((k, d)) if rng.random() < 0.6 else rng.uniform(-1.7, 1.7, (k, d))
    points += np.repeat(log_uniform(rng, 2.0, 16.0) * unit, sizes, axis=0)
    labels = np.repeat(np.arange(k), sizes)
    if k > 1:
        labels = confused_groups(link_counts(rng, points, labels, k))[labels]
    return by_cluster(points, labels)


_DISCRIMINANT_UP_TO = 4  # in more dimensions the spread along the line between the centres stands in
_MIN_SEPARATION = 2.2  # two Gaussians nearer than this many standard deviations look like one


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
    others = np.argpartition(crowding, m - 1, axis=1)[:, :m]  # (k, m)
    offsets = centres[:, None] - centres[others]  # (k, m, d)
    pooled = 0.5 * (scatters[:, None] + scatters[others])  # (k, m, d, d)
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
    by_nearest = _MIN_SEPARATION / max(found[k // 20], 1e-9)
    return centres * min(max(by_target, by_nearest), 3 * by_target)
