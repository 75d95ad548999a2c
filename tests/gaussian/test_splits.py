"""Clusters that are two are told from those that are one, and cut where they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from search_data import heaps, sample_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.gaussian.mixture import Sample, fit_em, mixture_of_labels
from clusterwise.gaussian.search import split
from clusterwise.gaussian.splits import (
    CUT_GAUSSIAN,
    MAX_DIRECTIONS,
    QUANTILES,
    best_split,
    first_sides,
    log_p_gaussian,
    projections,
)


def slow_sides(projected: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``first_sides`` cut by cut."""
    likeliest, least_expected = [], []
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
            if min(below, total - below) / total >= QUANTILES[0]:
                expected = total * np.interp(below / total, QUANTILES, CUT_GAUSSIAN)
                best[1] = max(best[1], (value - expected, cut))
        likeliest.append(row > best[0][1])
        least_expected.append(row > best[1][1])
    return np.array(likeliest + least_expected)


@pytest.mark.parametrize(("n", "d"), [(60, 2), (150, 5)])
def test_cuts_are_the_best_ones(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    points, weights = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)), rng.uniform(0.2, 1.0, n)
    points[: n // 3] += 2.0
    projected = projections(points, weights, MAX_DIRECTIONS)
    np.testing.assert_array_equal(first_sides(projected, weights), slow_sides(projected, weights))


def test_no_width_no_projections() -> None:
    assert projections(np.ones((10, 2)), np.ones(10), 6).shape == (0, 10)
    line = np.column_stack([np.arange(10.0), np.zeros(10)])
    assert projections(line, np.ones(10), 6).shape == (1, 10)
    assert projections(np.zeros((3, 5)), np.ones(3), MAX_DIRECTIONS).shape == (
        0,
        3,
    )  # fewer rows than columns


def test_projections_are_standardized_and_find_the_gap() -> None:
    """Two clusters apart in one of five features, whatever the data are mixed with."""
    points, labels = heaps([200, 200], 8.0, d=5)
    points = points @ np.random.default_rng(1).standard_normal((5, 5))
    projected = projections(points, np.ones(400), MAX_DIRECTIONS)
    np.testing.assert_allclose(projected.mean(axis=1), 0.0, atol=1e-8)
    np.testing.assert_allclose(projected.var(axis=1), 1.0)
    agreement = [adjusted_rand_score(labels, row > 0) for row in projected]
    assert max(agreement) > 0.95


def test_weights_count_as_copies() -> None:
    points = np.random.default_rng(3).gamma(2.0, size=(200, 3))
    weights = np.repeat([1.0, 2.0], 100)
    copied = np.concatenate([points, points[100:]])
    found = log_p_gaussian(projections(points, weights, 6), weights)
    assert found == pytest.approx(log_p_gaussian(projections(copied, np.ones(300), 6), np.ones(300)))


def test_a_tilted_gaussian_is_a_gaussian() -> None:
    """The test says so whatever the correlation is, and as often as it should; three in a row are none."""
    n_odd = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((300, 2)) @ np.array([[1.0, 0.0], [4.0, 0.2]])
        projected = projections(points, np.ones(300), MAX_DIRECTIONS)
        turned = projections(
            points @ stats.ortho_group.rvs(2, random_state=seed), np.ones(300), MAX_DIRECTIONS
        )
        log_p = log_p_gaussian(projected, np.ones(300))
        assert log_p == pytest.approx(log_p_gaussian(turned, np.ones(300)), abs=2.0)
        n_odd += log_p < np.log(0.001)
    assert n_odd <= 12  # several tests each, and directions that were sought out
    three, _ = heaps([40, 120, 40], 6.0)
    assert log_p_gaussian(projections(three, np.ones(200), MAX_DIRECTIONS), np.ones(200)) < np.log(1e-3)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize(("sizes", "gap"), [([100, 100], 4.0), ([150, 12], 7.0)])
def test_a_split_is_found(covariance_type, sizes: list[int], gap: float) -> None:
    points, labels = heaps(sizes, gap)
    mixture = mixture_of_labels(sample_of(points, covariance_type), np.zeros_like(labels))
    found = best_split(mixture, 0)
    assert found is not None
    assert found.gain > 0
    np.testing.assert_allclose(found.parts.sum(axis=0), mixture.memberships[0])
    parts = split(mixture, [found])
    np.testing.assert_allclose(parts.statistics.sum(axis=0), mixture.statistics.sum(axis=0), atol=1e-9)
    after = fit_em(parts)
    assert after.log_evidence > mixture.log_evidence
    assert adjusted_rand_score(labels, after.labels) > 0.85


def test_one_gaussian_has_no_split(three: tuple[Sample, np.ndarray]) -> None:
    points = np.random.default_rng(0).standard_normal((400, 3)) @ np.diag([3.0, 1.0, 0.1])
    found = best_split(mixture_of_labels(sample_of(points), np.zeros(400, dtype=np.int64)), 0)
    assert found is None or found.gain < 0
    sample, labels = three
    mixture = mixture_of_labels(sample, labels)
    splits = [best_split(mixture, j) for j in range(3)]
    assert all(one is None or one.gain < 0 for one in splits)
