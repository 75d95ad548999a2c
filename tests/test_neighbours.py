from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from clusterwise.neighbours import MAX_COMPONENTS, fit_projection, in_one_unit, nearest, standardized


def test_few_columns_each_have_their_unit() -> None:
    points = np.random.default_rng(0).standard_normal((50, 4)) * [1, 10, 100, 1000]
    assert not in_one_unit(points)
    np.testing.assert_allclose(standardized(points).std(axis=0), 1)
    np.testing.assert_allclose(standardized(points * [3.0, 0.1, 7.0, 1e5]), standardized(points))


def test_many_similar_columns_share_one() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((50, 20)) * rng.uniform(1, 5, 20)
    assert in_one_unit(points)
    assert not in_one_unit(points * 10.0 ** np.arange(20))
    spreads = standardized(points).std(axis=0)
    np.testing.assert_allclose(spreads / spreads[0], points.std(axis=0) / points.std(axis=0)[0])


@pytest.mark.parametrize("d", [80, 300])
def test_projections_keep_distances_of_rows_in_a_subspace(d: int) -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((90, 5)) @ rng.standard_normal((5, d))
    points = fit_projection(features).apply(features)
    assert points.shape[1] <= MAX_COMPONENTS
    gaps = [np.linalg.norm(one[0] - one[1:], axis=1) for one in (features, points)]
    np.testing.assert_allclose(gaps[0], gaps[1])
    assert fit_projection(points).apply(points) is points


@pytest.mark.parametrize("f", [2, 9])
def test_nearest_against_all_distances(f: int) -> None:
    rng = np.random.default_rng(0)
    points, among = rng.standard_normal((50, f)), rng.standard_normal((70, f))
    indices, distances = nearest(points, among, 4)
    every = np.sort(cdist(points, among), axis=1)[:, :4]
    np.testing.assert_allclose(distances, every, atol=1e-7)
    np.testing.assert_allclose(np.take_along_axis(cdist(points, among), indices, 1), every, atol=1e-7)
