"""The map between the user's features and the network's."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.fitting.features import FeatureMap, fit_feature_map, pad_features, principal_axes


def fit(points: np.ndarray, n_features: int = 2, scaling: str = "joint") -> FeatureMap:
    return fit_feature_map(points, n_features, scaling)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 600])
@pytest.mark.parametrize("scaling", ["joint", "feature"])
def test_the_network_sees_unit_spread(rng: np.random.Generator, d: int, scaling: str) -> None:
    points = rng.normal(size=(50, d)) * rng.uniform(1, 100, d) + 1e3
    seen = pad_features(fit(points, 2, scaling).apply(points), 2)
    assert seen.shape == (50, 2)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-9)
    assert np.square(seen).mean() == pytest.approx(1)


@pytest.mark.parametrize("d", [1, 2])
def test_undo(rng: np.random.Generator, d: int) -> None:
    points = rng.normal(size=(50, d)) * 30 + 5
    feature_map = fit(points)
    np.testing.assert_allclose(feature_map.undo(feature_map.apply(points)), points)
    spread = feature_map.undo(rng.normal(size=(40_000, d))).var(axis=0)
    # The standard error of a variance is sqrt(2 / n) of it.
    covariance = feature_map.undo_covariances(np.eye(d)[None])[0]
    np.testing.assert_allclose(spread, np.diag(covariance), rtol=5 * np.sqrt(2 / 40_000))


@pytest.mark.parametrize("d", [3, 9])
def test_undo_of_a_projection_is_the_nearest_point_on_the_plane(rng: np.random.Generator, d: int) -> None:
    points = rng.normal(size=(200, d)) * np.linspace(9, 1, d)
    feature_map = fit(points)
    nearest = feature_map.undo(feature_map.apply(points))
    np.testing.assert_allclose(feature_map.apply(nearest), feature_map.apply(points), atol=1e-9)
    centred = points - points.mean(axis=0)
    left_over = np.square(points - nearest).sum() / np.square(centred).sum()
    expected = np.linalg.svd(centred, compute_uv=False)[2:] ** 2
    assert left_over == pytest.approx(expected.sum() / np.square(centred).sum())


def test_covariances_of_a_projection(rng: np.random.Generator) -> None:
    points = rng.normal(size=(200, 4)) * [8, 4, 1, 0.5]
    feature_map = fit(points, 2, "feature")
    given = np.array([[0.25, 0.3], [0.3, 4.0]])
    drawn = feature_map.undo(rng.multivariate_normal(np.zeros(2), given, 40_000))
    covariance = feature_map.undo_covariances(given[None])[0]
    sds = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(sds, sds), covariance / np.outer(sds, sds), atol=0.05
    )


@pytest.mark.parametrize("d", [1, 2, 5])
def test_log_volume(rng: np.random.Generator, d: int) -> None:
    """How much the area of the network's features grows on its way back to the units of the data."""
    points = rng.normal(size=(60, d)) * 1e3
    feature_map = fit(points)
    f = min(d, 2)
    origin, *corners = feature_map.undo(np.vstack([np.zeros((1, f)), np.eye(f)]))
    edges = np.stack(corners) - origin
    area = np.sqrt(np.linalg.det(edges @ edges.T))
    assert feature_map.log_volume == pytest.approx(np.log(area))


@pytest.mark.parametrize("d", [1, 2, 3, 40, 600])
def test_rows_one_by_one(rng: np.random.Generator, d: int) -> None:
    points = rng.normal(size=(101, d))
    feature_map = fit(points)
    together = feature_map.apply(points)
    np.testing.assert_array_equal(feature_map.apply(np.asfortranarray(points)), together)
    np.testing.assert_array_equal(np.vstack([feature_map.apply(row[None]) for row in points]), together)


def test_far_points_stay_finite(rng: np.random.Generator) -> None:
    points = rng.normal(size=(50, 3)) * 1e-150
    far = np.array([[1e308, -1e308, 0.0], [1e200, 1e200, 1e200]])
    assert np.isfinite(fit(points).apply(far)).all()


# -- principal axes ------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [4, 501, 900])
@pytest.mark.parametrize("n", [30, 1000])
def test_principal_axes(rng: np.random.Generator, n: int, d: int) -> None:
    """Exact up to 500 features, close to exact beyond, where the spectrum has a gap."""
    points = rng.normal(size=(n, 3)) * [20, 10, 1] @ rng.normal(size=(3, d)) / np.sqrt(d)
    points = points - points.mean(axis=0)
    axes = principal_axes(points, 2)
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-9)
    expected = np.linalg.svd(points, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(np.diag(expected @ axes)), 1, atol=1e-6)
    assert (axes[np.abs(axes).argmax(axis=0), [0, 1]] > 0).all()


@pytest.mark.parametrize("d", [3, 600])
def test_fewer_rows_than_axes(d: int) -> None:
    feature_map = fit(np.full((1, d), 7.0))
    np.testing.assert_array_equal(feature_map.apply(np.full((2, d), 7.0)), np.zeros((2, 2)))
    np.testing.assert_array_equal(feature_map.undo(np.zeros((1, 2))), np.full((1, d), 7.0))


def test_the_sign_of_an_axis_is_not_left_to_rounding(rng: np.random.Generator) -> None:
    """Two features of the same size: the axis is (1, -1) / sqrt(2), and either could be the largest."""
    along = rng.normal(size=300)
    for noise in rng.normal(0, 1e-12, (20, 300, 3)):
        points = np.column_stack([along, -along, np.zeros(300)]) + noise
        assert principal_axes(points - points.mean(axis=0), 1)[0, 0] > 0
