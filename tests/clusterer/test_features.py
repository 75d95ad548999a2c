from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_rand_score, cohen_kappa_score

from clusterwise.clusterer.branches import N_RANGE_FEATURES, N_SPLIT_FEATURES, ScoredTree, measure_branches
from clusterwise.clusterer.features import (
    N_CLUSTER_FEATURES,
    _kappa,
    _linear_discriminants,
    _log_joint,
    _majorities,
    agreements,
    features_of_partition,
)
from clusterwise.clusterer.graph import Graph, neighbour_graph
from clusterwise.clusterer.trees import trees_of
from clusterwise.gaussian.niw import full_terms, sum_by_label


def scored_graph(points: np.ndarray, kinds: tuple[str, ...] = ("ward", "single")) -> Graph:
    graph, rng = neighbour_graph(points), np.random.default_rng(9)
    measured = [measure_branches(graph, tree) for tree in trees_of(graph, kinds)]
    scores = [rng.random((2, len(one.nodes))) for one in measured]
    trees = tuple(ScoredTree(one, *two) for one, two in zip(measured, scores, strict=True))
    return replace(graph, trees=trees)


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
    graph = scored_graph(rng.standard_normal((80, 3)))
    labels = np.r_[np.arange(k), rng.integers(0, k, 80 - k)]
    found = features_of_partition(graph, labels)
    assert found.clusters.shape == (k, N_CLUSTER_FEATURES)
    assert np.isfinite(found.clusters).all() and np.isfinite(found.partition).all()
    assert found.shares.sum() == pytest.approx(1)
    renamed = features_of_partition(graph, k - 1 - labels)
    np.testing.assert_allclose(renamed.partition, found.partition, atol=1e-9)
    np.testing.assert_allclose(renamed.clusters[::-1, :40], found.clusters[:, :40], atol=1e-9)


def test_a_cluster_that_is_a_branch_has_its_features_and_scores() -> None:
    rng = np.random.default_rng(2)
    points = rng.standard_normal((150, 3)) + 8 * rng.integers(0, 3, 150)[:, None]
    graph = scored_graph(points, ("ward",))
    (scored,) = graph.trees
    tree, branches = scored.tree, scored.branches
    left = tree.children[branches.nodes[0], 0]
    labels = np.ones(150, dtype=np.int64)
    labels[tree.rows(int(left))] = 0
    found = features_of_partition(graph, labels).clusters
    pair = branches.features[0, N_RANGE_FEATURES:].copy()
    pair[20] = 0  # the ratio of heights, which two clusters do not have
    np.testing.assert_allclose(
        found[0, N_RANGE_FEATURES : N_RANGE_FEATURES + N_SPLIT_FEATURES], pair, atol=1e-9
    )
    place = int(np.flatnonzero(branches.nodes == left)[0])
    np.testing.assert_allclose(found[0, -5:-2], [1.0, scored.scores[place], scored.below[place]])


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


def test_neighbours_and_discriminants_predict_clusters_that_follow_the_data() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, 240)
    graph = scored_graph(9 * np.eye(3)[truth] + rng.standard_normal((240, 3)))
    right, mixed = features_of_partition(graph, truth), features_of_partition(graph, rng.integers(0, 3, 240))
    np.testing.assert_allclose(right.partition[30:35], 1)
    assert (mixed.partition[30:33] < 0.4).all()
    # A slow, obvious majority: the share of neighbours counts, the nearer ones where several have as many.
    labels, predicted = rng.integers(0, 4, 240), np.empty(240, dtype=np.int64)
    for row, around in enumerate(graph.neighbours[:, :5]):
        counts = np.bincount(labels[around], minlength=4)
        first = [
            int(np.flatnonzero(labels[around] == label)[0]) if counts[label] else 9 for label in range(4)
        ]
        predicted[row] = min(range(4), key=lambda label: (-counts[label], first[label]))
    np.testing.assert_array_equal(_majorities(graph.neighbours[:, :5], labels, 4), predicted)


def test_kappa_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(5)
    labels = np.r_[np.arange(4), rng.integers(0, 4, 60)]
    predicted = np.where(rng.random(64) < 0.5, labels, rng.integers(0, 4, 64))
    assert _kappa(labels, predicted, np.bincount(labels)) == pytest.approx(
        cohen_kappa_score(labels, predicted)
    )


def test_discriminants_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 3, 200)
    graph = scored_graph(2 * np.eye(3)[labels] + rng.standard_normal((200, 3)))
    found = _linear_discriminants(graph, sum_by_label(graph.moments, labels, 3)).argmax(axis=0)
    expected = LinearDiscriminantAnalysis(solver="lsqr").fit(graph.directions, labels)
    assert (found == expected.predict(graph.directions)).mean() > 0.97  # ours has a ridge
