"""An order of rows that depends on their values alone, so that shuffling the input changes nothing."""

from __future__ import annotations

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["by_first_appearance", "in_input_order", "sorted_order"]


def sorted_order(points: np.ndarray) -> np.ndarray:
    """Order of the rows (n, d) by value, the first column first."""
    order = np.argsort(points[:, 0], kind="stable")
    leading = points[order, 0]
    # Sorting by all columns takes several times as long, and ties in the first are rare.
    return np.lexsort(points.T[::-1]) if (leading[1:] == leading[:-1]).any() else order


def in_input_order(values: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    """Bring values of sorted rows, (n, ...), back to the order of the input; None: they are in it."""
    if order is None:
        return values
    result = np.empty_like(values)
    if values.ndim == 2 and values.flags.c_contiguous:
        _place_rows(values, order, result)
    else:
        result[order] = values
    return result


@compiled
def _place_rows(values: np.ndarray, order: np.ndarray, result: np.ndarray) -> None:
    """Write row i of values (n, K) to row ``order[i]`` of the result; numpy takes ten times as long."""
    for i in range(len(order)):
        for j in range(values.shape[1]):
            result[order[i], j] = values[i, j]


def by_first_appearance(labels: np.ndarray, n_clusters: int, order: np.ndarray | None) -> np.ndarray:
    """Return the clusters in use, (K,), the one that comes first in the input first.

    ``labels`` (n,) are those of the sorted rows, out of 0 .. ``n_clusters`` - 1.
    """
    never = np.iinfo(np.int64).max
    first = np.full(n_clusters, never)
    np.minimum.at(first, labels, np.arange(len(labels)) if order is None else order)
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < never)]
