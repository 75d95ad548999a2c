"""An order of rows that depends on their values alone, so that shuffling the input changes nothing."""

from __future__ import annotations

import numpy as np

__all__ = ["in_input_order", "sorted_order"]


def sorted_order(points: np.ndarray) -> np.ndarray:
    """Order of the rows (n, d) by value, the first column first."""
    order = np.argsort(points[:, 0], kind="stable")
    leading = points[order, 0]
    # Sorting by all columns takes several times as long, and ties in the first are rare.
    return np.lexsort(points.T[::-1]) if (leading[1:] == leading[:-1]).any() else order


def in_input_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Bring values of sorted rows, (n, ...), back to the order of the input."""
    result = np.empty_like(values)
    result[order] = values
    return result
