"""Tests of a cluster's shape and its first cuts agree with the slow, obvious version in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from search_data import heaps, sample_of

from clusterwise.gaussian.climb import climb
from clusterwise.gaussian.em import expect
from clusterwise.gaussian.shapes import (
    CUT_GAUSSIAN,
    EIGHTHS,
    POINTS_PER_EIGHTH,
    first_sides,
    log_p_gaussian,
    projections,
)


def slow_projections(points: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    count = weights.sum()
    centred = points - weights @ points / count
    variances, axes = np.linalg.eigh((centred * weights[:, None]).T @ centred / count)
    white = centred @ (axes / np.sqrt(variances))
    lengths = np.square(white).sum(axis=1) * weights
    fourth, directions = np.linalg.eigh((white * lengths[:, None]).T @ white / count)
    ranked = np.argsort(-np.abs(fourth - (white.shape[1] + 2)), kind="stable")[: most - 1]
    skew = lengths @ white
    return np.concatenate([directions[:, ranked], skew[:, None] / np.linalg.norm(skew)], axis=1).T @ white.T


def slow_log_p(projected: np.ndarray, weights: np.ndarray) -> float:
    count, log_ps = weights.sum(), []
    for row in projected:
        skewness, kurtosis = (row**3 @ weights / count, row**4 @ weights / count - 3)
        log_ps.append(-count / 12 * (skewness**2 + kurtosis**2 / 4))  # exp(-x / 2) is chi-squared with 2
        if count >= 8 * POINTS_PER_EIGHTH:
            counts = np.histogram(row, np.r_[-np.inf, EIGHTHS, np.inf], weights=weights)[0]
            log_ps.append(stats.chi2(5).logsf(np.square(counts - count / 8).sum() / (count / 8)))
    return min(log_ps) + np.log(2 * len(projected))


def slow_sides(projected: np.ndarray, weights: np.ndarray) -> np.ndarray:
    likeliest, oddest = [], []
    quantiles = np.arange(1, len(CUT_GAUSSIAN) + 1) / (len(CUT_GAUSSIAN) + 1)
    total = weights.sum()
    for row in projected:
        best = [(-np.inf, 0.0), (-np.inf, 0.0)]
        for cut in np.sort(row)[:-1]:
            value, below = -total * np.log(total), weights[row <= cut].sum()
            for side in (row <= cut, row > cut):
                count = weights[side].sum()
                mean = weights[side] @ row[side] / count
                variance = weights[side] @ np.square(row[side] - mean) / count
                value += count * (np.log(count) - 0.5 * np.log(variance + 1 / (1 + count)))
            if min(below, total - below) >= 1:
                best[0] = max(best[0], (value, cut))
            if min(below, total - below) / total >= quantiles[0]:
                expected = total * np.interp(below / total, quantiles, CUT_GAUSSIAN)
                best[1] = max(best[1], (value - expected, cut))
        likeliest.append(row > best[0][1])
        oddest.append(row > best[1][1])
    return np.array(likeliest + oddest)


@pytest.fixture(params=[(60, 2), (150, 5)])
def cluster(request) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) of two overlapping parts, and weights (n,)."""
    n, d = request.param
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
    points[: n // 3] += 2.0
    return points, rng.uniform(0.2, 1.0, n)


def test_projections_agree(cluster) -> None:
    points, weights = cluster
    np.testing.assert_allclose(
        np.abs(projections(points, weights, 6)), np.abs(slow_projections(points, weights, 6)), atol=1e-8
    )


def test_no_width_no_projections() -> None:
    assert projections(np.ones((10, 2)), np.ones(10), 6).shape == (0, 10)
    line = np.column_stack([np.arange(10.0), np.zeros(10)])
    assert projections(line, np.ones(10), 6).shape == (1, 10)


def test_probabilities_agree(cluster) -> None:
    points, weights = cluster
    projected = projections(points, weights, 6)
    assert log_p_gaussian(projected, weights) == pytest.approx(slow_log_p(projected, weights), rel=1e-9)


def test_cuts_agree(cluster) -> None:
    points, weights = cluster
    projected = projections(points, weights, 6)
    np.testing.assert_array_equal(first_sides(projected, weights), slow_sides(projected, weights))


def test_expectations_agree() -> None:
    log_joint = np.random.default_rng(0).normal(0.0, 20.0, (5, 300))
    shifted = log_joint - log_joint.max(axis=0)
    slow = np.exp(shifted) / np.exp(shifted).sum(axis=0)
    entropy = -(slow * np.log(np.maximum(slow, 1e-300))).sum(axis=0)
    density = np.log(np.exp(shifted).sum(axis=0)) + log_joint.max(axis=0)
    memberships, found_entropy, found_density = expect(log_joint.copy())
    np.testing.assert_allclose(memberships, slow, atol=1e-15)
    np.testing.assert_allclose(found_entropy, entropy, atol=1e-12)
    np.testing.assert_allclose(found_density, density, rtol=1e-13)


def test_points_column_by_column_give_the_same() -> None:
    """Compiled functions take rows that lie one after the other; others are copied first."""
    points, _ = heaps([80, 80], 4.0)
    points = points[np.argsort(points[:, 0])]
    found = []
    for layout in (points, np.asfortranarray(points)):
        sample = sample_of(layout)
        states = climb(sample, [np.zeros(160, dtype=np.int64)], with_moves=True)
        found.append((states[0].n_clusters, states[0].log_evidence))
    assert found[0][0] == 2
    assert found[0] == pytest.approx(found[1])
