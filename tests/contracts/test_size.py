"""Large data: time and memory grow with the rows, not with their square."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from clusterwise.partition import canonical_labels

Make = Callable[..., Any]


def many_rows(heaps: np.ndarray, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return heaps[rng.integers(len(heaps), size=n)] + rng.normal(0, 5, (n, 2))


def test_200_000_rows(make: Make, heaps: np.ndarray) -> None:
    X = many_rows(heaps, 200_000)
    tracemalloc.start()
    estimator = make(max_network_points=1000).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few arrays of n numbers for each cluster and each feature; a distance matrix would take 320 GB.
    assert peak < 60 * 8 * len(X) * estimator.n_clusters_
    assert estimator.n_network_points_ == 1000
    np.testing.assert_array_equal(estimator.labels_, canonical_labels(estimator.labels_))
    np.testing.assert_array_equal(estimator.predict(X[-100:]), estimator.labels_[-100:])


def test_wide_data(make: Make, heaps: np.ndarray) -> None:
    """Projection does not square the number of features."""
    rng = np.random.default_rng(0)
    X = heaps @ rng.normal(size=(2, 20_000)) + rng.normal(0, 1, (140, 20_000))
    estimator = make(projection="pca").fit(X)
    assert estimator.means_.shape == (estimator.n_clusters_, 20_000)
    assert estimator.n_clusters_ > 1
    np.testing.assert_array_equal(estimator.predict(X[:3]), estimator.labels_[:3])
