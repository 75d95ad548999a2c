"""Compiled loops over full covariances agree with the slow, obvious version in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import multigammaln

from clusterwise.gaussian import full_loops as loops
from clusterwise.gaussian.full import Full

LEAST = 1e-12


@pytest.fixture(params=[1, 2, 5, 40])
def d(request) -> int:
    return request.param


@pytest.fixture
def clusters(d: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Statistics (3, p) and the points behind them."""
    rng = np.random.default_rng(d)
    groups = [rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d) for n in (1, 30, 200)]
    return np.stack([loops.lift(points).sum(axis=0) for points in groups]), groups


def posterior_by_hand(points: np.ndarray, kappa: float, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, mean = len(points), points.mean(axis=0)
    scatter = (points - mean).T @ (points - mean)
    matrix = np.diag(psi + LEAST) + scatter + kappa * n / (kappa + n) * np.outer(mean, mean)
    return points.sum(axis=0) / (kappa + n), matrix


def test_lift_has_the_products_of_all_pairs(d: int) -> None:
    points = np.random.default_rng(0).normal(size=(7, d))
    rows, columns = np.triu_indices(d)
    slow = np.concatenate([np.ones((7, 1)), points, points[:, rows] * points[:, columns]], axis=1)
    np.testing.assert_array_equal(loops.lift(points), slow)


@pytest.mark.parametrize("own", [False, True], ids=["one prior", "priors of their own"])
def test_posteriors_and_marginal_likelihoods(clusters, d: int, own: bool) -> None:
    statistics, groups = clusters
    psi = np.random.default_rng(1).uniform(0.5, 2.0, (3 if own else 1, d))
    nu = np.array([d + 1.0, d + 4.0, d + 30.0]) if own else np.array([d + 2.0])
    kappa = 0.3
    means, matrices = loops.posterior_moments(statistics, kappa, psi, LEAST)
    found = loops.log_marginals(statistics, kappa, nu, psi, LEAST)
    for j, points in enumerate(groups):
        of_prior, degrees, n = psi[j % len(psi)], nu[j % len(nu)], len(points)
        mean, matrix = posterior_by_hand(points, kappa, of_prior)
        np.testing.assert_allclose(means[j], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(matrices[j], matrix, rtol=1e-8, atol=1e-8)
        log_marginal = (
            -0.5 * n * d * np.log(np.pi)
            + multigammaln((degrees + n) / 2, d)
            - multigammaln(degrees / 2, d)
            + 0.5 * degrees * np.log(of_prior + LEAST).sum()
            - 0.5 * (degrees + n) * np.linalg.slogdet(matrix)[1]
            + 0.5 * d * np.log(kappa / (kappa + n))
        )
        assert found[j] == pytest.approx(log_marginal, rel=1e-9, abs=1e-7)


def test_natural_parameters_give_the_density(clusters, d: int) -> None:
    statistics, groups = clusters
    psi, nu, kappa = np.full((1, d), 1.5), np.array([d + 2.0]), 0.3
    eta = loops.natural_parameters(statistics, kappa, nu, psi, LEAST)
    new = np.random.default_rng(2).normal(size=(9, d))
    for j, points in enumerate(groups):
        mean, matrix = posterior_by_hand(points, kappa, psi[0])
        covariance = matrix / (nu[0] + len(points))
        offsets = new - mean
        squares = (offsets * np.linalg.solve(covariance, offsets.T).T).sum(axis=1)
        slow = -0.5 * (squares + np.linalg.slogdet(2 * np.pi * covariance)[1])
        np.testing.assert_allclose(loops.lift(new) @ eta[j], slow, rtol=1e-7, atol=1e-6)


def test_each_prior_with_each_cluster(clusters, d: int) -> None:
    statistics, _ = clusters
    prior = Full(0.3, np.array([d + 1.0, d + 9.0]), np.stack([np.full(d, 1.0), np.full(d, 3.0)]))
    np.testing.assert_allclose(
        prior.log_marginal_of_each(statistics),
        super(Full, prior).log_marginal_of_each(statistics),
        rtol=1e-12,
    )


def test_distances(clusters, d: int) -> None:
    statistics, _ = clusters
    means, matrices = loops.posterior_moments(statistics, 0.3, np.ones((1, d)), LEAST)
    whiten, log_dets = loops.whiteners(matrices)
    points = np.random.default_rng(3).normal(size=(11, d))
    for j in range(3):
        np.testing.assert_allclose(whiten[j], np.linalg.inv(np.linalg.cholesky(matrices[j])), atol=1e-9)
        assert log_dets[j] == pytest.approx(np.linalg.slogdet(matrices[j])[1], rel=1e-9, abs=1e-9)
        offsets = points - means[j]
        slow = (offsets * np.linalg.solve(matrices[j], offsets.T).T).sum(axis=1)
        np.testing.assert_allclose(loops.squared_lengths(points, means, whiten)[:, j], slow, rtol=1e-7)


def test_matrices_that_are_no_covariances_are_told() -> None:
    good, bad = np.eye(3), np.diag([1.0, -1.0, 2.0])
    assert loops.are_positive(np.stack([good, good]))
    assert not loops.are_positive(np.stack([good, bad]))
    with pytest.raises(np.linalg.LinAlgError):
        loops.whiteners(np.stack([good, bad]))
