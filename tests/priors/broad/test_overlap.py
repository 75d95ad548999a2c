"""Clusters that cannot be told apart are found, and others are left alone."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad.overlap import clarity, confusion, hopeless_groups, link_counts


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


def test_clarity_is_zero_by_chance_and_one_apart() -> None:
    for gap, expected in ((0.0, 0.0), (20.0, 1.0)):
        points, labels = two_gaussians(2, gap, 2, n=1000)
        found = clarity(link_counts(np.random.default_rng(0), points, labels, 2))
        assert found == pytest.approx(expected, abs=0.06)


def test_only_coinciding_clusters_are_one() -> None:
    rng = np.random.default_rng(3)
    centres = np.array([[0.0, 0], [0.3, 0], [8, 0], [8, 3.5], [0, 9]])
    labels = np.repeat(np.arange(5), 200)
    points = centres[labels] + rng.standard_normal((1000, 2))
    groups = hopeless_groups(link_counts(rng, points, labels, 5))
    assert groups[0] == groups[1]
    assert len(np.unique(groups)) == 4


def test_a_dense_core_in_a_halo_is_not_hopeless() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], 200)
    points = rng.standard_normal((400, 2)) * np.where(labels == 0, 1.0, 0.1)[:, None]
    assert len(np.unique(hopeless_groups(link_counts(rng, points, labels, 2)))) == 2
