"""Whatever the user passes becomes one array, or one error."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise import DAC
from clusterwise.exceptions import ClusterwiseError, InvalidDataError
from clusterwise.fitting.validation import (
    as_points,
    require_degrees_of_freedom,
    require_finite,
    require_positive,
)


def test_one_kind_of_array() -> None:
    points = as_points(np.asfortranarray([[1, 2], [3, 4]]), DAC())
    assert points.dtype == np.float64
    assert points.flags.c_contiguous
    np.testing.assert_array_equal(points, [[1.0, 2.0], [3.0, 4.0]])


def test_no_copy_without_need() -> None:
    X = np.zeros((4, 2))
    assert np.shares_memory(as_points(X, DAC()), X)


def test_long_text_is_shortened() -> None:
    with pytest.raises(InvalidDataError, match=r"row 1: 'a{40}'\)") as error:
        as_points([["1"], ["a" * 1000]], DAC(), "Y")
    assert "Column 0 of Y" in str(error.value)


def test_ragged_lists() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        as_points([[1.0, 2.0], [3.0]], DAC())


@pytest.mark.parametrize("n_samples", [0, -1])
def test_require_positive(n_samples: int) -> None:
    require_positive(1)
    with pytest.raises(InvalidDataError, match=f"at least 1, got {n_samples}"):
        require_positive(n_samples)


def test_degrees_of_freedom_of_full_covariances() -> None:
    with pytest.raises(ClusterwiseError, match="above 3 for 4 features and full covariances, got 3"):
        require_degrees_of_freedom(3, 4, "full")
    assert require_degrees_of_freedom(3.1, 4, "full") is None
    assert require_degrees_of_freedom(3, 4, "diag") is None


def test_finite_data_pass() -> None:
    require_finite(np.ones((50, 3)))
    largest = np.full((2, 2), np.finfo(np.float64).max)
    require_finite(largest)  # though their sum is infinite


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_rows_and_columns_are_named(value: float, kind: str) -> None:
    points = np.ones((50, 3))
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
