"""Large data: time and memory grow with the rows, not with their square."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clusterwise.partition import canonical_labels

Make = Callable[..., Any]


def many_rows(heaps: np.ndarray, n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return heaps[rng.integers(4, size=n)] + rng.normal(0, 30, (n, 2))


@pytest.mark.parametrize("variant", ["AMCP", "DAC", "GaussianSearch"])
def test_200_000_rows(make_variant: Make, heaps: np.ndarray, variant: str) -> None:
    X = many_rows(heaps, 200_000)
    tracemalloc.start()
    estimator = make_variant(variant).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A few arrays of n numbers for each cluster and each feature; a distance matrix would take 320 GB.
    assert peak < 60 * 8 * len(X) * max(4, estimator.n_clusters_)
    np.testing.assert_array_equal(estimator.labels_, canonical_labels(estimator.labels_))
    np.testing.assert_array_equal(estimator.predict(X[-100:]), estimator.labels_[-100:])


def test_wide_data(make_network: Make, heaps: np.ndarray) -> None:
    """Projection does not square the number of features."""
    rng = np.random.default_rng(0)
    X = heaps @ rng.normal(size=(2, 20_000)) + rng.normal(0, 1, (140, 20_000))
    estimator = make_network(projection="pca").fit(X)
    assert estimator.means_.shape == (estimator.n_clusters_, 20_000)
    assert estimator.n_clusters_ > 1
    np.testing.assert_array_equal(estimator.predict(X[:3]), estimator.labels_[:3])
