"""Clusters are placed as far apart as was asked."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad.centred import (
    draw_centres,
    grid,
    nearest_separations,
    scatter_matrices,
    spread_apart,
)


def slow_separations(centres: np.ndarray, scatters: np.ndarray) -> list[float]:
    """Mahalanobis distance of each centre to the nearest other one, pair by pair."""
    k = len(centres)
    nearest = []
    for i in range(k):
        found = []
        for j in range(k):
            if i != j:
                offset = centres[i] - centres[j]
                pooled = 0.5 * (scatters[i] + scatters[j])
                found.append(float(np.sqrt(offset @ np.linalg.solve(pooled, offset))))
        nearest.append(min(found))
    return nearest


@pytest.mark.parametrize("d", [1, 2, 4, 7])
def test_separations_of_round_clusters_agree_with_a_slow_search(d: int) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((9, d))
    scatters = np.eye(d) * rng.uniform(0.9, 1.1, (9, 1, 1))
    np.testing.assert_allclose(
        nearest_separations(centres, scatters), slow_separations(centres, scatters), rtol=1e-3
    )


def test_separations_see_the_tilt_of_clusters() -> None:
    """Two flat clusters on top of each other are apart, side by side they touch."""
    flat = np.diag([25.0, 0.04])[None].repeat(2, axis=0)
    above = nearest_separations(np.array([[0.0, 0], [0, 2]]), flat)
    beside = nearest_separations(np.array([[0.0, 0], [2, 0]]), flat)
    assert above.min() > 9 > 0.5 > beside.max()


def test_crowded_neighbours_are_as_far_apart_as_asked() -> None:
    rng = np.random.default_rng(1)
    scatters = np.eye(2)[None].repeat(16, axis=0)
    placed = spread_apart(grid(rng, 16, 2), scatters, 5.0)
    assert np.sort(nearest_separations(placed, scatters))[4] == pytest.approx(5.0, rel=1e-3)


def test_scatter_is_that_of_each_cluster_and_withstands_outliers() -> None:
    rng = np.random.default_rng(2)
    sizes = np.array([4000, 3000])
    points = rng.standard_normal((7000, 2)) * np.repeat([[1.0, 3.0], [0.5, 0.2]], sizes, axis=0)
    points[:10] *= 20
    roots = np.sqrt(np.einsum("kii->ki", scatter_matrices(points, sizes)))
    np.testing.assert_allclose(roots, [[1, 3], [0.5, 0.2]], rtol=0.25)


@pytest.mark.parametrize("d", [1, 2, 3, 10])
def test_centres_differ(d: int) -> None:
    for seed in range(40):
        centres = draw_centres(np.random.default_rng(seed), np.ones(30), d)
        assert centres.shape == (30, d)
        assert len(np.unique(centres.round(9), axis=0)) == 30
