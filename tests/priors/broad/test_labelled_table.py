"""Rows, clusters and columns stay in their ranges; clusters that cannot be told apart are found."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad.labelled_table import (
    confused_groups,
    confusion,
    draw_n_clusters,
    draw_n_features,
    draw_sizes,
    link_counts,
    neighbour_purity,
)


@pytest.mark.parametrize(("n_rows", "k"), [(9, 3), (24, 8), (500, 1), (800, 100)])
def test_sizes_add_up_and_none_is_tiny(n_rows: int, k: int) -> None:
    for seed in range(60):
        sizes = draw_sizes(np.random.default_rng(seed), n_rows, k)
        assert sizes.shape == (k,)
        assert sizes.sum() == n_rows
        assert sizes.min() >= 3


def test_sizes_range_from_balanced_to_very_unequal() -> None:
    ratios = []
    for seed in range(200):
        sizes = draw_sizes(np.random.default_rng(seed), 1000, 10)
        ratios.append(sizes.max() / sizes.min())
    assert min(ratios) == 1
    assert max(ratios) > 15


@pytest.mark.parametrize(
    ("n_rows", "max_k", "limit"), [(20, 100, 2), (80, 100, 10), (2000, 100, 100), (2000, 7, 7)]
)
def test_clusters_have_enough_rows(n_rows: int, max_k: int, limit: int) -> None:
    rng = np.random.default_rng(0)
    k = [draw_n_clusters(rng, n_rows, max_k) for _ in range(3000)]
    assert min(k) == 1
    assert max(k) <= limit
    assert max(k) > 0.8 * limit


@pytest.mark.parametrize("max_d", [1, 2, 5, 40, 128])
def test_features_reach_their_limit_and_not_beyond(max_d: int) -> None:
    rng = np.random.default_rng(0)
    d = [draw_n_features(rng, max_d) for _ in range(3000)]
    assert min(d) == 1
    assert 0.9 * max_d <= max(d) <= max_d


def two_gaussians(seed: int, gap: float, d: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    points = np.random.default_rng(seed).standard_normal((2 * n, d))
    labels = np.repeat([0, 1], n)
    points[labels == 1, 0] += gap
    return points, labels


def slow_link_counts(points: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    links = np.zeros((k, k), dtype=int)
    for i, point in enumerate(points):
        for j in np.argsort(np.linalg.norm(points - point, axis=1))[1:5]:
            links[labels[i], labels[j]] += 1
    return links


@pytest.mark.parametrize("d", [2, 5, 6, 9])
def test_links_agree_with_a_slow_search(d: int) -> None:
    points, labels = two_gaussians(0, 2.0, d, n=100)
    fast = link_counts(np.random.default_rng(0), points, labels, 2)
    np.testing.assert_array_equal(fast, slow_link_counts(points, labels, 2))


@pytest.mark.parametrize("d", [1, 2, 8])
def test_confusion_falls_with_the_gap(d: int) -> None:
    values = []
    for gap in (0.0, 1.5, 3.0, 9.0):
        points, labels = two_gaussians(1, gap, d)
        values.append(confusion(link_counts(np.random.default_rng(0), points, labels, 2))[0, 1])
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(1.0, abs=0.15)
    assert values[-1] < 0.01


def test_purity_is_zero_by_chance_and_one_apart() -> None:
    for gap, expected in ((0.0, 0.0), (20.0, 1.0)):
        points, labels = two_gaussians(2, gap, 2, n=1000)
        found = neighbour_purity(link_counts(np.random.default_rng(0), points, labels, 2))
        assert found == pytest.approx(expected, abs=0.06)


def test_only_coinciding_clusters_are_one() -> None:
    rng = np.random.default_rng(3)
    centres = np.array([[0.0, 0], [0.3, 0], [8, 0], [8, 3.5], [0, 9]])
    labels = np.repeat(np.arange(5), 200)
    points = centres[labels] + rng.standard_normal((1000, 2))
    groups = confused_groups(link_counts(rng, points, labels, 5))
    assert groups[0] == groups[1]
    assert len(np.unique(groups)) == 4


def test_a_dense_core_in_a_halo_is_a_cluster_of_its_own() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], 200)
    points = rng.standard_normal((400, 2)) * np.where(labels == 0, 1.0, 0.1)[:, None]
    assert len(np.unique(confused_groups(link_counts(rng, points, labels, 2)))) == 2
