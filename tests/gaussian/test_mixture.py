"""The evidence is the closed form that it says, and EM does what EM does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from search_data import heaps, sample_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.mixture import (
    STRENGTHS,
    Sample,
    expect,
    fit_em,
    hyper_of,
    log_marginals,
    log_mean,
    log_partition,
    mixture_of_labels,
    scored,
)


@pytest.mark.parametrize("sizes", [[5], [2, 3], [1, 1, 3]])
def test_sizes_are_those_of_a_uniform_dirichlet(sizes: list[int]) -> None:
    """P(partition) = k! times the integral of prod pi_j^n_j over the simplex."""
    k, n = len(sizes), sum(sizes)
    found = log_partition(sum(math.lgamma(size + 1) for size in sizes), k, n)
    integral = math.lgamma(k) - math.lgamma(n + k) + sum(math.lgamma(size + 1) for size in sizes)
    assert found == pytest.approx(math.lgamma(k + 1) + integral)


def test_evidence_of_one_feature_by_integration() -> None:
    """One cluster of five points, one strength of the prior: integrate over mean and variance."""
    points = np.array([-1.2, -0.4, 0.1, 0.3, 1.2])[:, None]
    sample = sample_of(points)
    statistics = sample.terms.sum(axis=0, keepdims=True)
    prior = hyper_of(sample, statistics, 12.0).prior(sample)

    means, log_variances = np.linspace(-4, 4, 801)[:, None], np.linspace(-5, 4, 901)
    variances = np.exp(log_variances)
    squares = sum(np.square(means - point) for point in sample.points[:, 0])
    log_density = (
        -0.5 * squares / variances
        - 0.5 * len(points) * np.log(2 * np.pi * variances)
        + stats.norm.logpdf(means, 0.0, np.sqrt(variances / prior.kappa))
        + stats.invgamma.logpdf(variances, prior.nu / 2, scale=prior.psi[0] / 2)
        + log_variances
    )
    total = np.exp(log_density).sum() * (means[1, 0] - means[0, 0]) * (log_variances[1] - log_variances[0])
    assert prior.log_marginal(statistics)[0] == pytest.approx(math.log(total), abs=1e-3)


@pytest.mark.parametrize("covariance_type", list(PRIORS))
def test_strengths_side_by_side(covariance_type, three: tuple[Sample, np.ndarray]) -> None:
    """All strengths in one call give what each gives alone; the evidence averages over them."""
    sample = Sample(three[0].points, covariance_type)
    mixture = mixture_of_labels(sample, three[1])
    together = log_marginals(sample, mixture.hyper, mixture.statistics)
    for strength, row in zip(STRENGTHS, together, strict=True):
        alone = replace(mixture.hyper, strength=strength).prior(sample).log_marginal(mixture.statistics)
        np.testing.assert_allclose(row, alone)
    values = np.array([[0.0, -1000.0], [np.log(3.0), -1001.0]])
    np.testing.assert_allclose(log_mean(values), [np.log(2.0), -1000.0 + np.log((1 + np.exp(-1)) / 2)])


def test_hyper_parameters_are_pooled(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    groups = [sample.points[labels == j] for j in range(3)]
    scatter = sum(np.square(points - points.mean(axis=0)).sum(axis=0) for points in groups)
    found = mixture_of_labels(sample, labels).hyper.variance
    np.testing.assert_allclose(found, scatter / (len(labels) - 3), rtol=1e-3)


def test_names_and_order_do_not_matter(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    expected = mixture_of_labels(sample, labels).log_evidence
    renamed = mixture_of_labels(sample, np.array([2, 0, 1])[labels])
    assert renamed.log_evidence == pytest.approx(expected)
    order = np.random.default_rng(0).permutation(len(labels))
    shuffled = Sample(sample.points[order], "full")
    assert mixture_of_labels(shuffled, labels[order]).log_evidence == pytest.approx(expected)


def test_a_cluster_twice_is_worth_less_than_once(three: tuple[Sample, np.ndarray]) -> None:
    """The entropy gives back what two names cost; what remains is the price of the parameters."""
    sample, labels = three
    mixture = fit_em(mixture_of_labels(sample, labels))
    half = np.concatenate([mixture.memberships, mixture.memberships[:1] / 2])
    half[0] /= 2
    entropy = mixture.entropy + float(mixture.memberships[0].sum()) * math.log(2)
    twice = scored(sample, half, entropy, half @ sample.terms)
    assert mixture.log_evidence - 30 < twice.log_evidence < mixture.log_evidence - 3


@pytest.mark.parametrize("gap", [8.0, 1.0])
def test_two_clusters_or_one(gap: float) -> None:
    points, labels = heaps([100, 100], gap)
    sample = sample_of(points)
    two = fit_em(mixture_of_labels(sample, labels)).log_evidence
    one = mixture_of_labels(sample, np.zeros_like(labels)).log_evidence
    assert (two > one) == (gap == 8.0)


def test_expectation() -> None:
    log_joint = np.random.default_rng(0).normal(0.0, 20.0, (5, 300))
    shifted = np.exp(log_joint - log_joint.max(axis=0))
    memberships, log_density = expect(log_joint.copy())
    np.testing.assert_allclose(memberships, shifted / shifted.sum(axis=0), atol=1e-15)
    np.testing.assert_allclose(log_density, np.log(shifted.sum(axis=0)) + log_joint.max(axis=0), rtol=1e-13)


def test_em_finds_the_clusters_from_poor_labels(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    rng = np.random.default_rng(0)
    poor = np.where(rng.random(len(labels)) < 0.3, rng.integers(3, size=len(labels)), labels)
    mixture = fit_em(mixture_of_labels(sample, poor))
    q = mixture.memberships
    assert adjusted_rand_score(labels, mixture.labels) > 0.97
    np.testing.assert_allclose(q.sum(axis=0), 1.0)
    np.testing.assert_allclose(mixture.statistics, q @ sample.terms)
    assert mixture.entropy == pytest.approx(-(q * np.log(np.maximum(q, 1e-300))).sum(), abs=1e-6)


def test_long_steps_lead_where_plain_steps_lead() -> None:
    """Overlapping clusters: a thousand plain EM steps end where the few that are prolonged do."""
    points, labels = heaps([150, 150], 2.5)
    sample = sample_of(points)
    quick = fit_em(mixture_of_labels(sample, labels))
    statistics, prior = quick.statistics, quick.prior
    for _ in range(1000):
        posterior = prior.posterior(statistics)
        log_joint = np.empty((2, 300))
        for j in range(2):
            normal = stats.multivariate_normal(posterior.mean[j], posterior.psi[j] / posterior.nu[j])
            log_joint[j] = normal.logpdf(sample.points) + np.log(statistics[j, 0] / 300)
        memberships, _ = expect(log_joint)
        statistics = memberships @ sample.terms
    assert np.abs(memberships - quick.memberships).mean() < 0.03


def test_clusters_without_points_go() -> None:
    points, labels = heaps([60, 60], 10.0)
    sample = sample_of(points)
    memberships = 0.999 * np.eye(2)[:, labels]
    memberships = np.concatenate([memberships, np.full((1, 120), 0.001)])
    assert fit_em(scored(sample, memberships, 0.0, memberships @ sample.terms)).n_clusters == 2
