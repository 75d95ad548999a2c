"""Classes of hierarchies can be told apart by neighbours, and have parts of their own."""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.broad.hierarchies import draw_hierarchy
from clusterwise.priors.broad.overlap import clarity, link_counts


def test_neighbours_tell_the_classes() -> None:
    clear = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points, labels = draw_hierarchy(rng, 500, 20)
        assert points.shape == (500, 20) and np.isfinite(points).all()
        assert (np.diff(labels) >= 0).all()
        k = int(labels.max()) + 1
        if k > 1:
            clear.append(clarity(link_counts(rng, points, labels, k)))
    assert np.mean(np.array(clear) > 0.4) > 0.9


def test_tables_are_wide_and_repeatable() -> None:
    prior = BroadPrior(hierarchies=1.0, least_rows=60, most_rows=400)
    for seed in range(10):
        one, other = (prior.draw_table(np.random.default_rng(seed)) for _ in range(2))
        np.testing.assert_array_equal(one.points, other.points)
        n, d = one.points.shape
        assert one.kind == "hierarchy" and 300 <= n <= 400 and 10 <= d <= 128
        assert np.array_equal(np.unique(one.labels), np.arange(one.n_clusters))
