"""The conjugate mathematics, by the rules of probability and against the slow, obvious version."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import multigammaln

from clusterwise.gaussian.families import PRIORS

COVARIANCES = tuple(PRIORS)


@pytest.fixture(params=COVARIANCES)
def prior(request):
    psi = np.full(3, 2.0) if request.param == "spherical" else np.array([1.0, 2.0, 3.0])
    return PRIORS[request.param](0.3, 4.5, psi)


@pytest.fixture
def points():
    return np.random.default_rng(1).normal(size=(40, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -2.0]


def cluster(prior, points):
    return prior.terms(points).sum(axis=0, keepdims=True)


def test_statistics_add_up(prior, points):
    labels = np.arange(len(points)) % 4
    together = prior.statistics(points, labels, 5)
    for k in range(4):
        np.testing.assert_allclose(together[k], cluster(prior, points[labels == k])[0])
    assert not together[4].any()
    assert together[0, 0] == 10


def test_addition_and_removal_equal_those_computed_afresh(prior, points):
    statistics = cluster(prior, points[:20])
    statistics = statistics + cluster(prior, points[20:]) - cluster(prior, points[:10])
    afresh = cluster(prior, points[10:])
    np.testing.assert_allclose(statistics, afresh, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(prior.log_marginal(statistics), prior.log_marginal(afresh), rtol=1e-10)


def test_marginal_likelihood_is_a_product_of_predictive_densities(prior, points):
    """f(X) = prod_i f(x_i | x_1 .. x_{i-1})."""
    total, so_far = 0.0, np.zeros((1, prior.n_statistics))
    for i in range(len(points)):
        total += prior.log_predictive(points[i : i + 1], prior.posterior(so_far))[0, 0]
        so_far = so_far + cluster(prior, points[i : i + 1])
    assert prior.log_marginal(so_far)[0] == pytest.approx(total, rel=1e-10)


def test_nothing_has_marginal_likelihood_one(prior):
    assert prior.log_marginal(np.zeros((2, prior.n_statistics))) == pytest.approx([0.0, 0.0], abs=1e-9)


def posterior_by_hand(points, kappa, psi):
    n, mean = len(points), points.mean(axis=0)
    scatter = (points - mean).T @ (points - mean)
    matrix = np.diag(psi) + scatter + kappa * n / (kappa + n) * np.outer(mean, mean)
    return points.sum(axis=0) / (kappa + n), matrix


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_full_covariances_by_hand(d):
    """Compiled loops against the slow, obvious version, for clusters of one, 30 and 200 points."""
    rng = np.random.default_rng(d)
    groups = [rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d) for n in (1, 30, 200)]
    psi, nu, new = rng.uniform(0.5, 2.0, d), d + 2.0, rng.normal(size=(9, d))
    prior = PRIORS["full"](0.3, nu, psi)
    statistics = np.concatenate([cluster(prior, points) for points in groups])
    posterior, eta = prior.posterior(statistics), prior.expected(statistics)
    for j, points in enumerate(groups):
        n, (mean, matrix) = len(points), posterior_by_hand(points, 0.3, psi)
        np.testing.assert_allclose(posterior.mean[j], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(posterior.psi[j], matrix, rtol=1e-8, atol=1e-8)
        log_marginal = multigammaln((nu + n) / 2, d) - multigammaln(nu / 2, d) - 0.5 * n * d * np.log(np.pi)
        log_marginal += 0.5 * nu * np.log(psi).sum() - 0.5 * (nu + n) * np.linalg.slogdet(matrix)[1]
        log_marginal += 0.5 * d * np.log(0.3 / (0.3 + n))
        assert prior.log_marginal(statistics)[j] == pytest.approx(log_marginal, rel=1e-9, abs=1e-7)
        normal = stats.multivariate_normal(mean, matrix / (nu + n)).logpdf(new)
        np.testing.assert_allclose(prior.terms(new) @ eta[j], normal, rtol=1e-7, atol=1e-6)
        degrees = nu + n - d + 1
        student = stats.multivariate_t(mean, matrix * (1.3 + n) / ((0.3 + n) * degrees), degrees)
        np.testing.assert_allclose(prior.log_predictive(new, posterior)[:, j], student.logpdf(new), rtol=1e-7)


def test_clusters_with_priors_of_their_own(prior, points):
    """``nu`` and ``psi`` by cluster, and several priors for all clusters, give what each gives alone."""
    statistics = np.concatenate([cluster(prior, points[:5]), cluster(prior, points[5:])])
    nu, psi = np.array([4.5, 9.0]), np.stack([prior.psi, 3 * prior.psi])
    each = [replace(prior, nu=nu[j], psi=psi[j]) for j in range(2)]
    several = replace(prior, nu=nu, psi=psi)
    np.testing.assert_allclose(
        several.log_marginal_of_each(statistics), [one.log_marginal(statistics) for one in each], rtol=1e-12
    )
    for j in range(2):
        np.testing.assert_allclose(several.expected(statistics)[j], each[j].expected(statistics)[j])


def test_sums_that_no_points_have_are_told(prior, points):
    statistics = cluster(prior, points)
    assert prior.is_possible(statistics)
    statistics[0, -1] = -1.0  # a sum of squares
    assert not prior.is_possible(statistics)


def test_noise_widens_by_its_variance(prior, points):
    """T(x) expected over noise is that of the mean over many noisy copies."""
    noisy = points[:3, None] + 0.4 * np.random.default_rng(6).standard_normal((3, 20_000, 3))
    expected = np.stack([prior.terms(copies).mean(axis=0) for copies in noisy])
    np.testing.assert_allclose(prior.smoothed(prior.terms(points[:3]), 0.16), expected, atol=0.1)


def test_predictive_density_is_the_mean_over_drawn_parameters(prior, points):
    """T(x) . eta of a drawn cluster is a log density whose mean over draws is the predictive t."""
    rng = np.random.default_rng(2)
    statistics = cluster(prior, points[:12])
    new = points[12:15]
    eta = prior.draw(rng, np.repeat(statistics, 20_000, axis=0))
    densities = np.exp(prior.terms(new) @ eta.T)
    expected = np.exp(prior.log_predictive(new, prior.posterior(statistics))[:, 0])
    errors = densities.std(axis=1) / np.sqrt(densities.shape[1])
    assert (np.abs(densities.mean(axis=1) - expected) < 5 * errors).all()


def test_prior_draws_agree_with_the_prior_predictive(prior):
    rng = np.random.default_rng(3)
    nothing = np.zeros((1, prior.n_statistics))
    eta = prior.draw(rng, np.repeat(nothing, 40_000, axis=0))
    new = np.array([[0.5, -0.5, 1.0]])
    densities = np.exp(prior.terms(new) @ eta.T)[0]
    expected = np.exp(prior.log_predictive(new, prior.posterior(nothing))[0, 0])
    assert abs(densities.mean() - expected) < 5 * densities.std() / np.sqrt(len(densities))


def test_expected_parameters_are_those_of_many_points(prior):
    """With many points the posterior is a spike: expected, drawn and empirical Gaussians agree."""
    rng = np.random.default_rng(4)
    points = rng.normal(size=(200_000, 3)) + [1.0, -1.0, 0.5]
    statistics = cluster(prior, points)
    new = rng.normal(size=(5, 3))
    log_density = prior.terms(new) @ prior.expected(statistics)[0]
    expected = stats.multivariate_normal(points.mean(axis=0), np.eye(3)).logpdf(new)
    np.testing.assert_allclose(log_density, expected, atol=0.05)


def test_predictive_rows_stand_alone(prior, points):
    posterior = prior.posterior(cluster(prior, points))
    together = prior.log_predictive(points, posterior)
    alone = np.concatenate([prior.log_predictive(points[i : i + 1], posterior) for i in range(len(points))])
    np.testing.assert_array_equal(together, alone)


def test_samples_have_the_predictive_covariance(prior, points):
    posterior = prior.posterior(cluster(prior, points))
    drawn = prior.sample(np.random.default_rng(5), posterior, np.zeros(100_000, dtype=int))
    covariance = prior.covariances(posterior)[0]
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.04 * np.trace(covariance))
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.mean[0], atol=0.05)


def test_squared_distances_use_the_predictive_covariance(prior, points):
    posterior = prior.posterior(cluster(prior, points))
    inverse = np.linalg.inv(prior.covariances(posterior)[0])
    offsets = points - posterior.mean[0]
    expected = np.einsum("nd,de,ne->n", offsets, inverse, offsets)
    np.testing.assert_allclose(prior.squared_distances(points, posterior)[:, 0], expected, rtol=1e-8)


def test_repeated_points_stay_finite(prior):
    statistics = cluster(prior, np.full((1000, 3), 1e3))
    assert np.isfinite(prior.log_marginal(statistics)).all()
    assert np.isfinite(prior.draw(np.random.default_rng(0), statistics)).all()
