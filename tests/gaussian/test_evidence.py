"""The evidence is the closed form that it says, and prefers what it should."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from search_data import heaps, sample_of

from clusterwise.gaussian.em import refined, state_of_labels
from clusterwise.gaussian.evidence import Sample, average, hyper_of, judge, log_marginals, log_partition
from clusterwise.gaussian.families import PRIORS


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
    statistics = sample.lifted.sum(axis=0, keepdims=True)
    hyper = hyper_of(sample, statistics, 12.0)
    prior = hyper.prior(sample)

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
    """All strengths in one call give what each gives alone."""
    sample = Sample(three[0].points, covariance_type, three[0].settings)
    state = state_of_labels(sample, three[1])
    together = log_marginals(sample, state.hyper, state.statistics)
    for strength, row in zip(sample.settings.strengths, together, strict=True):
        alone = state.hyper.prior(sample, strength).log_marginal(state.statistics)
        np.testing.assert_allclose(row, alone)


def test_average_of_logarithms() -> None:
    values = np.array([[0.0, -1000.0], [np.log(3.0), -1001.0]])
    np.testing.assert_allclose(average(values), [np.log(2.0), -1000.0 + np.log((1 + np.exp(-1)) / 2)])


def test_hyper_parameters_are_pooled(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    state = state_of_labels(sample, labels)
    scatter = sum(
        np.square(sample.points[labels == j] - sample.points[labels == j].mean(axis=0)).sum(axis=0)
        for j in range(3)
    )
    np.testing.assert_allclose(state.hyper.variance, scatter / (len(labels) - 3), rtol=1e-3)


def test_names_and_order_do_not_matter(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    expected = state_of_labels(sample, labels).log_evidence
    assert state_of_labels(sample, np.array([2, 0, 1])[labels]).log_evidence == pytest.approx(expected)
    order = np.random.default_rng(0).permutation(len(labels))
    shuffled = Sample(sample.points[order], "full", sample.settings)
    assert state_of_labels(shuffled, labels[order]).log_evidence == pytest.approx(expected)


def test_a_cluster_twice_is_worth_less_than_once(three: tuple[Sample, np.ndarray]) -> None:
    """The entropy gives back what two names cost; what remains is the price of the parameters."""
    sample, labels = three
    state = refined(sample, state_of_labels(sample, labels))
    half = np.concatenate([state.memberships, state.memberships[:1] / 2])
    half[0] /= 2
    entropy = state.entropy + float(state.memberships[0].sum()) * math.log(2)
    twice = judge(sample, half, entropy, half @ sample.lifted)
    assert state.log_evidence - 30 < twice.log_evidence < state.log_evidence - 3


@pytest.mark.parametrize("gap", [8.0, 1.0])
def test_two_clusters_or_one(gap: float) -> None:
    points, labels = heaps([100, 100], gap)
    sample = sample_of(points)
    two = refined(sample, state_of_labels(sample, labels)).log_evidence
    one = state_of_labels(sample, np.zeros_like(labels)).log_evidence
    assert (two > one) == (gap == 8.0)
