"""Pareto's units."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.affine import fit_column_map
from clusterwise.deepdpm.feature_space import pareto_scaled


def test_pareto_scaling() -> None:
    X = np.random.default_rng(0).normal(5, [1.0, 4.0, 16.0], (4000, 3))
    space = pareto_scaled(fit_column_map(X, joint=False))
    features = space.apply(X)
    variances = features.var(axis=0)
    assert variances.mean() == pytest.approx(1)
    np.testing.assert_allclose(variances / variances[0], [1, 4, 16], rtol=0.1)  # as the spreads
    np.testing.assert_allclose(space.inverse(features), X)
    covariance = space.covariances(np.cov(features.T)[None])[0]
    np.testing.assert_allclose(covariance, np.cov(X.T), atol=1e-9)
    np.testing.assert_allclose(space.variances(X.var(axis=0)), variances)
    edges = space.inverse(np.vstack([np.zeros(3), np.eye(3)]))
    assert space.log_volume == pytest.approx(np.linalg.slogdet(edges[1:] - edges[0])[1])
