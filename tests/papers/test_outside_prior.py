"""When data count as unlike the training data."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.affine import fit_scaling
from clusterwise.papers.outside_prior import describe_far_rows
from clusterwise.priors import make_prior

KNOWN_REACH = 14.0


def scaled(points: np.ndarray) -> np.ndarray:
    return fit_scaling(points).apply(points)


@pytest.mark.parametrize("n", [20, 200, 2000])
@pytest.mark.parametrize("k_max", [2, 4, 12])
def test_data_from_the_prior_are_within(n: int, k_max: int) -> None:
    drawn = make_prior("mixture-of-gaussians", k_max=k_max).draw(np.random.default_rng(0), 200, n)
    alarms = [describe_far_rows(scaled(points), KNOWN_REACH) for points in drawn.points]
    assert sum(alarm is not None for alarm in alarms) <= 2  # one set in a thousand reaches beyond


@pytest.mark.parametrize("n", [25, 150, 1000, 5000])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
def test_one_far_row_at_any_number_of_rows(n: int, far: float) -> None:
    points = np.random.default_rng(0).normal(size=(n, 2))
    assert describe_far_rows(scaled(points), KNOWN_REACH) is None
    points[n // 2] = far
    assert "spreads" in str(describe_far_rows(scaled(points), KNOWN_REACH))


def test_a_few_far_rows() -> None:
    points = np.random.default_rng(0).normal(size=(1000, 2))
    points[:5] = [[1e5, 0], [0, 1e5], [-1e5, 1e4], [1e4, -1e5], [1e5, 1e5]]
    assert describe_far_rows(scaled(points), 1e9) is not None


def test_a_small_far_cluster_is_ordinary() -> None:
    """3 % of the rows at 500 spreads of the others: a cluster, not a mishap."""
    points = np.random.default_rng(0).normal(size=(1000, 2))
    points[:30] += 500
    assert describe_far_rows(scaled(points), KNOWN_REACH) is None


def test_few_rows_and_copies_are_left_alone() -> None:
    assert describe_far_rows(scaled(np.array([[0.0, 0.0], [0.0, 1e-9], [1.0, 1.0]])), KNOWN_REACH) is None
    copies = np.full((100, 2), 0.1)
    assert describe_far_rows(scaled(copies), KNOWN_REACH) is None
    copies[0] = 3.0
    assert describe_far_rows(scaled(copies), KNOWN_REACH) is None
