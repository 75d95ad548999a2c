from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.trees.features import measure, nodes_of
from clusterwise.trees.linkages import trees_of
from clusterwise.trees.neighbourhood import neighbourhood_of
from clusterwise.trees.partitions import N_CLUSTER_FEATURES, agreements, features_of_partition


def test_agreements_are_adjusted_rand_indices() -> None:
    rng = np.random.default_rng(0)
    candidates = [rng.integers(0, k, 60) for k in (1, 2, 5, 9)] + [np.arange(60)]
    candidates = [np.unique(labels, return_inverse=True)[1] for labels in candidates]
    found = agreements(candidates)
    for i, a in enumerate(candidates):
        for j, b in enumerate(candidates):
            assert found[i, j] == pytest.approx(adjusted_rand_score(a, b))


@pytest.mark.parametrize("k", [1, 2, 7])
def test_finite_and_without_names(k: int) -> None:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((80, 3))
    near = neighbourhood_of(points)
    measured = measure(near)
    trees = [nodes_of(measured, tree) for tree in trees_of(near, ("ward", "single"))]
    scores = [rng.random((len(nodes.nodes), 2)) for nodes in trees]
    labels = np.r_[np.arange(k), rng.integers(0, k, 80 - k)]
    found = features_of_partition(measured, labels, trees, scores)
    assert found.clusters.shape == (k, N_CLUSTER_FEATURES)
    assert np.isfinite(found.clusters).all() and np.isfinite(found.whole).all()
    assert found.shares.sum() == pytest.approx(1)
    renamed = features_of_partition(measured, k - 1 - labels, trees, scores)
    np.testing.assert_allclose(renamed.whole, found.whole, atol=1e-9)
    np.testing.assert_allclose(renamed.clusters[::-1, :40], found.clusters[:, :40], atol=1e-9)
