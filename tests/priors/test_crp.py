"""The CRP mixture is the distribution of AMCP section 4.1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from clusterwise.exceptions import RecipeError
from clusterwise.priors import ChineseRestaurantMixture, GaussianComponents, TaskBatch

N_SETS = 3000


def number_of_clusters(batch: TaskBatch) -> np.ndarray:
    return np.array([batch[index].n_clusters for index in range(len(batch))])


def mixture(batch: TaskBatch, index: int) -> GaussianComponents:
    components = batch.components[index]
    assert isinstance(components, GaussianComponents)
    return components


@pytest.mark.parametrize("alpha", [0.7, 5.0])
def test_expected_number_of_clusters_given_alpha(alpha: float) -> None:
    k = number_of_clusters(ChineseRestaurantMixture(alpha=alpha).draw(np.random.default_rng(0), N_SETS, 50))
    opening = alpha / (alpha + np.arange(50))
    error = math.sqrt((opening * (1 - opening)).sum() / N_SETS)
    assert abs(k.mean() - opening.sum()) < 4.5 * error


def test_alpha_is_exponential() -> None:
    k = number_of_clusters(ChineseRestaurantMixture().draw(np.random.default_rng(1), N_SETS, 50))

    def weighted(alpha: float) -> float:
        return math.exp(-alpha) * float((alpha / (alpha + np.arange(1, 50))).sum())

    expected = 1 + quad(weighted, 0, np.inf)[0]
    assert abs(k.mean() - expected) < 4.5 * k.std() / math.sqrt(N_SETS)
    # P(two points meet) = E[1 / (1 + alpha)], which a fixed alpha = 1 would put at 1/2.
    labels = ChineseRestaurantMixture().draw(np.random.default_rng(2), 20_000, 2).labels
    meeting = quad(lambda alpha: math.exp(-alpha) / (1 + alpha), 0, np.inf)[0]
    error = math.sqrt(meeting * (1 - meeting) / 20_000)
    assert abs((labels[:, 0] == labels[:, 1]).mean() - meeting) < 4.5 * error


@pytest.mark.parametrize(("k", "n_points"), [(4, 200), (6, 400)])
def test_scenarios_have_exactly_k_clusters(k: int, n_points: int) -> None:
    batch = ChineseRestaurantMixture(k_exact=k).draw(np.random.default_rng(3), 50, n_points)
    assert (number_of_clusters(batch) == k).all()
    assert all(len(mixture(batch, index).weights) == k for index in range(50))


def test_alpha_changes_nothing_when_k_is_given() -> None:
    draws = [
        ChineseRestaurantMixture(k_exact=3, alpha=alpha).draw(np.random.default_rng(4), 5, 20).points
        for alpha in (None, 0.1, 10.0)
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


@pytest.mark.parametrize(("n_features", "mean_sd", "sd"), [(2, 10.0, 1.0), (3, 3.0, 0.25), (1, 10.0, 10.0)])
def test_scales(n_features: int, mean_sd: float, sd: float) -> None:
    prior = ChineseRestaurantMixture(n_features=n_features, mean_sd=mean_sd, sd=sd)
    batch = prior.draw(np.random.default_rng(5), 1000, 20)
    means = np.concatenate([mixture(batch, index).means.ravel() for index in range(1000)])
    residuals = np.concatenate(
        [(batch.points[i] - mixture(batch, i).means[batch.labels[i]]).ravel() for i in range(1000)]
    )
    for sample, scale in ((means, mean_sd), (residuals, sd)):
        assert abs(sample.mean()) < 4.5 * scale / math.sqrt(sample.size)
        assert abs(sample.std() - scale) < 4.5 * scale / math.sqrt(2 * sample.size)
        assert stats.kstest(sample[:3000] / scale, "norm").pvalue > 1e-4


def test_oracle_weights_are_empirical_proportions() -> None:
    batch = ChineseRestaurantMixture(alpha=2.0).draw(np.random.default_rng(6), 20, 30)
    for index in range(20):
        counts = [int((batch.labels[index] == label).sum()) for label in range(batch[index].n_clusters)]
        np.testing.assert_allclose(mixture(batch, index).weights, np.array(counts) / 30)


def test_oracle_agrees_with_a_loop() -> None:
    drawn = ChineseRestaurantMixture(n_features=3, mean_sd=2.0, sd=0.8, k_exact=3).draw_set(
        np.random.default_rng(7), 12
    )
    components = drawn.components
    assert isinstance(components, GaussianComponents)
    scores = []
    for point in drawn.points:
        terms = [
            math.log((drawn.labels == j).mean()) + stats.norm(components.means[j], 0.8).logpdf(point).sum()
            for j in range(3)
        ]
        scores.append(logsumexp(terms))
    assert drawn.oracle_log_likelihood() == pytest.approx(np.mean(scores), rel=1e-10)


def test_printed_scales_leave_the_oracle_helpless() -> None:
    """With sigma_mu = sigma = 10 and 4 clusters of 200 points, the oracle errs on many points."""
    right = {}
    for name, prior in {
        "printed": ChineseRestaurantMixture(mean_sd=10.0, sd=10.0, k_exact=4),
        "ours": ChineseRestaurantMixture(k_exact=4),
    }.items():
        batch = prior.draw(np.random.default_rng(8), 100, 200)
        right[name] = np.mean([(batch[i].oracle_labels() == batch.labels[i]).mean() for i in range(100)])
    assert right["printed"] < 0.85 < 0.95 < right["ours"]


def test_too_few_points_for_k() -> None:
    with pytest.raises(RecipeError, match="3 points cannot form exactly 4 clusters"):
        ChineseRestaurantMixture(k_exact=4).draw_set(np.random.default_rng(0), 3)
