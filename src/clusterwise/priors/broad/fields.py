"""Tables as they come from the fields: surveys, counts, weak columns, few rows of many, copies, series.

Categories come from latent classes (Lazarsfeld & Henry, *Latent structure analysis*, 1968): each class has
its own probabilities of the levels of a column, and columns are independent within a class. All other kinds
are simple generative models of the tables that people cluster most: answers on a scale, counts of words or
genes, many weakly informative columns, series and spectra, rows that are copies of each other. In records
all clusters share the correlations between columns and differ in some of them, which are of mixed types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterwise.priors.broad.centred import scatter_matrices, spread_apart
from clusterwise.priors.broad.labelled_table import (
    EASIER,
    MAX_TRIES,
    LabelledTable,
    by_cluster,
    draw_sizes,
    log_uniform,
    told_apart,
)

__all__ = ["FIELDS", "draw_field", "draw_records"]

_MIN_PURITY = 0.3
_SINGLE_SHARE = 0.12
_MAX_CLUSTERS = 15
# Columns (n, d), and which of them are categories.
_Drawn = tuple[np.ndarray, tuple[int, ...]]


def _latent_classes(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float) -> np.ndarray:
    """Levels (n, d) of d columns, each with its own number of levels and its own weight in the classes."""
    k, labels = len(sizes), np.repeat(np.arange(len(sizes)), sizes)
    levels = rng.choice([2, 3, 4, 5, 6, 8, 12], d, p=[0.35, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05])
    informative = rng.random(d) < rng.uniform(0.3, 1.0)
    sharpness = log_uniform(rng, 0.5, 4.0) * ease
    columns = np.empty((len(labels), d))
    for j in range(d):
        base = rng.dirichlet(np.full(levels[j], rng.choice([0.7, 2.0, 20.0])))
        logits = np.log(base + 1e-3) + sharpness * informative[j] * rng.standard_normal((k, levels[j]))
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        edges = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
        columns[:, j] = (rng.random((len(labels), 1)) > edges[labels]).sum(axis=1).clip(0, levels[j] - 1)
    return columns


def _draw_categories(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    d = int(log_uniform(rng, 4, 41))
    columns = _latent_classes(rng, sizes, d, ease)
    if rng.random() < 0.3:  # answers copied wrong, or given at random
        wrong = rng.random(columns.shape) < rng.uniform(0.05, 0.3)
        columns = np.where(wrong, rng.permuted(columns, axis=0), columns)
    return columns, tuple(range(d))


def _draw_mixed(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    words = _latent_classes(rng, sizes, int(log_uniform(rng, 2, 13)), ease)
    d = int(log_uniform(rng, 2, 13))
    numbers = _weak_columns(rng, sizes, d, ease * log_uniform(rng, 0.7, 2.5), rng.uniform(0.4, 1.0))
    skewed = rng.random(d) < 0.3
    numbers[:, skewed] = np.exp(0.7 * numbers[:, skewed].clip(-6, 6))
    return np.concatenate([words, numbers], axis=1), tuple(range(words.shape[1]))


def _draw_dummies(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Categories that somebody has turned into columns of zeros and ones."""
    columns = _latent_classes(rng, sizes, int(log_uniform(rng, 4, 31)), ease)
    dummies = [columns[:, [j]] == np.unique(columns[:, j]) for j in range(columns.shape[1])]
    return np.concatenate(dummies, axis=1).astype(np.float64), ()


def _draw_scales(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Answers from 1 to 5 or so, which latent factors decide."""
    n, k, d = int(sizes.sum()), len(sizes), int(log_uniform(rng, 4, 41))
    q = int(rng.integers(1, 6))
    factors = rng.standard_normal((n, q)) * rng.uniform(0.3, 1.0)
    factors += np.repeat(ease * log_uniform(rng, 1.0, 4.0) * rng.standard_normal((k, q)), sizes, axis=0)
    latent = factors @ (rng.standard_normal((q, d)) / np.sqrt(q)) + rng.uniform(
        0.5, 1.2
    ) * rng.standard_normal((n, d))
    latent = (latent - latent.mean(axis=0)) / (latent.std(axis=0) + 1e-9)
    n_levels = int(rng.integers(2, 8))
    cuts = np.sort(rng.normal(rng.normal(0, 0.5, (d, 1)), 0.9, (d, n_levels - 1)), axis=1)
    return (latent[:, :, None] > cuts).sum(axis=2).astype(np.float64), ()


def _draw_counts(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Counts of words or genes: most are zero, rows differ in their totals."""
    n, k, d = int(sizes.sum()), len(sizes), int(log_uniform(rng, 20, 601))
    rates = np.exp(rng.normal(0.0, rng.uniform(0.8, 2.0), d))
    folds = rng.standard_normal((k, d)) * (rng.random((k, d)) < rng.uniform(0.05, 0.4))
    profiles = rates * np.exp(ease * log_uniform(rng, 0.7, 2.5) * folds)
    profiles /= profiles.sum(axis=1, keepdims=True)
    totals = d * log_uniform(rng, 0.1, 5.0) * np.exp(rng.uniform(0.1, 0.6) * rng.standard_normal((n, 1)))
    means = totals * np.repeat(profiles, sizes, axis=0)
    dispersion = rng.choice([0.0, 0.3, 1.0])
    if dispersion:
        means = means * rng.gamma(1 / dispersion, dispersion, means.shape)
    counts = rng.poisson(np.minimum(means, 1e6)).astype(np.float64)
    form = rng.integers(4)
    if form == 1:
        counts = np.log1p(counts)
    elif form == 2:
        counts = np.log1p(1e4 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))
    elif form == 3:
        counts = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1.0)
    return counts, ()


def _weak_columns(
    rng: np.random.Generator, sizes: np.ndarray, d: int, shift: float, informative: float
) -> np.ndarray:
    """Columns (n, d), a share ``informative`` of them with class means ``shift`` apart, and a few factors."""
    n, k = int(sizes.sum()), len(sizes)
    columns = rng.standard_normal((n, d))
    q = int(rng.integers(0, 6))
    if q:
        loadings = rng.standard_normal((q, d)) * rng.uniform(0.3, 1.2)
        columns += rng.standard_normal((n, q)) @ loadings
    means = shift * rng.standard_normal((k, d)) * (rng.random(d) < informative)
    return columns + np.repeat(means, sizes, axis=0)


def _draw_weak(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Many columns that are each weakly informative."""
    d = int(log_uniform(rng, 15, 301))
    shift = ease * log_uniform(rng, 2.0, 8.0) / np.sqrt(d)
    return _weak_columns(rng, sizes, d, shift, rng.uniform(0.5, 1.0)), ()


def _draw_few_of_many(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Clusters that differ in few of many columns."""
    d = int(log_uniform(rng, 10, 101))
    return _weak_columns(rng, sizes, d, ease * log_uniform(rng, 1.5, 4.0), rng.uniform(0.05, 0.3)), ()


def _draw_wide(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Far more columns than rows, as of gene expression."""
    d = int(log_uniform(rng, 300, 3001))
    columns = _weak_columns(rng, sizes, d, ease * log_uniform(rng, 0.4, 1.6), rng.uniform(0.03, 0.4))
    return columns * np.exp(rng.uniform(0.0, 1.0) * rng.standard_normal(d)), ()


def _draw_copies(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Rows in copies, or so nearly: every cluster is one point, or a few."""
    k, d = len(sizes), int(log_uniform(rng, 1, 13))
    points = np.repeat(rng.standard_normal((k, d)), sizes, axis=0)
    if rng.random() < 0.4:  # on a grid
        points = np.round(2 * points)
    noise = rng.choice([0.0, 1e-6, 1e-3, 0.02])
    return points + noise * rng.standard_normal(points.shape), ()


def _draw_series(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Series or spectra: a curve for each class, with shifts, amplitudes, drifts and noise of their own."""
    n, k, d = int(sizes.sum()), len(sizes), int(log_uniform(rng, 24, 401))
    times = np.linspace(0, 1, d)
    if rng.random() < 0.5:  # waves
        orders = np.arange(1, int(rng.integers(3, 12)))
        common = rng.standard_normal((1, 2, len(orders))) / orders ** rng.uniform(0.3, 1.2)
        own = rng.standard_normal((k, 2, len(orders))) / orders ** rng.uniform(0.3, 1.2)
        waves = rng.uniform(0.0, 1.5) * common + ease * rng.uniform(0.4, 1.2) * own

        def curve(labels: np.ndarray, places: np.ndarray) -> np.ndarray:
            angles = 2 * np.pi * places[:, :, None] * orders
            return np.asarray(
                (np.sin(angles) * waves[labels, 0][:, None] + np.cos(angles) * waves[labels, 1][:, None]).sum(
                    axis=2
                )
            )
    else:  # peaks
        n_peaks = int(rng.integers(2, 9))
        centres = rng.random((1, n_peaks)) + rng.uniform(0.0, 0.1) * rng.standard_normal((k, n_peaks))
        widths = np.exp(rng.uniform(np.log(0.01), np.log(0.1), n_peaks))
        heights = np.exp(ease * rng.uniform(0.2, 0.8) * rng.standard_normal((k, n_peaks)))

        def curve(labels: np.ndarray, places: np.ndarray) -> np.ndarray:
            found = np.zeros(places.shape)
            for p in range(n_peaks):
                gaps = (places - centres[labels, p][:, None]) / widths[p]
                found += heights[labels, p][:, None] * np.exp(-0.5 * gaps**2)
            return found

    labels = np.repeat(np.arange(k), sizes)
    places = times + rng.choice([0.0, 0.01, 0.04]) * rng.standard_normal((n, 1))
    rows = np.concatenate([curve(labels[i : i + 200], places[i : i + 200]) for i in range(0, n, 200)])
    rows = rows * np.exp(rng.choice([0.0, 0.1, 0.4]) * rng.standard_normal((n, 1)))
    rows += rng.choice([0.0, 0.3]) * rng.standard_normal((n, 1)) + rng.choice([0.0, 0.5]) * np.outer(
        rng.standard_normal(n), times
    )
    noise = rng.standard_normal((n, d)) * rng.uniform(0.05, 1.0) * rows.std()
    if rng.random() < 0.4:  # of a random walk
        noise = noise.cumsum(axis=1) / np.sqrt(d)
    return rows + noise, ()


def _draw_unions(rng: np.random.Generator, sizes: np.ndarray, ease: float) -> _Drawn:
    """Classes that are several clusters each, with parts of their own."""
    k, d = len(sizes), int(log_uniform(rng, 2, 31))
    centres = ease * log_uniform(rng, 1.5, 5.0) * rng.standard_normal((k, d))
    inner = rng.uniform(0.5, 2.5)
    rows = []
    for centre, size in zip(centres, sizes.tolist(), strict=True):
        parts = rng.integers(int(rng.integers(1, 5)), size=size)
        offsets = inner * rng.standard_normal((int(parts.max()) + 1, d))
        rows.append(centre + offsets[parts] + rng.standard_normal((size, d)))
    points = np.concatenate(rows)
    return points * np.exp(rng.choice([0.0, 0.5]) * rng.standard_normal(d)), ()


FIELDS: dict[str, tuple[float, Callable[[np.random.Generator, np.ndarray, float], _Drawn]]] = {
    "categories": (0.2, _draw_categories),
    "mixed": (0.12, _draw_mixed),
    "dummies": (0.08, _draw_dummies),
    "scales": (0.1, _draw_scales),
    "counts": (0.1, _draw_counts),
    "weak": (0.08, _draw_weak),
    "few-of-many": (0.08, _draw_few_of_many),
    "wide": (0.06, _draw_wide),
    "copies": (0.05, _draw_copies),
    "series": (0.08, _draw_series),
    "unions": (0.05, _draw_unions),
}
_FRAMES = ("scales", "counts", "few-of-many", "unions", "weak")  # kinds that may come as data frames


def _for_distances(columns: np.ndarray, categories: tuple[int, ...]) -> np.ndarray:
    """Columns of unit spread (n, f), categories as columns of zeros and ones."""
    numbers = np.delete(columns, categories, axis=1)
    parts = [numbers / (numbers.std(axis=0) + 1e-9)]
    parts += [(columns[:, [j]] == np.unique(columns[:, j])).astype(float) for j in categories]
    return np.concatenate(parts, axis=1)


def draw_field(rng: np.random.Generator, n: int) -> LabelledTable:
    """One table of n rows of one of these kinds, sorted by cluster."""
    names = list(FIELDS)
    shares = np.array([share for share, _ in FIELDS.values()])
    kind = names[int(rng.choice(len(names), p=shares / shares.sum()))]
    if kind == "wide":
        n = int(np.clip(n, 30, 250))
    columns, labels, categories = _draw_clusters(rng, kind, n)
    if not categories and kind != "copies" and rng.random() < 0.05:  # a typo
        row, column = int(rng.integers(n)), int(rng.integers(columns.shape[1]))
        columns[row, column] = (columns[row, column] + columns[:, column].std()) * 1000
    if kind != "counts" and rng.random() < 0.1:  # answers given twice
        copied = rng.random(n) < rng.uniform(0.05, 0.4)
        columns[copied] = columns[np.searchsorted(labels, labels)[copied]]
    framed = bool(categories) or (kind in _FRAMES and rng.random() < 0.5)
    return LabelledTable(columns, labels, kind, categories, framed)


def _draw_clusters(
    rng: np.random.Generator, kind: str, n: int
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Columns (n, d), labels (n,), sorted, and which columns are categories.

    Each new try is easier. Clusters that cannot be told apart even then are one.
    """
    max_k = max(1, min(_MAX_CLUSTERS, n // 10))
    single = rng.random() < _SINGLE_SHARE and kind != "copies"
    k = 1 if single or max_k < 2 else 2 + (int(rng.geometric(0.3)) - 1) % (max_k - 1)
    sizes = draw_sizes(rng, n, k)
    labels = merged = np.repeat(np.arange(k), sizes)
    for attempt in range(-1, MAX_TRIES):
        columns, categories = FIELDS[kind][1](rng, sizes, EASIER**attempt)
        if k == 1:
            break
        clear, merged = told_apart(rng, _for_distances(columns, categories), labels, _MIN_PURITY, 0.7)
        if clear:
            break
    return *by_cluster(columns, merged), categories


def _as_types(rng: np.random.Generator, columns: np.ndarray) -> np.ndarray:
    """Turn some of the columns (n, d) into skewed ones, counts, and categories."""
    n_types = 4
    shares = rng.dirichlet([2.0, 0.7, 0.5, 0.5])
    types = rng.choice(n_types, columns.shape[1], p=shares)
    scaled = (columns - columns.mean(axis=0)) / (columns.std(axis=0) + 1e-12)
    out = columns.copy()
    skewed, counts, levels = (types == j for j in (1, 2, 3))
    out[:, skewed] = np.exp(rng.uniform(0.3, 0.8) * np.clip(scaled[:, skewed], -5, 5))
    out[:, counts] = np.floor(np.exp(0.5 * np.clip(scaled[:, counts], -5, 5) + rng.uniform(0.5, 2.5)))
    for j in np.flatnonzero(levels):
        cuts = np.sort(rng.normal(0, 0.8, int(rng.integers(1, 5))))
        out[:, j] = np.searchsorted(cuts, scaled[:, j])
    return out


def draw_records(rng: np.random.Generator, sizes: np.ndarray, d: int, ease: float = 1.0) -> np.ndarray:
    """Draw records (n, d), sorted by cluster, with columns of variance 1 or constant."""
    k, n = len(sizes), int(sizes.sum())
    n_factors = int(rng.integers(0, 4))
    noise = rng.standard_normal((n, d))
    if n_factors:
        loadings = rng.normal(0, rng.uniform(0.3, 1.0), (n_factors, d))
        noise += rng.standard_normal((n, n_factors)) @ loadings
    widths = np.exp(rng.choice([0.0, 0.25]) * rng.standard_normal((k, d)).clip(-2, 2))
    noise *= np.repeat(widths, sizes, axis=0)
    weights = rng.standard_exponential(d) ** rng.choice([0.5, 1.0, 2.0])
    weights[rng.random(d) < rng.choice([0.0, 0.3, 0.6])] = 0.0
    weights[int(rng.integers(d))] += 1.0  # at least one column matters
    means = rng.standard_normal((k, d)) * weights
    means = spread_apart(means, scatter_matrices(noise, sizes), ease * log_uniform(rng, 2.4, 7.0))
    columns = noise + np.repeat(means, sizes, axis=0)
    typed = _as_types(rng, columns)
    spreads = typed.std(axis=0)
    return typed / np.where(spreads > 1e-9, spreads, 1.0)  # a category may have one level only
