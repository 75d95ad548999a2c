from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA

from clusterwise.neighbours import (
    MAX_COMPONENTS,
    fit_projection,
    in_one_unit,
    look_like_components,
    nearest,
    standardized,
)


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


def test_principal_components_are_known_by_their_spreads_and_correlations() -> None:
    rng = np.random.default_rng(7)
    mixed = (
        rng.standard_normal((600, 20)) @ rng.standard_normal((20, 20)) + 4 * rng.integers(0, 3, 600)[:, None]
    )
    components = PCA().fit_transform(mixed)
    assert look_like_components(components) and look_like_components(components[:, :3] * 1e-9)
    assert look_like_components(components[rng.choice(600, 300, replace=False)])  # some of the rows
    assert in_one_unit(components)
    assert not look_like_components(mixed) and not look_like_components(components[:, ::-1])
    assert not look_like_components(np.hstack([components, mixed[:, :1]]))
    assert not look_like_components(load_iris().data) and not look_like_components(load_wine().data)
    for odd in (np.ones((9, 3)), components[:5], np.full((50, 4), 1e300) * rng.standard_normal((50, 4))):
        assert not look_like_components(odd)
