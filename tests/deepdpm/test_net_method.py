"""Pareto's units, and the prior in them."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.affine import fit_column_map
from clusterwise.deepdpm.net_method import pareto_scaled, prior_of_clusters


def test_pareto_scaling() -> None:
    X = np.random.default_rng(0).normal(5, [1.0, 4.0, 16.0], (4000, 3))
    space = pareto_scaled(fit_column_map(X, joint=False))
    features = space.apply(X)
    variances = features.var(axis=0)
    assert variances.mean() == pytest.approx(1)
    np.testing.assert_allclose(variances / variances[0], [1, 4, 16], rtol=0.1)  # as the spreads
    np.testing.assert_allclose(space.inverse(features), X)
    np.testing.assert_allclose(space.variances(X.var(axis=0)), variances)


def test_the_prior_is_that_of_the_paper_or_a_share_of_the_scatter_of_many_rows() -> None:
    def scatter(n: int, share: float) -> float:
        return float(prior_of_clusters(2, n, "full", 1e-4, None, share).psi[0])

    assert scatter(100, 0.0) == scatter(70_000, 0.0) == pytest.approx(0.005 * 4)
    assert scatter(100, 2.5e-5) == scatter(500, 2.5e-5) == pytest.approx(0.02)
    assert scatter(40_000, 2.5e-5) == pytest.approx(2 * scatter(20_000, 2.5e-5)) == pytest.approx(1.0)


def test_a_prior_of_given_numbers() -> None:
    prior = prior_of_clusters(2, 100, "diag", 0.5, 7.0, 1.0, np.array([3.0, 4.0]))
    assert (prior.covariance_type, prior.kappa, prior.nu) == ("diag", 0.5, 7.0)
    np.testing.assert_allclose(prior.psi, [21.0, 28.0])
