"""The features that DeepDPM clusters, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise import DeepDPM
from clusterwise.deepdpm.feature_space import Space
from clusterwise.fitting.tables import read_table


def test_pareto_scaling() -> None:
    X = np.random.default_rng(0).normal(5, [1.0, 4.0, 16.0], (4000, 3))
    table = read_table(X, DeepDPM(), joint=False)
    space = Space.of(table.columns, pareto=True)
    features = space.apply(X)
    np.testing.assert_array_equal(space.rows(table.rows).points, features[table.order])
    variances = features.var(axis=0)
    assert variances.mean() == pytest.approx(1)
    np.testing.assert_allclose(variances / variances[0], [1, 4, 16], rtol=0.1)  # as the spreads
    np.testing.assert_allclose(space.undo(features), X)
    covariance = space.undo_covariances(np.cov(features.T)[None])[0]
    np.testing.assert_allclose(covariance, np.cov(X.T), atol=1e-9)
    np.testing.assert_allclose(space.variances(X.var(axis=0)), variances)


@pytest.mark.parametrize("pareto", [True, False])
def test_log_volume_is_that_of_the_map(pareto: bool) -> None:
    X = np.random.default_rng(1).normal(5, [1.0, 4.0, 16.0], (50, 3))
    space = Space.of(read_table(X, DeepDPM(), joint=False).columns, pareto)
    edges = space.undo(np.vstack([np.zeros(3), np.eye(3)]))
    assert space.log_volume == pytest.approx(np.linalg.slogdet(edges[1:] - edges[0])[1])
