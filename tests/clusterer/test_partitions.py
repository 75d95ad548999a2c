from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from clusterwise.clusterer.features import measure, nodes_of
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import trees_of
from clusterwise.clusterer.partitions import N_CLUSTER_FEATURES, _log_joint, agreements, features_of_partition
from clusterwise.gaussian.full import full_terms


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


def test_log_joint_is_that_of_gaussians() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 5000)
    points = rng.standard_normal((3, 2))[labels] + rng.standard_normal((5000, 2)) @ [[1.0, 0.5], [0.0, 0.7]]
    sizes = np.bincount(labels)
    means = np.array([points[labels == k].mean(axis=0) for k in range(3)])
    covariances = np.array([np.cov(points[labels == k].T, bias=True) for k in range(3)])
    constant = np.log(2 * np.pi)  # that of two features
    expected = [
        np.log(n / 5000) + multivariate_normal(mean, covariance).logpdf(points) + constant
        for n, mean, covariance in zip(sizes, means, covariances, strict=True)
    ]
    found = _log_joint(full_terms(points), means, covariances, sizes)
    np.testing.assert_allclose(found, expected, atol=0.1)  # there is a ridge
