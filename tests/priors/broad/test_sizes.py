"""Numbers of rows, clusters and columns stay in their ranges."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad.sizes import draw_n_clusters, draw_n_features, draw_sizes


@pytest.mark.parametrize(("n_rows", "k"), [(9, 3), (24, 8), (500, 1), (800, 100)])
def test_sizes_add_up_and_none_is_tiny(n_rows: int, k: int) -> None:
    for seed in range(60):
        sizes = draw_sizes(np.random.default_rng(seed), n_rows, k)
        assert sizes.shape == (k,)
        assert sizes.sum() == n_rows
        assert sizes.min() >= 3


def test_sizes_range_from_balanced_to_very_unequal() -> None:
    ratios = []
    for seed in range(200):
        sizes = draw_sizes(np.random.default_rng(seed), 1000, 10)
        ratios.append(sizes.max() / sizes.min())
    assert min(ratios) == 1
    assert max(ratios) > 15


@pytest.mark.parametrize(
    ("n_rows", "most", "limit"), [(20, 100, 2), (80, 100, 10), (2000, 100, 100), (2000, 7, 7)]
)
def test_clusters_have_enough_rows(n_rows: int, most: int, limit: int) -> None:
    rng = np.random.default_rng(0)
    k = [draw_n_clusters(rng, n_rows, most) for _ in range(3000)]
    assert min(k) == 1
    assert max(k) <= limit
    assert max(k) > 0.8 * limit


@pytest.mark.parametrize("most", [1, 2, 5, 40, 128])
def test_features_reach_their_limit_and_not_beyond(most: int) -> None:
    rng = np.random.default_rng(0)
    d = [draw_n_features(rng, most) for _ in range(3000)]
    assert min(d) == 1
    assert 0.9 * most <= max(d) <= most
