"""Outputs of a clustering net that rows prefer."""

from __future__ import annotations

import numpy as np

from clusterwise.deepdpm.net_clusters import outputs_in_use
from clusterwise.deepdpm.nets import NetWeights
from clusterwise.gaussian.full import Full
from clusterwise.gaussian.rows import Rows


def test_outputs_in_use_by_first_appearance() -> None:
    """Four outputs: left, never, right and nothing of either; the input begins on the right."""
    x = np.array([3.0, 2.0, -1.0, -2.0, 5.0, -3.0])
    hidden = np.array([[1.0, -1.0]])  # how far to the right, how far to the left
    output = np.array([[0.0, -9.0, 2.0, 0.0], [2.0, -9.0, 0.0, 0.0]])
    weights = NetWeights(hidden, np.zeros(2), output, np.array([0.0, -9.0, 0.0, -1.0]))
    order = np.argsort(x)
    rows, prior = Rows(x[order, None]), Full(0.1, 3.0, np.ones(1))
    kept, clusters, membership = outputs_in_use(rows, order, weights, prior)
    np.testing.assert_array_equal(kept.output, output[:, [2, 0]])
    np.testing.assert_array_equal(membership.argmax(axis=1), (x[order] < 0).astype(int))
    np.testing.assert_array_equal(membership, kept.memberships(x[order, None]))
    np.testing.assert_allclose(clusters.statistics, membership.T @ prior.lift(x[order, None]))
