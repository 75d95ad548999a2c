"""Clusters that rows prefer, and outlier scores of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from clusterwise.affine import AffineMap
from clusterwise.fitting.protocol import Clustering, assign_rows, outlier_scores
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.partition import canonical_labels
from clusterwise.rows.sorted_rows import Rows, SortedRows

LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [30, 20, 10]))
POINTS = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[LABELS] + np.random.default_rng(1).normal(
    size=(60, 2)
)


def clusters_of(
    points: np.ndarray, labels: np.ndarray, n_clusters: int, covariance_type: CovarianceType = "full"
) -> Clusters:
    prior = PRIORS[covariance_type](0.1, 5.0, np.full(2, 5.0))
    return Clusters(prior, prior.statistics(points, labels, n_clusters))


@pytest.mark.parametrize("covariance_type", list(PRIORS))
@pytest.mark.parametrize("chunk", [100, 400_000])
def test_clusters_in_use(
    monkeypatch: pytest.MonkeyPatch, covariance_type: CovarianceType, chunk: int
) -> None:
    """Two clusters of almost nothing are dropped, the others come as the rows do."""
    monkeypatch.setattr("clusterwise.rows.sorted_rows.CHUNK", chunk)
    given = clusters_of(POINTS, np.array([4, 1, 2])[LABELS], 5, covariance_type)
    statistics = given.statistics + np.where(given.statistics[:, :1] == 0, 1e-9, 0.0)
    order = np.random.default_rng(2).permutation(60)
    faint = Clusters(given.prior, statistics)
    rows = SortedRows(Rows(POINTS[order]), AffineMap(np.zeros(2), np.ones(2)), order)
    _, found, membership = assign_rows(rows, Clustering(faint, faint))
    clusters = found.density
    assert isinstance(clusters, Clusters)
    expected = canonical_labels(LABELS)
    np.testing.assert_array_equal(membership.argmax(axis=1), expected[order])
    np.testing.assert_array_equal(clusters.statistics[:, 0], np.bincount(expected))
    np.testing.assert_array_equal(membership, clusters.memberships(POINTS[order]))


def test_memberships_are_shares_of_the_joint_density() -> None:
    clusters = clusters_of(POINTS, LABELS, 3)
    points = np.concatenate([POINTS, [[1e3, 0.0], [1e6, 1e6]]])  # far from all clusters
    np.testing.assert_allclose(
        clusters.memberships(points), softmax(clusters.log_joint(points), axis=1), rtol=1e-12, atol=1e-300
    )


def test_a_row_alone_in_its_cluster_is_an_outlier() -> None:
    points, labels = np.vstack([POINTS, [[40.0, 40.0]]]), np.append(LABELS, 3)
    scores = clusters_of(points, labels, 4).outlier_scores(points, 61)
    assert scores[-1] > 0.99
    assert np.median(scores) < 0.1
    in_pairs = np.vstack([points, points[-1:]])
    assert clusters_of(in_pairs, np.append(labels, 3), 4).outlier_scores(in_pairs, 62)[-1] < 0.1


def test_rows_that_are_all_alone_have_scores_too() -> None:
    scores = clusters_of(POINTS[:3], np.arange(3), 3).outlier_scores(POINTS[:3], 3)
    assert (scores < 0.9).all()


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize(("d", "apart"), [(1, 3.0), (2, 1.0), (5, 4.0), (8, 0.5)])
def test_quick_labels_are_those_of_the_memberships(
    covariance_type: CovarianceType, d: int, apart: float
) -> None:
    rng = np.random.default_rng(d)
    k, n = 7, 3000
    labels = rng.integers(k, size=n)
    points = (
        rng.normal(size=(k, d))[labels] * apart + rng.normal(size=(n, d)) * rng.gamma(2, 0.3, (k, d))[labels]
    )
    points[:5] += 100.0
    prior = PRIORS[covariance_type](0.1, d + 2.0, np.full(d, 0.5))
    shares = rng.dirichlet(np.ones(k))
    clusters = Clusters(prior, prior.statistics(points, labels, k), shares)
    found = clusters.assign(points, 10 * n)
    membership = clusters.memberships(points)
    np.testing.assert_array_equal(found.labels, membership.argmax(axis=1))
    np.testing.assert_allclose(found.probabilities, membership.max(axis=1), rtol=1e-6)
    expected = outlier_scores(clusters.nearest_distances(points), d, 10 * n)
    np.testing.assert_allclose(found.outlier_scores, expected, rtol=1e-12)
    assert expected.max() > 0.99  # the rows that were moved away


def test_a_row_is_labelled_by_itself() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(500, 3))
    prior = PRIORS["full"](0.1, 5.0, np.ones(3))
    clusters = Clusters(prior, prior.statistics(points, np.arange(500) % 4, 4))
    whole = clusters.assign(points, 500)
    alone = [clusters.assign(points[i : i + 1], 500) for i in range(500)]
    np.testing.assert_array_equal(whole.labels, [one.labels[0] for one in alone])
    np.testing.assert_array_equal(whole.probabilities, [one.probabilities[0] for one in alone])
