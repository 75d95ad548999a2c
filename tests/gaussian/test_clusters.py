"""Clusters that rows prefer, and outlier scores of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from clusterwise.gaussian.clusters import Clusters, clusters_in_use, outlier_scores_of
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.rows import Rows
from clusterwise.partition import canonical_labels

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
    monkeypatch.setattr("clusterwise.gaussian.rows.CHUNK", chunk)
    given = clusters_of(POINTS, np.array([4, 1, 2])[LABELS], 5, covariance_type)
    statistics = given.statistics + np.where(given.statistics[:, :1] == 0, 1e-9, 0.0)
    order = np.random.default_rng(2).permutation(60)
    clusters, membership = clusters_in_use(Rows(POINTS[order]), order, Clusters(given.prior, statistics))
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
    scores = outlier_scores_of(Rows(points), clusters_of(points, labels, 4))
    assert scores[-1] > 0.99
    assert np.median(scores) < 0.1
    in_pairs = np.vstack([points, points[-1:]])
    assert outlier_scores_of(Rows(in_pairs), clusters_of(in_pairs, np.append(labels, 3), 4))[-1] < 0.1


def test_rows_that_are_all_alone_have_scores_too() -> None:
    scores = outlier_scores_of(Rows(POINTS[:3]), clusters_of(POINTS[:3], np.arange(3), 3))
    assert (scores < 0.9).all()
