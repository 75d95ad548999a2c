"""Orders of rows and of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.fitting.protocol import by_first_appearance
from clusterwise.rows.sorted_rows import in_input_order, sorted_order


@pytest.mark.parametrize("decimals", [0, 6], ids=["ties", "no ties"])
def test_sorted_rows_do_not_know_the_order_of_the_input(decimals: int) -> None:
    rng = np.random.default_rng(0)
    points = np.round(rng.normal(size=(60, 3)), decimals)
    shuffled = points[rng.permutation(60)]
    np.testing.assert_array_equal(points[sorted_order(points)], shuffled[sorted_order(shuffled)])
    assert (np.diff(points[sorted_order(points), 0]) >= 0).all()


def test_back_to_the_order_of_the_input() -> None:
    points = np.random.default_rng(1).normal(size=(20, 2))
    order = sorted_order(points)
    np.testing.assert_array_equal(in_input_order(points[order], order), points)
    assert in_input_order(points, None) is points


@pytest.mark.parametrize("in_order", [True, False])
def test_clusters_in_use_by_first_appearance(in_order: bool) -> None:
    rng = np.random.default_rng(2)
    for n in (1, 5, 40):
        labels = rng.integers(0, 12, n)  # in the order of the input
        order = None if in_order else rng.permutation(n)
        found = by_first_appearance(labels if order is None else labels[order], 12, order)
        assert found.tolist() == list(dict.fromkeys(labels.tolist()))
