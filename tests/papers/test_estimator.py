"""When data count as unlike the training data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clusterwise.affine import fit_scaling
from clusterwise.exceptions import FarRowsWarning
from clusterwise.papers.estimator import MARGIN, MAX_SPREADS, find_far_rows, pad_sets
from clusterwise.priors import make_prior

KNOWN_REACH = 14.0


def warning_for(features: np.ndarray, known_reach: float = KNOWN_REACH) -> FarRowsWarning | None:
    return next(find_far_rows(features, known_reach, "some-weights"), None)


def warning_for_points(points: np.ndarray, known_reach: float = KNOWN_REACH) -> FarRowsWarning | None:
    return warning_for(fit_scaling(points).apply(points), known_reach)


@pytest.mark.parametrize(("n", "k_max"), [(20, 2), (200, 12), (2000, 4)])
def test_data_from_the_prior_are_within(n: int, k_max: int) -> None:
    drawn = make_prior("mixture-of-gaussians", k_max=k_max).draw(np.random.default_rng(0), 200, n)
    warnings = [warning_for_points(points) for points in drawn.points]
    assert sum(warning is not None for warning in warnings) <= 2  # one set in a thousand reaches beyond


@pytest.mark.parametrize(("farther", "warns"), [(0.9, False), (0.99 * MARGIN, False), (1.01 * MARGIN, True)])
def test_the_margin_is_added_to_what_was_known(farther: float, warns: bool) -> None:
    """Data may reach somewhat farther than in training, not the other way round."""
    features = np.random.default_rng(0).normal(size=(200, 2))
    features *= KNOWN_REACH * farther / np.abs(features).max()
    warning = warning_for(features)
    assert (warning is not None) == warns
    if warning is not None:
        assert warning.distance == pytest.approx(KNOWN_REACH * farther)
        assert (warning.known, warning.weights) == (KNOWN_REACH, "some-weights")


def test_the_margin_is_more_than_one() -> None:
    assert 1 < MARGIN < 3


@pytest.mark.parametrize(("times", "warns"), [(0.5, False), (2, True)])
def test_a_far_row_is_compared_with_the_spread_of_the_others(times: float, warns: bool) -> None:
    """The spread of the widest feature; where the rows lie as a whole does not matter."""
    features = np.random.default_rng(0).normal([300.0, 0.0], [0.5, 0.1], size=(1000, 2))
    features[500] = [300.0 + times * MAX_SPREADS * 0.5 * np.sqrt(2), 0.0]  # a mean over two features
    warning = warning_for(features, known_reach=1e9)
    assert (warning is not None) == warns
    if warning is not None:
        assert warning.known is None
        assert warning.distance == pytest.approx(times * MAX_SPREADS, rel=0.1)


@pytest.mark.parametrize("n", [25, 150, 1000, 5000])
@pytest.mark.parametrize("far", [1e3, 1e12])
def test_one_far_row_at_any_number_of_rows(n: int, far: float) -> None:
    points = np.random.default_rng(0).normal(size=(n, 2))
    assert warning_for_points(points) is None
    points[n // 2] = far
    assert "spreads" in str(warning_for_points(points))


def test_a_few_far_rows() -> None:
    points = np.random.default_rng(0).normal(size=(1000, 2))
    points[:5] = [[1e5, 0], [0, 1e5], [-1e5, 1e4], [1e4, -1e5], [1e5, 1e5]]
    assert warning_for_points(points, 1e9) is not None


def test_a_small_far_cluster_is_ordinary() -> None:
    """3 % of the rows at 500 spreads of the others: a cluster, not a mishap."""
    points = np.random.default_rng(0).normal(size=(1000, 2))
    points[:30] += 500
    assert warning_for_points(points) is None


def test_few_rows_and_copies_are_left_alone() -> None:
    assert warning_for_points(np.array([[0.0, 0.0], [0.0, 1e-9], [1.0, 1.0]])) is None
    copies = np.full((100, 2), 0.1)
    assert warning_for_points(copies) is None
    copies[0] = 3.0
    assert warning_for_points(copies) is None


def test_data_sets_of_several_sizes_in_one_tensor() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    sets = [points[:4], points[4:5], points[5:12]]
    padded, mask = pad_sets(sets, 3)
    assert padded.shape == (3, 7, 3)
    assert padded.dtype == torch.float32 and mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [4, 1, 7]
    for b, original in enumerate(sets):
        np.testing.assert_array_equal(padded[b, mask[b]].numpy(), original.astype(np.float32))
        assert not padded[b, ~mask[b]].any()
        assert mask[b, : len(original)].all()
