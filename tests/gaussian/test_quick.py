from __future__ import annotations

import numpy as np
import pytest

from clusterwise.gaussian.clusters import Clusters, outlier_scores
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.quick import QuickClusters


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
    found = QuickClusters(clusters, 10 * n).label(points)
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
    quick = QuickClusters(Clusters(prior, prior.statistics(points, np.arange(500) % 4, 4)), 500)
    whole = quick.label(points)
    alone = [quick.label(points[i : i + 1]) for i in range(500)]
    np.testing.assert_array_equal(whole.labels, [one.labels[0] for one in alone])
    np.testing.assert_array_equal(whole.probabilities, [one.probabilities[0] for one in alone])
