"""The evidence against numerical integration, sums over partitions, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import invgamma, norm

from clusterwise.polish import evidence as module
from clusterwise.polish.evidence import Data, HyperParameters, judge, log_marginals, log_partition, log_sizes


def one_hot(labels: np.ndarray) -> np.ndarray:
    return np.eye(labels.max() + 1)[labels].T.copy()


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("spread", [50.0, 500.0])
def test_marginal_likelihood_is_an_integral_over_mean_and_variance(n: int, spread: float) -> None:
    points = np.random.default_rng(n).standard_normal((n, 1)) * 0.5 + 0.3
    data = Data(np.concatenate([points, -points]))  # centred at zero
    moments = data.moments(np.repeat([1.0, 0.0], n)[None])
    hyper = HyperParameters(np.full((1, 1), 0.4), np.full((1, 1), spread), 5.0)
    found = log_marginals(moments, hyper)[:, 0]
    for strength, value in zip(module.STRENGTHS, found, strict=True):
        prior = invgamma(strength / 2, scale=strength * 0.4 / 2)
        mean, scatter = points.mean(), np.square(points - points.mean()).sum()

        def integrand(log_v: float, prior=prior, mean=mean, scatter=scatter) -> float:
            v = np.exp(log_v)
            within = -0.5 * (n - 1) * np.log(2 * np.pi * v) - 0.5 * np.log(n) - 0.5 * scatter / v
            return float(np.exp(within + norm(0, np.sqrt(spread + v / n)).logpdf(mean) + prior.logpdf(v)) * v)

        exact = np.log(quad(integrand, -9, 7, limit=200)[0])
        # The variance of the mean is spread + v / n with v at its posterior value instead of integrated.
        assert value == pytest.approx(exact, abs=0.01 + 0.5 / spread)


def test_sizes_of_clusters_have_probabilities_that_sum_to_one() -> None:
    """Over all partitions of n points in k clusters, up to the chance of an empty cluster."""
    n, k = 60, 3
    total = np.zeros(2)
    for i in range(1, n - 1):
        for j in range(1, n - i):
            counts = np.array([i, j, n - i - j], dtype=float)
            ways = gammaln(n + 1) - gammaln(counts + 1).sum() - gammaln(k + 1)  # k! orders are one partition
            both = log_sizes(counts).sum(axis=1)
            for kind in range(2):
                alone = np.where(np.arange(2) == kind, both, -np.inf)
                total[kind] += 2 * np.exp(log_partition(alone, k, n) + ways)
    assert total[0] == pytest.approx(1.0, abs=0.11)  # proportions from Dirichlet(1) leave clusters empty
    assert total[1] == pytest.approx(1.0, abs=0.25)  # the Stirling number is an approximation for large n


def test_entropy_of_memberships_adds_to_the_evidence() -> None:
    points = np.random.default_rng(0).standard_normal((40, 2))
    hard = one_hot(np.arange(40) % 2)
    assert judge(Data(points), hard, 3.0).log_evidence == pytest.approx(
        judge(Data(points), hard, 0.0).log_evidence + 3.0
    )


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3))
def test_evidence_does_not_depend_on_place_and_order(seed: int, k: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((30, d))
    labels = np.concatenate([np.arange(k), rng.integers(k, size=30 - k)])
    value = judge(Data(points), one_hot(labels), 0.0).log_evidence
    order = rng.permutation(30)
    assert judge(Data(points[order] + 5.0), one_hot(labels[order]), 0.0).log_evidence == pytest.approx(value)
    assert judge(Data(points), one_hot(labels)[::-1].copy(), 0.0).log_evidence == pytest.approx(value)


@given(st.integers(0, 10_000), st.floats(0.05, 20.0))
def test_comparisons_do_not_depend_on_units(seed: int, unit: float) -> None:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((30, 2))
    two, three = (np.concatenate([np.arange(k), rng.integers(k, size=30 - k)]) for k in (2, 3))
    ratios = [
        judge(Data(x), one_hot(two), 0.0).log_evidence - judge(Data(x), one_hot(three), 0.0).log_evidence
        for x in (points, unit * points)
    ]
    assert ratios[1] == pytest.approx(ratios[0], abs=1e-6)


def test_strength_follows_how_alike_the_variances_are() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 100)
    alike = rng.standard_normal((1000, 2)) + 100 * labels[:, None]
    unlike = (
        rng.standard_normal((1000, 2)) * np.exp(rng.normal(0, 1, 10))[labels, None] + 1000 * labels[:, None]
    )
    strengths = [judge(Data(points), one_hot(labels), 0.0).hyper.strength for points in (alike, unlike)]
    assert strengths[0] > 50
    assert strengths[1] < 10
