"""What real tables add to clean clusters: noise rows, uninformative columns, ties, warps, other units.

Each function takes and returns points (n, d); labels, where they are needed, are sorted by cluster.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from clusterwise.priors.broad.labelled_table import NOISE
from clusterwise.priors.broad.shapes import rotate

__all__ = [
    "add_columns",
    "bend",
    "change_units",
    "correlate_columns",
    "draw_noise_rows",
    "label_noise",
    "repeat_rows",
    "round_columns",
    "warp_columns",
]


_CATEGORIES_FROM = 4  # features


def _spreads(points: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, 1 for a constant one; shape (d,)."""
    spreads = points.std(axis=0)
    return np.where(spreads > 1e-12, spreads, 1.0)


def bend(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Shift all rows by slow waves of their position, which bends clusters and spaces between them."""
    d = points.shape[1]
    spread = points.std() + 1e-12
    waves = rng.standard_normal((d, d)) * (rng.uniform(0.3, 0.9) / (spread * np.sqrt(d)))
    bent: np.ndarray = points + rng.uniform(0.2, 0.6) * spread * np.sin(points @ waves)
    return bent


def draw_noise_rows(rng: np.random.Generator, points: np.ndarray, n_noise: int) -> np.ndarray:
    """Draw rows that belong to no cluster, uniform or outliers; shape (n_noise, d).

    Many rows are always uniform: a crowd of outliers would look like a cluster of its own.
    """
    n, d = points.shape
    if n_noise < 0.05 * n and rng.random() < 0.6:
        shifts = rng.standard_normal((n_noise, d)) * _spreads(points) * rng.uniform(1.0, 3.0)
        return points[rng.integers(0, n, n_noise)] + shifts
    low, high = points.min(axis=0), points.max(axis=0)
    margin = (high - low) * rng.uniform(0, 0.2)
    return rng.uniform(low - margin, high + margin, (n_noise, d))


def label_noise(points: np.ndarray, labels: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Label noise rows: NOISE, or the cluster that they fall into; shape (n_noise,).

    A row whose neighbours in a cluster are as near as they are to each other cannot be told from them.
    """
    out = np.full(len(noise), NOISE)
    n, d = points.shape
    if d > 5 or n < 10:
        return out
    tree = cKDTree(points)
    gaps, neighbours = tree.query(noise, k=3)
    own_gaps = tree.query(points[neighbours[:, 0]], k=4)[0][:, 3]
    within = gaps[:, 2] <= own_gaps
    out[within] = labels[neighbours[within, 0]]
    return out


def add_columns(
    rng: np.random.Generator, points: np.ndarray, labels: np.ndarray, n_columns: int
) -> np.ndarray:
    """Append n_columns columns that are noise, repeat others, or are categories.

    Categories come to tables of some width only: in the plane, the levels of one would be clusters.
    """
    n, d = points.shape
    spread = float(np.median(_spreads(points)))
    size = spread * rng.uniform(0.2, 1.1)
    shares = [0.5, 0.3, 0.1, 0.1] if d >= _CATEGORIES_FROM else [0.65, 0.35]
    what = rng.choice(len(shares), n_columns if rng.random() < 0.5 else 1, p=shares)
    what = np.broadcast_to(what, n_columns)
    columns = np.empty((n, n_columns))
    for j, law in enumerate(what):
        if law == 0:
            draws = rng.standard_normal(n) if rng.random() < 0.7 else rng.uniform(-1.7, 1.7, n)
            columns[:, j] = size * draws
        elif law == 1:
            mixed = points @ (rng.standard_normal(d) / np.sqrt(d))
            columns[:, j] = mixed + rng.uniform(0, 0.3) * spread * rng.standard_normal(n)
        else:
            columns[:, j] = size * _categories(rng, labels, depends=law == 2)
    return np.column_stack([points, columns])


def _categories(rng: np.random.Generator, labels: np.ndarray, depends: bool) -> np.ndarray:
    """A column (n,) of few whole numbers, whose frequencies may depend on the cluster."""
    n_values = int(rng.integers(2, 7))
    k = int(labels.max()) + 1
    n_laws = k + 1 if depends else 1  # the last law is that of noise rows
    ends = np.cumsum(rng.dirichlet(np.full(n_values, 0.6), n_laws), axis=1)
    which = np.where(labels == NOISE, k, labels) if depends else np.zeros(len(labels), dtype=int)
    drawn: np.ndarray = (rng.random((len(labels), 1)) > ends[which][:, :-1]).sum(axis=1)
    return drawn.astype(float)


def correlate_columns(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Turn, stretch and turn again: a linear map of condition number up to about 30."""
    d = points.shape[1]
    stretched = rotate(rng, points) * np.exp(rng.uniform(-rng.choice([0.5, 1.5, 3.4]), 0, d))
    return rotate(rng, stretched)


def warp_columns(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Warp some columns by an increasing function: exp, cube, sinh or log.

    None of them tears a cluster in two, as a function that is steep in the middle would.
    """
    warped = points.copy()
    centred = (points - points.mean(axis=0)) / _spreads(points)
    share = rng.uniform(0.2, 1.0)
    same = int(rng.integers(4)) if rng.random() < 0.5 else None
    for j in np.flatnonzero(rng.random(points.shape[1]) < share):
        column = np.clip(centred[:, j], -6, 6)
        law = int(rng.integers(4)) if same is None else same
        strength = rng.uniform(0.3, 0.9)
        if law == 0:
            warped[:, j] = np.exp(strength * column)
        elif law == 1:
            warped[:, j] = column + strength * 0.5 * column**3
        elif law == 2:
            warped[:, j] = np.sinh(strength * 1.5 * column)
        else:
            warped[:, j] = np.log(column - column.min() + rng.uniform(0.5, 2.0))
    return warped


def change_units(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Give each column its own unit and origin, or all columns the same unit."""
    d = points.shape[1]
    if rng.random() < 0.3:
        factors = 10.0 ** rng.uniform(-3, 3, d)
        return points * factors + factors * rng.normal(0, 5, d)
    return points * 10.0 ** rng.uniform(-2, 2)


def round_columns(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Round all columns to steps that are smaller than clusters are wide, which makes ties."""
    which = labels - labels.min()
    counts = np.bincount(which)[:, None]
    sums, squares = np.zeros((2, len(counts), points.shape[1]))
    np.add.at(sums, which, points)
    np.add.at(squares, which, points**2)
    widths = np.sqrt(np.maximum(squares / counts - (sums / counts) ** 2, 0.0))
    steps = np.quantile(widths, 0.3, axis=0) / rng.choice([1.0, 2.0, 5.0, 15.0])
    steps = np.maximum(steps, 1e-6 * _spreads(points))
    return np.round(points / steps) * (steps if rng.random() < 0.5 else 1.0)


def repeat_rows(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Overwrite some rows by others of the same label, so that there are duplicates."""
    n = len(points)
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels - labels.min())
    first = np.cumsum(counts) - counts
    which = labels - labels.min()
    source = order[first[which] + (rng.random(n) * counts[which]).astype(np.intp)]
    chosen = rng.random(n) < rng.uniform(0.02, 0.3)
    return np.where(chosen[:, None], points[source], points)
