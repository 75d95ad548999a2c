"""The map between columns and features: units at any magnitude, columns in use, projections, and back."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clusterwise.affine import (
    AffineMap,
    fit_feature_map,
    fit_scaling,
    principal_axes,
    scale_sets,
)

POINTS = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 4.0, 0.2] + [3.0, -1.0, 0.0]
SCALES = [1e-150, 1e-30, 1e-3, 1.0, 7.0, 1e30, 1e150]


# -- scaling -----------------------------------------------------------------------------------------


def test_joint_scaling_keeps_the_shape() -> None:
    scaling = fit_scaling(POINTS)
    scaled = scaling.apply(POINTS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-14)
    assert np.sqrt(np.square(scaled).mean()) == pytest.approx(1.0)
    assert len(set(scaling.scale)) == 1
    np.testing.assert_allclose(scaling.shift, POINTS.mean(axis=0))


def test_scaling_per_feature() -> None:
    scaled = fit_scaling(POINTS, per_feature=True).apply(POINTS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.square(scaled).mean(axis=0), 1.0)


@pytest.mark.parametrize("per_feature", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_units_do_not_matter(scale: float, per_feature: bool) -> None:
    """From 1e-150 to 1e150, and far from the origin, without overflow."""
    expected = fit_scaling(POINTS, per_feature).apply(POINTS)
    for shift in (0.0, 1000.0 * scale):
        moved = POINTS * scale + shift
        found = fit_scaling(moved, per_feature).apply(moved)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_inverse(scale: float) -> None:
    moved = POINTS * scale
    scaling = fit_scaling(moved)
    np.testing.assert_allclose(scaling.inverse(scaling.apply(moved)), moved, rtol=1e-12, atol=1e-13 * scale)
    assert scaling.log_volume == pytest.approx(3 * np.log(scaling.scale[0]))


def test_a_power_of_two_changes_no_bit() -> None:
    """Scales of computers: nothing is rounded, so nothing may differ."""
    expected = fit_scaling(POINTS).apply(POINTS)
    for power in (-400, -3, 10, 400):
        moved = POINTS * 2.0**power
        np.testing.assert_array_equal(fit_scaling(moved).apply(moved), expected)


def test_numbers_near_the_largest_float() -> None:
    column = np.array([1.7, 1.7, 1.7, -1.7])
    points = np.column_stack([column * 1e308, np.zeros(4)])
    expected = np.column_stack([column, np.zeros(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit_scaling(points).apply(points)
    np.testing.assert_allclose(found, fit_scaling(expected).apply(expected))


@pytest.mark.parametrize("n", [1, 3, 1000, 20_001])
@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e9 / 3, 1e150 / 7, 1e-150 / 3])
def test_constant_data_keep_their_scale(n: int, value: float) -> None:
    """The mean of many equal numbers is off by rounding; that must not pass for spread."""
    points = np.full((n, 2), value)
    for per_feature in (False, True):
        scaling = fit_scaling(points, per_feature)
        np.testing.assert_array_equal(scaling.scale, 1.0)
        np.testing.assert_allclose(scaling.apply(points), 0.0, atol=4 * np.finfo(float).eps * abs(value))


@pytest.mark.parametrize("scale", SCALES)
def test_constant_columns(scale: float) -> None:
    points = np.column_stack([POINTS[:, 0], np.full(50, 0.7)]) * scale
    joint, each = fit_scaling(points), fit_scaling(points, per_feature=True)
    np.testing.assert_allclose(joint.apply(points)[:, 1], 0.0, atol=1e-12)
    assert np.square(joint.apply(points)).mean() == pytest.approx(1.0)
    assert each.scale[1] == 1.0
    np.testing.assert_allclose(each.apply(points)[:, 1], 0.0, atol=1e-15 * scale)
    assert np.square(each.apply(points)[:, 0]).mean() == pytest.approx(1.0)


def test_rounding_noise_is_judged_column_by_column() -> None:
    """A huge constant beside a small column: the small one still has a spread, noise alone has none."""
    small = np.column_stack([np.full(50, 1.7e9), 1e-8 * POINTS[:, 0]])
    np.testing.assert_allclose(np.square(fit_scaling(small).apply(small)[:, 1]).mean(), 2.0)
    noise = 1e9 * (1 + np.finfo(float).eps * np.arange(3)[:, None])
    for per_feature in (False, True):
        assert fit_scaling(noise, per_feature).scale == 1.0


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 3)),
        elements=st.floats(-1e150, 1e150, allow_subnormal=False),
    )
)
def test_scaled_data_are_finite_and_of_unit_spread_or_constant(points: np.ndarray) -> None:
    scaling = fit_scaling(points)
    assert (scaling.scale > 0).all()
    scaled = scaling.apply(points)
    assert np.isfinite(scaled).all()
    spread = np.sqrt(np.square(scaled).mean())
    assert spread == pytest.approx(1.0) or (scaling.scale == 1.0).all()


def test_training_sets_are_scaled_like_the_users() -> None:
    sets = np.random.default_rng(1).normal(size=(4, 20, 2)) * np.array([1e-3, 1, 5, 1e6])[:, None, None] + 3
    for points, scaled in zip(sets, scale_sets(sets), strict=True):
        np.testing.assert_allclose(scaled, fit_scaling(points).apply(points), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(scale_sets(np.full((2, 5, 2), 3.0)), 0.0)


# -- features of a network ---------------------------------------------------------------------------


def fit(points: np.ndarray, n_features: int = 2, scaling: str = "joint") -> AffineMap:
    return fit_feature_map(points, n_features, scaling)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 600])
@pytest.mark.parametrize("scaling", ["joint", "feature"])
def test_the_network_sees_unit_spread(rng: np.random.Generator, d: int, scaling: str) -> None:
    points = rng.normal(size=(50, d)) * rng.uniform(1, 100, d) + 1e3
    features = fit(points, 2, scaling).apply(points)
    assert features.shape == (50, min(d, 2))
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-9)
    assert np.square(features).sum() / (50 * 2) == pytest.approx(1)


@pytest.mark.parametrize("d", [1, 2])
def test_inverse_of_features(rng: np.random.Generator, d: int) -> None:
    points = rng.normal(size=(50, d)) * 30 + 5
    feature_map = fit(points)
    np.testing.assert_allclose(feature_map.inverse(feature_map.apply(points)), points)
    spread = feature_map.inverse(rng.normal(size=(40_000, d))).var(axis=0)
    # The standard error of a variance is sqrt(2 / n) of it.
    covariance = feature_map.covariances(np.eye(d)[None])[0]
    np.testing.assert_allclose(spread, np.diag(covariance), rtol=5 * np.sqrt(2 / 40_000))


@pytest.mark.parametrize("d", [3, 9])
def test_inverse_of_a_projection_is_the_nearest_point_on_the_plane(rng: np.random.Generator, d: int) -> None:
    points = rng.normal(size=(200, d)) * np.linspace(9, 1, d)
    feature_map = fit(points)
    nearest = feature_map.inverse(feature_map.apply(points))
    np.testing.assert_allclose(feature_map.apply(nearest), feature_map.apply(points), atol=1e-9)
    centred = points - points.mean(axis=0)
    left_over = np.square(points - nearest).sum() / np.square(centred).sum()
    expected = np.linalg.svd(centred, compute_uv=False)[2:] ** 2
    assert left_over == pytest.approx(expected.sum() / np.square(centred).sum())


def test_covariances_of_a_projection(rng: np.random.Generator) -> None:
    points = rng.normal(size=(200, 4)) * [8, 4, 1, 0.5]
    feature_map = fit(points, 2, "feature")
    given = np.array([[0.25, 0.3], [0.3, 4.0]])
    drawn = feature_map.inverse(rng.multivariate_normal(np.zeros(2), given, 40_000))
    covariance = feature_map.covariances(given[None])[0]
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
    origin, *corners = feature_map.inverse(np.vstack([np.zeros((1, f)), np.eye(f)]))
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
    np.testing.assert_array_equal(feature_map.inverse(np.zeros((1, 2))), np.full((1, d), 7.0))


def test_the_sign_of_an_axis_is_not_left_to_rounding(rng: np.random.Generator) -> None:
    """Two features of the same size: the axis is (1, -1) / sqrt(2), and either could be the largest."""
    along = rng.normal(size=300)
    for noise in rng.normal(0, 1e-12, (20, 300, 3)):
        points = np.column_stack([along, -along, np.zeros(300)]) + noise
        assert principal_axes(points - points.mean(axis=0), 1)[0, 0] > 0
