"""Mixtures follow their printed laws: partitions, weights, parameters, points, and the oracle's densities."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from clusterwise.exceptions import RecipeError
from clusterwise.priors.mixtures import (
    ChineseRestaurantMixture,
    CorrelatedComponents,
    CorrelatedGaussians,
    GaussianComponents,
    MixtureOfGaussians,
    MixturePrior,
    categorical_labels,
    crp_labels,
    crp_labels_exact_k,
    dirichlet_weights,
    log_stirling_first,
)
from clusterwise.priors.prior import TaskBatch

N_SETS, K, N_POINTS = 3000, 3, 40
N_DRAWS = 20_000
Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def components_of(batch: TaskBatch) -> list[GaussianComponents]:
    found = [component for component in batch.components if isinstance(component, GaussianComponents)]
    assert len(found) == len(batch)
    return found


def all_partitions(n: int) -> list[tuple[int, ...]]:
    """Every partition of n points, as labels numbered by first appearance."""
    found: list[tuple[int, ...]] = [()]
    for _ in range(n):
        found = [(*labels, new) for labels in found for new in range(max(labels, default=-1) + 2)]
    return found


def seating_weight(labels: tuple[int, ...]) -> float:
    """The part of the partition probability that the cluster sizes decide: prod (n_j - 1)!."""
    return math.prod(math.factorial(size - 1) for size in Counter(labels).values())


def assert_follows(drawn: list[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> None:
    """Chi-square test of draws against probabilities; rare outcomes are pooled."""
    counts = Counter(drawn)
    assert counts.keys() <= law.keys()
    assert sum(law.values()) == pytest.approx(1.0)
    frequent = [outcome for outcome in law if law[outcome] * len(drawn) >= 10]
    observed = [counts[outcome] for outcome in frequent]
    expected = [law[outcome] * len(drawn) for outcome in frequent]
    rest = len(drawn) - sum(expected)
    if rest > 5:
        observed.append(len(drawn) - sum(observed))
        expected.append(rest)
    if len(observed) > 1:
        assert stats.chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue > 1e-4


def test_categorical_labels_follow_the_weights() -> None:
    weights = np.array([[0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0]])
    labels = categorical_labels(np.random.default_rng(0), weights, N_DRAWS)
    observed = np.bincount(labels[0], minlength=4)
    assert observed[3] == 0
    assert stats.chisquare(observed[:3], N_DRAWS * weights[0, :3]).pvalue > 1e-4
    assert not labels[1].any()


def test_stirling_numbers() -> None:
    table = log_stirling_first(400, 400)
    exact = [1]  # the same recursion in whole numbers, as long as Python likes
    for n in range(1, 401):
        exact = [(exact[k - 1] if k else 0) + (n - 1) * (exact[k] if k < n else 0) for k in range(n + 1)]
    np.testing.assert_allclose(table[400, 1:], [math.log(value) for value in exact[1:]], rtol=1e-12)
    np.testing.assert_array_equal(table[:9, :4], log_stirling_first(8, 3))


@pytest.mark.parametrize(("n", "alpha"), [(1, 1.0), (2, 0.3), (5, 0.3), (5, 4.0)])
def test_crp_partition_probabilities(n: int, alpha: float) -> None:
    labels = crp_labels(np.random.default_rng(1), np.full(N_DRAWS, alpha), n)
    normalizer = math.prod(alpha + i for i in range(n))
    law = {p: alpha ** len(set(p)) * seating_weight(p) / normalizer for p in all_partitions(n)}
    assert_follows([tuple(row) for row in labels.tolist()], law)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_crp_partition_probabilities_given_k(n: int) -> None:
    for k in range(1, n + 1):
        labels = crp_labels_exact_k(np.random.default_rng(k), N_DRAWS, k, n)
        weights = {p: seating_weight(p) for p in all_partitions(n) if len(set(p)) == k}
        law = {partition: weight / sum(weights.values()) for partition, weight in weights.items()}
        assert_follows([tuple(row) for row in labels.tolist()], law)


def test_every_set_has_its_own_alpha() -> None:
    alpha, n = np.repeat([1e-9, 1.5, 1e9], 5000), 60
    k = (crp_labels(np.random.default_rng(6), alpha, n).max(axis=1) + 1).reshape(3, 5000)
    assert (k[0] == 1).all() and (k[2] == n).all()
    opening = 1.5 / (1.5 + np.arange(n))
    variance = (opening * (1 - opening)).sum()
    assert abs(k[1].mean() - opening.sum()) < 4.5 * math.sqrt(variance / 5000)
    assert k[1].var() == pytest.approx(variance, rel=4.5 * math.sqrt(3 / 5000))


@pytest.mark.parametrize("k", [0, 6])
def test_impossible_k_is_refused(k: int) -> None:
    with pytest.raises(RecipeError, match=f"5 points cannot form exactly {k} clusters"):
        crp_labels_exact_k(np.random.default_rng(0), 2, k, 5)


@pytest.mark.parametrize("k_max", [2, 4])
def test_number_of_clusters(k_max: int) -> None:
    laws = {
        MixtureOfGaussians(k_max=k_max): stats.binom(k_max - 1, 0.5).pmf(np.arange(k_max)),
        MixtureOfGaussians(k_max=k_max, k_law="uniform"): np.full(k_max, 1 / k_max),
        CorrelatedGaussians(k_max=k_max): np.full(k_max, 1 / k_max),
    }
    for prior, law in laws.items():
        counts = np.bincount(prior.draw_k(np.random.default_rng(2), N_SETS), minlength=k_max + 1)
        assert counts[0] == 0 and len(counts) == k_max + 1
        assert stats.chisquare(counts[1:], N_SETS * law).pvalue > 1e-4


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    """Points, labels, weights, means and sds of data sets with exactly K components."""
    batch = MixtureOfGaussians(k_exact=K).draw(np.random.default_rng(0), N_SETS, N_POINTS)
    parts = components_of(batch)
    stacked = [np.stack([getattr(p, name) for p in parts]) for name in ("weights", "means", "sds")]
    return batch.points, batch.labels, *stacked  # type: ignore[return-value]


def assert_moments(sample: np.ndarray, mean: float, sd: float) -> None:
    """Check mean and sd of independent normal values to 4.5 standard errors."""
    assert abs(sample.mean() - mean) < 4.5 * sd / math.sqrt(sample.size)
    assert abs(sample.std() - sd) < 4.5 * sd / math.sqrt(2 * sample.size)


def test_parameters(drawn: Drawn) -> None:
    _, _, _, means, sds = drawn
    assert_moments(means, 0.0, 3.0)
    assert_moments(np.log(sds), math.log(0.25), 0.1)
    values = np.concatenate([means.reshape(N_SETS, -1), np.log(sds).reshape(N_SETS, -1)], axis=1)
    correlations = np.corrcoef(values.T) - np.eye(values.shape[1])
    assert np.abs(correlations).max() < 4.5 / math.sqrt(N_SETS)


@pytest.mark.parametrize("concentration", [0.5, 5.0])
def test_weights(concentration: float) -> None:
    weights = dirichlet_weights(np.random.default_rng(1), np.full(N_SETS, K), concentration)
    for column in weights.T:
        law = stats.beta(concentration, (K - 1) * concentration)  # the margin of a Dirichlet
        assert stats.kstest(column, law.cdf).pvalue > 1e-4


def test_points(drawn: Drawn) -> None:
    points, labels, weights, means, sds = drawn
    counts = (labels[:, :, None] == np.arange(K)).sum(axis=1)
    variance = N_POINTS * weights * (1 - weights)
    standardized = (counts - N_POINTS * weights).sum(axis=0) / np.sqrt(variance.sum(axis=0))
    assert np.abs(standardized).max() < 4.5
    row = np.arange(N_SETS)[:, None]
    noise = (points - means[row, labels]) / sds[row, labels]
    assert_moments(noise, 0.0, 1.0)
    assert stats.kstest(noise[:100].ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("kind", [MixtureOfGaussians, CorrelatedGaussians])
def test_oracle_agrees_with_scipy(kind: type[MixturePrior], n_features: int) -> None:
    one = kind(n_features=n_features, k_exact=3).draw_set(np.random.default_rng(3), 20)
    expected = np.empty((20, 3))
    for j, (weight, mean) in enumerate(zip(one.components.weights, one.components.means, strict=True)):  # type: ignore[attr-defined]
        if isinstance(one.components, CorrelatedComponents):
            covariance = one.components.roots[j] @ one.components.roots[j].T
        else:
            assert isinstance(one.components, GaussianComponents)
            covariance = np.diag(np.square(one.components.sds[j]))
        density = stats.multivariate_normal(mean, covariance).logpdf(one.points)
        expected[:, j] = np.log(weight) + density
    np.testing.assert_allclose(one.components.log_joint(one.points), expected)
    np.testing.assert_array_equal(one.oracle_labels(), expected.argmax(axis=1))
    assert one.oracle_log_likelihood() == pytest.approx(np.log(np.exp(expected).sum(axis=1)).mean())


@pytest.mark.parametrize(("k_max", "printed"), [(4, -0.693), (12, -1.527)])
def test_oracle_log_likelihood_is_the_printed_one(k_max: int, printed: float) -> None:
    """DAC prints the oracle's log-likelihood but not the concentration: 1 gives it, 5 does not."""
    scores = {}
    for concentration in (1.0, 5.0):
        prior = MixtureOfGaussians(k_max=k_max, concentration=concentration)
        batch = prior.draw(np.random.default_rng(5), N_SETS, 60)
        scores[concentration] = np.array([batch[i].oracle_log_likelihood() for i in range(N_SETS)])
    # The paper averages over 1,000 data sets.
    error = scores[1.0].std() * math.sqrt(1 / N_SETS + 1 / 1000)
    assert abs(scores[1.0].mean() - printed) < 4 * error < abs(scores[5.0].mean() - printed)


def test_adjacent_clusters() -> None:
    """Each such cluster but the first is 1.5 to 5 standard deviations from an earlier one."""
    for one in components_of(
        MixtureOfGaussians(k_exact=3, adjacent=1.0).draw(np.random.default_rng(0), 200, 5)
    ):
        for j in (1, 2):
            apart = np.linalg.norm((one.means[j] - one.means[:j]) / one.sds[:j], axis=1)
            assert ((apart >= 1.5 - 1e-9) & (apart <= 5 + 1e-9)).any()
    some = components_of(MixtureOfGaussians(k_exact=2, adjacent=0.3).draw(np.random.default_rng(0), 2000, 5))
    adjacent = [np.linalg.norm((one.means[1] - one.means[0]) / one.sds[0]) <= 5 for one in some]
    # By chance the difference of two means, which has twice their variance, is as small.
    expected = 0.3 + 0.7 * (1 - math.exp(-((5 * 0.25 / 3) ** 2) / 4))
    assert abs(np.mean(adjacent) - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 2000)


def test_alpha_is_exponential() -> None:
    """P(two points meet) = E[1 / (1 + alpha)], which a fixed alpha = 1 would put at 1/2."""
    labels = ChineseRestaurantMixture().draw(np.random.default_rng(2), N_DRAWS, 2).labels
    meeting = quad(lambda alpha: math.exp(-alpha) / (1 + alpha), 0, np.inf)[0]
    error = math.sqrt(meeting * (1 - meeting) / N_DRAWS)
    assert abs((labels[:, 0] == labels[:, 1]).mean() - meeting) < 4.5 * error


@pytest.mark.parametrize(("n_features", "mean_sd", "sd"), [(2, 10.0, 1.0), (1, 10.0, 10.0)])
def test_crp_mixture(n_features: int, mean_sd: float, sd: float) -> None:
    prior = ChineseRestaurantMixture(n_features=n_features, mean_sd=mean_sd, sd=sd, alpha=2.0)
    batch = prior.draw(np.random.default_rng(5), 1000, 20)
    parts = components_of(batch)
    assert_moments(np.concatenate([one.means.ravel() for one in parts]), 0.0, mean_sd)
    noise = [batch.points[i] - one.means[batch.labels[i]] for i, one in enumerate(parts)]
    assert_moments(np.concatenate(noise), 0.0, sd)
    for i, one in enumerate(parts[:20]):  # the oracle knows the proportions of the data set
        np.testing.assert_allclose(one.weights, np.bincount(batch.labels[i]) / 20)
        assert (one.sds == sd).all()


def test_crp_given_k() -> None:
    draws = [
        ChineseRestaurantMixture(k_exact=6, alpha=alpha).draw(np.random.default_rng(4), 50, 40)
        for alpha in (None, 10.0)
    ]
    assert all(draws[0][i].n_clusters == len(draws[0].components[i].weights) == 6 for i in range(50))
    np.testing.assert_array_equal(draws[0].points, draws[1].points)  # alpha changes nothing


def test_correlated_points_and_axes() -> None:
    """Whitened by the root of their component, points are standard normal; axes have any direction."""
    prior = CorrelatedGaussians(k_exact=1, sd_median=0.5, sd_log_sd=0.7)
    batch = prior.draw(np.random.default_rng(1), 4000, 1)
    parts = [one for one in batch.components if isinstance(one, CorrelatedComponents)]
    roots, means = (np.stack([getattr(one, name)[0] for one in parts]) for name in ("roots", "means"))
    white = np.linalg.solve(roots, (batch.points[:, 0] - means)[..., None])[..., 0]
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(white.T)[0, 1]) < 4.5 / math.sqrt(4000)
    log_sds = 0.5 * np.log(np.square(roots).sum(axis=1))  # columns are rotated axes times their widths
    assert stats.kstest(log_sds.ravel(), stats.norm(np.log(0.5), 0.7).cdf).pvalue > 1e-4
    angles = np.arctan2(roots[:, 1, 0], roots[:, 0, 0]) % np.pi
    assert stats.kstest(angles / np.pi, "uniform").pvalue > 1e-4
