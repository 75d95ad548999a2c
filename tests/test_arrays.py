"""The border between arrays and tensors: scaling at any magnitude, padding, errors that name rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clusterwise._arrays import Scaling, fit_scaling, require_finite, scale_sets
from clusterwise._tensors import pad_sets, to_numpy
from clusterwise.exceptions import InvalidDataError

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
def test_undo_undoes(scale: float) -> None:
    moved = POINTS * scale
    scaling = fit_scaling(moved)
    np.testing.assert_allclose(scaling.undo(scaling.apply(moved)), moved, rtol=1e-12, atol=1e-13 * scale)
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


def test_scaling_is_affine() -> None:
    scaling = Scaling(np.array([1.0, 2.0]), np.array([4.0, 0.5]))
    np.testing.assert_array_equal(scaling.apply(np.array([[5.0, 2.5]])), [[1.0, 1.0]])
    np.testing.assert_array_equal(scaling.undo(np.array([[1.0, 1.0]])), [[5.0, 2.5]])
    assert scaling.log_volume == pytest.approx(np.log(2.0))


# -- finite or not -----------------------------------------------------------------------------------


def test_finite_data_pass() -> None:
    before = POINTS.copy()
    assert require_finite(before) is None
    np.testing.assert_array_equal(before, POINTS)
    largest = np.full((2, 2), np.finfo(np.float64).max)
    assert require_finite(largest) is None  # though their sum is infinite


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_rows_and_columns_are_named(value: float, kind: str) -> None:
    points = POINTS.copy()
    points[7, 2] = points[31, 0] = value
    with pytest.raises(
        InvalidDataError, match=f"Input X contains {kind} at row 7 column 2, row 31 column 0; "
    ):
        require_finite(points)


def test_many_bad_values_are_counted() -> None:
    with pytest.raises(
        InvalidDataError, match=r"Input Z contains NaN at row 0 column 0, .* and 145 more; drop"
    ):
        require_finite(np.full((50, 3), np.nan), "Z")


# -- tensors -----------------------------------------------------------------------------------------


def test_padding() -> None:
    sets = [POINTS[:4], POINTS[4:5], POINTS[5:12]]
    points, mask = pad_sets(sets)
    assert points.shape == (3, 7, 3)
    assert points.dtype == torch.float32
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [4, 1, 7]
    for b, original in enumerate(sets):
        np.testing.assert_array_equal(points[b, mask[b]].numpy(), original.astype(np.float32))
        assert not points[b, ~mask[b]].any()
        assert mask[b, : len(original)].all()


def test_to_numpy() -> None:
    tensor = torch.tensor([1.5, 2.5], requires_grad=True)
    assert to_numpy(tensor).tolist() == [1.5, 2.5]
    assert to_numpy(tensor).dtype == np.float32
    assert to_numpy(tensor, np.float64).dtype == np.float64
