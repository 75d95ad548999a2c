"""The mixture of Gaussians is the distribution that Eq 13 of DAC prints."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from clusterwise.exceptions import RecipeError
from clusterwise.priors import GaussianComponents, MixtureOfGaussians, make_prior

N_SETS = 3000
K = 3
N_POINTS = 40


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, labels, weights, means and sds of data sets with exactly K components."""
    batch = MixtureOfGaussians(n_features=2, k_exact=K).draw(np.random.default_rng(0), N_SETS, N_POINTS)
    parts = [component for component in batch.components if isinstance(component, GaussianComponents)]
    assert len(parts) == N_SETS
    weights, means, sds = (
        np.stack([getattr(p, name) for p in parts]) for name in ("weights", "means", "sds")
    )
    return batch.points, batch.labels, weights, means, sds


Drawn = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def assert_moments(sample: np.ndarray, mean: float, sd: float) -> None:
    """Check mean and sd of independent normal values to 4.5 standard errors."""
    assert abs(sample.mean() - mean) < 4.5 * sd / math.sqrt(sample.size)
    assert abs(sample.std() - sd) < 4.5 * sd / math.sqrt(2 * sample.size)


def test_means(drawn: Drawn) -> None:
    assert_moments(drawn[3], 0.0, 3.0)


def test_standard_deviations(drawn: Drawn) -> None:
    assert_moments(np.log(drawn[4]), math.log(0.25), 0.1)


def test_parameters_of_features_and_clusters_are_independent(drawn: Drawn) -> None:
    values = np.concatenate([drawn[3].reshape(N_SETS, -1), np.log(drawn[4]).reshape(N_SETS, -1)], axis=1)
    correlations = np.corrcoef(values.T)
    off_diagonal = correlations[~np.eye(len(correlations), dtype=bool)]
    assert np.abs(off_diagonal).max() < 4.5 / math.sqrt(N_SETS)


@pytest.mark.parametrize("concentration", [0.5, 1.0, 5.0])
def test_weights(concentration: float) -> None:
    prior = MixtureOfGaussians(k_exact=K, concentration=concentration)
    batch = prior.draw(np.random.default_rng(1), N_SETS, 1)
    weights = np.stack([c.weights for c in batch.components if isinstance(c, GaussianComponents)])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    for column in weights.T:
        law = stats.beta(concentration, (K - 1) * concentration)  # the margin of a Dirichlet
        assert stats.kstest(column, law.cdf).pvalue > 1e-4
        assert abs(column.mean() - law.mean()) < 4.5 * law.std() / math.sqrt(N_SETS)


def test_points_per_cluster(drawn: Drawn) -> None:
    _, labels, weights, _, _ = drawn
    counts = (labels[:, :, None] == np.arange(K)).sum(axis=1)
    spread = np.sqrt(N_POINTS * weights * (1 - weights))
    assert abs((counts - N_POINTS * weights).sum(axis=0)).max() < 4.5 * np.sqrt(
        np.square(spread).sum(axis=0).max()
    )
    # Given the weights, the variance is that of a binomial; wide bins keep rare clusters out.
    usual = spread > 1.5
    standardized = ((counts - N_POINTS * weights) / np.where(usual, spread, 1.0))[usual]
    error = np.square(standardized).std() / math.sqrt(standardized.size)
    assert abs(np.square(standardized).mean() - 1.0) < 4.5 * error


def test_points_given_labels(drawn: Drawn) -> None:
    points, labels, _, means, sds = drawn
    row = np.arange(N_SETS)[:, None]
    standardized = (points - means[row, labels]) / sds[row, labels]
    assert_moments(standardized, 0.0, 1.0)
    assert stats.kstest(standardized[:100].ravel(), "norm").pvalue > 1e-4


@pytest.mark.parametrize("k_max", [1, 4, 12])
def test_number_of_components_is_binomial(k_max: int) -> None:
    batch = MixtureOfGaussians(k_max=k_max).draw(np.random.default_rng(2), N_SETS, 1)
    k = np.array([len(c.weights) for c in batch.components if isinstance(c, GaussianComponents)])
    assert k.min() >= 1
    assert k.max() <= k_max
    error = math.sqrt((k_max - 1) / 4 / N_SETS)
    assert abs(k.mean() - 1 - (k_max - 1) / 2) <= 4.5 * error
    if k_max == 4:
        observed = np.bincount(k - 1, minlength=4)
        assert stats.chisquare(observed, N_SETS * np.array([1, 3, 3, 1]) / 8).pvalue > 1e-4


def test_number_of_components_is_uniform_on_request() -> None:
    batch = MixtureOfGaussians(k_max=5, k_law="uniform").draw(np.random.default_rng(2), N_SETS, 1)
    k = np.array([len(c.weights) for c in batch.components if isinstance(c, GaussianComponents)])
    assert stats.chisquare(np.bincount(k, minlength=6)[1:]).pvalue > 1e-4
    fixed = MixtureOfGaussians(k_law="uniform", k_exact=3).draw(np.random.default_rng(2), 5, 1)
    assert all(len(c.weights) == 3 for c in fixed.components if isinstance(c, GaussianComponents))


def test_unknown_law_of_k_is_refused() -> None:
    with pytest.raises(RecipeError, match="k_law of MixtureOfGaussians must be one of"):
        make_prior("mixture-of-gaussians", k_law="poisson")


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_oracle_agrees_with_scipy(n_features: int) -> None:
    drawn = MixtureOfGaussians(n_features=n_features, k_exact=3).draw_set(np.random.default_rng(3), 20)
    components = drawn.components
    assert isinstance(components, GaussianComponents)
    total = 0.0
    for point, best in zip(drawn.points, drawn.oracle_labels(), strict=True):
        densities = [
            weight * stats.multivariate_normal(mean, np.diag(np.square(sd))).pdf(point)
            for weight, mean, sd in zip(components.weights, components.means, components.sds, strict=True)
        ]
        total += math.log(sum(densities))
        assert best == int(np.argmax(densities))
    assert drawn.oracle_log_likelihood() == pytest.approx(total / 20, rel=1e-10)


def test_log_density_agrees_with_a_loop() -> None:
    rng = np.random.default_rng(4)
    points, means, sds = rng.normal(size=(6, 3)), rng.normal(size=(4, 3)), rng.uniform(0.1, 2, (4, 3))
    expected = [[stats.norm(m, s).logpdf(x).sum() for m, s in zip(means, sds, strict=True)] for x in points]
    np.testing.assert_allclose(GaussianComponents(np.ones(4), means, sds).log_density(points), expected)


def test_component_without_weight_never_wins() -> None:
    components = GaussianComponents(np.array([1.0, 0.0]), np.zeros((2, 2)), np.ones((2, 2)))
    joint = components.log_joint(np.zeros((1, 2)))
    assert joint[0, 1] == -np.inf


def oracle_scores(k_max: int, concentration: float) -> np.ndarray:
    """Oracle log-likelihood of 3,000 data sets; its mean does not depend on the number of points."""
    prior = MixtureOfGaussians(k_max=k_max, concentration=concentration)
    batch = prior.draw(np.random.default_rng(5), 3000, 60)
    return np.array([batch[index].oracle_log_likelihood() for index in range(3000)])


@pytest.mark.parametrize(("k_max", "printed"), [(4, -0.693), (12, -1.527)])
def test_oracle_log_likelihood_is_the_printed_one(k_max: int, printed: float) -> None:
    ours = oracle_scores(k_max, concentration=1.0)
    theirs_too = ours.std() * math.sqrt(1 / 3000 + 1 / 1000)  # the paper averages over 1,000 data sets
    assert abs(ours.mean() - printed) < 4 * theirs_too
    assert abs(oracle_scores(k_max, concentration=5.0).mean() - printed) > 4 * theirs_too


def test_a_seed_keeps_its_meaning() -> None:
    """Trained weights are rebuilt from a recipe's seed, so its draws must not move."""
    batch = MixtureOfGaussians().draw(np.random.default_rng(7), 2, 6)
    assert batch.labels.tolist() == [[0, 0, 0, 1, 1, 1], [3, 2, 1, 3, 1, 1]]
    expected = [
        [0.128806419242, 2.95647141368],
        [2.82560594875, -2.59881269428],
        [-2.78387987721, -3.03492381588],
    ]
    np.testing.assert_allclose(batch.points[1, :3], expected, rtol=1e-10)


def test_clusters_may_lie_side_by_side() -> None:
    """With ``near`` = 1 each cluster but the first is 1.5 to 5 standard deviations from an earlier one."""
    drawn = MixtureOfGaussians(k_exact=3, near=1.0).draw(np.random.default_rng(0), 200, 5)
    for one in drawn.components:
        assert isinstance(one, GaussianComponents)
        for j in (1, 2):
            apart = np.linalg.norm((one.means[j] - one.means[:j]) / one.sds[:j], axis=1)
            assert ((apart >= 1.5 - 1e-9) & (apart <= 5 + 1e-9)).any()


def test_the_share_of_clusters_that_lie_side_by_side() -> None:
    drawn = MixtureOfGaussians(k_exact=2, near=0.3).draw(np.random.default_rng(0), 2000, 5)
    near = 0
    for one in drawn.components:
        assert isinstance(one, GaussianComponents)
        near += bool(np.linalg.norm((one.means[1] - one.means[0]) / one.sds[0]) <= 5)
    by_chance = 0.7 * (
        1 - math.exp(-((5 * 0.25 / 3) ** 2) / 4)
    )  # the difference of means has twice their variance
    expected = 0.3 + by_chance
    assert abs(near / 2000 - expected) < 4.5 * math.sqrt(expected * (1 - expected) / 2000)
