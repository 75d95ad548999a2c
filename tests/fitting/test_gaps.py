"""Compiled looks at gaps and far rows agree with the slow, obvious version in numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from clusterwise.fitting.gaps import MIN_MASS, N_BINS, groups_without_gap, n_far_rows, valley


def slow_valley(values: np.ndarray) -> float:
    n, ordered = len(values), np.sort(values)
    spread = min(ordered.std(), (ordered[(3 * n) // 4] - ordered[n // 4]) / 1.349)
    width = 1.06 * spread * n**-0.2
    step = (ordered[-1] - ordered[0] + 2 * width) / (N_BINS - 1)
    counts = np.bincount(((ordered - ordered[0] + width) / step + 0.5).astype(int), minlength=N_BINS)
    reach = min(int(np.ceil(3 * width / step)), N_BINS // 2 - 1)
    kernel = np.exp(-0.5 * np.square(np.arange(-reach, reach + 1) * step / max(width, step / 2)))
    density = np.convolve(counts, kernel / kernel.sum(), "same")
    peaks = np.minimum(np.maximum.accumulate(density), np.maximum.accumulate(density[::-1])[::-1])
    below = counts.cumsum() / n
    inside = (below > MIN_MASS) & (below < 1 - MIN_MASS)
    return float(np.min(density[inside] / peaks[inside], initial=1.0))


def five_clusters() -> tuple[np.ndarray, np.ndarray]:
    """Rows by cluster, and bounds: the first two and the next two run into each other."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [20.0, 0.0], [20.0, 1.5], [0.0, 20.0]])
    sizes = np.array([100, 80, 120, 90, 60])
    return np.repeat(centres, sizes, axis=0) + rng.normal(size=(450, 2)), np.r_[0, sizes.cumsum()]


@pytest.mark.parametrize("gap", [0.0, 2.0, 3.0, 6.0])
def test_valleys_agree(gap: float) -> None:
    values = np.random.default_rng(1).normal(size=300)
    values[:120] += gap
    assert valley(values) == pytest.approx(slow_valley(values), rel=1e-9)


def test_groups_agree() -> None:
    rows, bounds = five_clusters()
    clusters = [rows[start:end] for start, end in itertools.pairwise(bounds)]
    links = np.zeros((5, 5), dtype=bool)
    for i, one in enumerate(clusters):
        distances = [np.square(one.mean(0) - other.mean(0)).sum() for other in clusters]
        for j in np.argsort(distances)[1:3]:
            other = clusters[j]
            pooled = len(one) * np.cov(one.T, bias=True) + len(other) * np.cov(other.T, bias=True)
            axis = np.linalg.solve(pooled, other.mean(0) - one.mean(0))
            links[i, j] = slow_valley(np.concatenate([one, other]) @ axis) > 0.85
    slow = connected_components(links, directed=False)[1]
    found = groups_without_gap(rows, bounds, 0.85)
    np.testing.assert_array_equal(found, slow)
    assert found.tolist() == [0, 0, 1, 1, 2]


@pytest.mark.parametrize("full", [True, False])
def test_far_rows_agree(full: bool) -> None:
    rows, bounds = five_clusters()
    rows[::50] += 9.0
    middle, limit, far = 1.386, 13.8, 0
    for start, end in itertools.pairwise(bounds):
        if end - start < 70:
            continue
        covariance = np.cov(rows[start:end].T, bias=True)
        covariance = covariance if full else np.diag(np.diag(covariance))
        offsets = rows[start:end] - rows[start:end].mean(axis=0)
        lengths = (offsets * np.linalg.solve(covariance, offsets.T).T).sum(axis=1)
        far += int((lengths * middle / np.median(lengths) > limit).sum())
    assert far > 0
    assert n_far_rows(rows, bounds, 70, full, middle, limit) == far
