"""Mixtures of diagonal Gaussians: densities, EM against a loop, merging, sampling, outliers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2, kstest, multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from clusterwise import mixture as module
from clusterwise.mixture import (
    PRIOR_POINTS,
    SMALLEST_VARIANCE,
    DiagonalMixture,
    merge_indistinct,
    mixture_from_labels,
    refine,
)


def random_mixture(k: int, d: int, seed: int = 0) -> DiagonalMixture:
    rng = np.random.default_rng(seed)
    return DiagonalMixture(
        rng.dirichlet(np.full(k, 5.0)), rng.normal(0, 3, (k, d)), np.exp(rng.normal(-1, 0.5, (k, d)))
    )


def draw(k: int, d: int, n: int, seed: int = 0) -> tuple[DiagonalMixture, np.ndarray, np.ndarray]:
    """A random mixture, points from it and their clusters."""
    mixture = random_mixture(k, d, seed)
    return mixture, *mixture.sample(np.random.default_rng(seed + 100), n)


# -- densities and memberships -----------------------------------------------------------------------


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (4, 5)])
def test_densities_are_scipys(k: int, d: int) -> None:
    mixture, points, _ = draw(k, d, 30)
    expected = np.column_stack(
        [
            np.log(mixture.proportions[j])
            + multivariate_normal(mixture.means[j], np.diag(mixture.variances[j])).logpdf(points)
            for j in range(k)
        ]
    )
    np.testing.assert_allclose(mixture.log_joint(points), expected, rtol=1e-10)
    np.testing.assert_allclose(mixture.log_density(points), logsumexp(expected, axis=1), rtol=1e-10)
    posterior = np.exp(expected - logsumexp(expected, axis=1, keepdims=True))
    np.testing.assert_allclose(mixture.memberships(points), posterior, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("distance", [0.0, 1e3, 1e100, 1e200, 1e308])
def test_memberships_sum_to_one_however_far_out(distance: float) -> None:
    mixture, points, _ = draw(4, 2, 20)
    memberships = mixture.memberships(points + distance)
    assert (memberships >= 0).all()
    np.testing.assert_allclose(memberships.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(mixture.log_density(points + distance)).all()


@given(st.lists(st.integers(0, 199), min_size=1, max_size=30), st.integers(1, 40))
def test_each_row_is_treated_on_its_own(rows: list[int], chunk: int) -> None:
    """Any selection of rows, in any order and any size of chunks, comes out bit for bit the same."""
    mixture, points, _ = draw(5, 3, 200)
    selected = points[rows]
    with pytest.MonkeyPatch.context() as patch:
        joint, density, outlier = (
            mixture.log_joint(points),
            mixture.log_density(points),
            mixture.outlier_scores(points, 200),
        )
        memberships = mixture.memberships(points)
        patch.setattr(module, "CHUNK", 15 * chunk)
        np.testing.assert_array_equal(mixture.log_joint(selected), joint[rows])
        np.testing.assert_array_equal(mixture.memberships(selected), memberships[rows])
        np.testing.assert_array_equal(mixture.log_density(selected), density[rows])
        np.testing.assert_array_equal(mixture.outlier_scores(selected, 200), outlier[rows])


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("k", [1, 7])
def test_quick_ways_change_no_bit(k: int, d: int) -> None:
    mixture, points, _ = draw(k, d, 500)
    points[0] = 1e200
    near = np.clip(points, -module.FARTHEST, module.FARTHEST)
    squared = (np.square(near[:, None, :] - mixture.means) / mixture.variances).sum(axis=2)
    normalizer = np.log(mixture.proportions) - 0.5 * np.log(2 * np.pi * mixture.variances).sum(axis=1)
    joint = normalizer - 0.5 * squared
    np.testing.assert_array_equal(mixture.log_joint(points), joint)
    weights = np.exp(joint - joint.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(mixture.memberships(points), weights / weights.sum(axis=1, keepdims=True))
    for n_points in (1, 500, 100_000, 10**9):
        plain = np.exp(n_points * chi2.logcdf(squared.min(axis=1), df=d))
        np.testing.assert_allclose(mixture.outlier_scores(points, n_points), plain, rtol=1e-6, atol=1e-300)


def test_select_keeps_and_orders_clusters() -> None:
    mixture = random_mixture(4, 2)
    chosen = mixture.select(np.array([2, 0]))
    assert chosen.n_clusters == 2
    np.testing.assert_array_equal(chosen.means, mixture.means[[2, 0]])
    np.testing.assert_array_equal(chosen.variances, mixture.variances[[2, 0]])
    assert chosen.proportions.sum() == pytest.approx(1.0)
    assert chosen.proportions[0] / chosen.proportions[1] == pytest.approx(
        mixture.proportions[2] / mixture.proportions[0]
    )


# -- moments and EM ----------------------------------------------------------------------------------


def naive_maximization(points: np.ndarray, weights: np.ndarray, prior_points: float) -> DiagonalMixture:
    """M-step by loops; each variance is a mean over the points and ``prior_points`` of the pooled one."""
    n, d = points.shape
    k = weights.shape[1]
    counts = [sum(weights[i, j] for i in range(n)) for j in range(k)]
    means = np.array([sum(weights[i, j] * points[i] for i in range(n)) / counts[j] for j in range(k)])
    scatter = np.zeros((k, d))
    for j in range(k):
        for i in range(n):
            scatter[j] += weights[i, j] * (points[i] - means[j]) ** 2
    pooled = sum(scatter[j] for j in range(k)) / n
    variances = np.array(
        [(scatter[j] + prior_points * pooled) / (counts[j] + prior_points) for j in range(k)]
    )
    return DiagonalMixture(np.array(counts) / n, means, variances)


def assert_close(one: DiagonalMixture, other: DiagonalMixture, rtol: float = 1e-10) -> None:
    np.testing.assert_allclose(one.proportions, other.proportions, rtol=rtol)
    np.testing.assert_allclose(one.means, other.means, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(one.variances, other.variances, rtol=rtol)


def test_moments_of_a_partition() -> None:
    _, points, labels = draw(3, 2, 60)
    found = mixture_from_labels(points, labels)
    assert_close(found, naive_maximization(points, np.eye(3)[labels], PRIOR_POINTS))
    for j in range(3):
        np.testing.assert_allclose(found.means[j], points[labels == j].mean(axis=0))
        assert found.proportions[j] == pytest.approx((labels == j).mean())


def test_em_is_the_loop() -> None:
    mixture, points, _ = draw(3, 2, 60)
    expected = mixture
    for _ in range(4):
        expected = naive_maximization(points, expected.memberships(points), PRIOR_POINTS)
    assert_close(refine(points, mixture, 4), expected)
    assert refine(points, mixture, 0) is mixture


def test_without_prior_points_em_is_scikit_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRIOR_POINTS", 0.0)
    mixture, points, _ = draw(3, 2, 300)
    peer = GaussianMixture(
        3,
        covariance_type="diag",
        reg_covar=0.0,
        tol=0.0,
        max_iter=5,
        weights_init=mixture.proportions,
        means_init=mixture.means,
        precisions_init=1 / mixture.variances,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer.fit(points)
    assert_close(
        refine(points, mixture, 5), DiagonalMixture(peer.weights_, peer.means_, peer.covariances_), 1e-8
    )


@pytest.mark.parametrize("seed", range(5))
def test_em_climbs(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Without prior points every step raises the likelihood; with them it may fall a little at the top."""
    _, points, _ = draw(4, 2, 200, seed)
    start = mixture_from_labels(points, np.random.default_rng(seed).integers(4, size=200))
    with_prior = [refine(points, start, steps).log_density(points).sum() for steps in range(30)]
    assert with_prior[-1] > with_prior[0]
    assert np.diff(with_prior).min() > -1.0  # of 200 points together
    monkeypatch.setattr(module, "PRIOR_POINTS", 0.0)
    without = [refine(points, start, steps).log_density(points).sum() for steps in range(1, 30)]
    assert np.diff(without).min() > -1e-8


def test_a_cluster_of_one_point_has_a_sensible_width() -> None:
    _, points, _ = draw(1, 2, 100)
    points[0] = 50.0
    labels = np.zeros(100, dtype=int)
    labels[0] = 1
    found = mixture_from_labels(points, labels)
    share = PRIOR_POINTS / (PRIOR_POINTS + 1)
    pooled = points[1:].var(axis=0) * 99 / 100
    np.testing.assert_allclose(found.variances[1], share * pooled)


def test_duplicates_have_a_finite_density() -> None:
    points = np.repeat([[0.0, 1.0], [2.0, 3.0]], 10, axis=0)
    mixture = refine(points, mixture_from_labels(points, np.repeat([0, 1], 10)), 5)
    np.testing.assert_array_equal(mixture.variances, SMALLEST_VARIANCE)
    np.testing.assert_array_equal(mixture.memberships(points).argmax(axis=1), np.repeat([0, 1], 10))
    assert np.isfinite(mixture.log_density(points)).all()


def test_em_drops_a_cluster_without_points() -> None:
    mixture, points, _ = draw(2, 2, 50)
    far = DiagonalMixture(
        np.array([0.4, 0.2, 0.4]),
        np.stack([mixture.means[0], [1e4, 1e4], mixture.means[1]]),
        np.stack([mixture.variances[0], [0.1, 0.1], mixture.variances[1]]),
    )
    found = refine(points, far, 3)
    assert found.n_clusters == 2
    assert_close(found, refine(points, far.select(np.array([0, 2])), 3))


def test_far_clusters_do_not_cancel() -> None:
    """Variances are around the mean itself: an offset of 1e6 standard deviations costs no digits."""
    _, points, labels = draw(2, 2, 100)
    near, far = mixture_from_labels(points, labels), mixture_from_labels(points + 1e6, labels)
    np.testing.assert_allclose(far.variances, near.variances, rtol=1e-8)


# -- merging -----------------------------------------------------------------------------------------


def normal(n: int, seed: int, *centre: float) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 2)) + centre


@pytest.mark.parametrize("n", [50, 400])
def test_two_halves_of_one_gaussian_merge(n: int) -> None:
    points = normal(n, 0, 0.0, 0.0)
    halves = mixture_from_labels(points, (points[:, 0] > 0).astype(int))
    found = merge_indistinct(points, refine(points, halves, 5), 5)
    assert found.n_clusters == 1
    np.testing.assert_allclose(found.means[0], points.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(found.variances[0], points.var(axis=0), rtol=1e-8)


def test_a_few_far_members_go_back_to_their_cluster() -> None:
    """What a cluster-wise loop leaves behind: the outermost points of a cluster as a cluster of their own."""
    points = np.concatenate([normal(300, 1, 0.0, 0.0), normal(200, 2, 15.0, 0.0)])
    labels = np.repeat([0, 1], [300, 200])
    labels[np.argsort(points[:300, 1])[-4:]] = 2
    found = merge_indistinct(points, refine(points, mixture_from_labels(points, labels), 5), 5)
    assert found.n_clusters == 2
    np.testing.assert_array_equal(np.sort(np.bincount(found.memberships(points).argmax(axis=1))), [200, 300])


@pytest.mark.parametrize("gap", [6.0, 1e3])
def test_far_clusters_stay_apart(gap: float) -> None:
    points = np.concatenate([normal(40, 1, 0.0, 0.0), normal(60, 2, gap, 0.0), normal(30, 3, 0.0, gap)])
    mixture = mixture_from_labels(points, np.repeat([0, 1, 2], [40, 60, 30]))
    found = merge_indistinct(points, mixture, 5)
    assert found is mixture


def test_two_clusters_merge_where_the_message_is_shorter() -> None:
    """From overlapping clusters to distinct ones: merged while the likelihood loses less than the price."""
    decisions = []
    for gap in np.linspace(0.0, 4.0, 41):
        points = np.concatenate([normal(60, 1, 0.0, 0.0), normal(40, 2, gap, 0.0)])
        two = mixture_from_labels(points, np.repeat([0, 1], [60, 40]))
        mean = two.proportions @ two.means
        variance = two.proportions @ (two.variances + np.square(two.means - mean))
        one = DiagonalMixture(np.ones(1), mean[None], variance[None])
        price = 2 * np.log(40 + PRIOR_POINTS) + 0.5 * np.log(100)  # of the smaller cluster, d = 2
        merges = two.log_density(points).sum() - one.log_density(points).sum() < price
        found = merge_indistinct(points, two, 0)
        assert found.n_clusters == (1 if merges else 2)
        if merges:
            assert_close(found, one)
        decisions.append(merges)
    assert 5 < sum(decisions) < 36


def test_two_points_far_away_are_a_cluster() -> None:
    """Two outlying members go back to their cluster; the same two points well apart are one of their own."""
    cluster = normal(300, 1, 0.0, 0.0)
    for distance, n_clusters in ((3.5, 1), (6.5, 2)):
        points = np.concatenate([cluster, [[distance, 0.0], [distance, 0.3]]])
        mixture = mixture_from_labels(points, np.repeat([0, 1], [300, 2]))
        assert merge_indistinct(points, refine(points, mixture, 5), 5).n_clusters == n_clusters


def test_merging_joins_pieces_of_the_same_cluster() -> None:
    for seed in range(4):
        _, points, _ = draw(3, 2, 150, seed)
        start = refine(points, mixture_from_labels(points, np.arange(150) % 7), 10)
        found = merge_indistinct(points, start, 5)
        assert found.n_clusters < start.n_clusters
        assert found.proportions.sum() == pytest.approx(1.0)


def test_one_cluster_or_one_point_is_left_alone() -> None:
    one = random_mixture(1, 2)
    assert merge_indistinct(normal(5, 0, 0.0, 0.0), one, 3) is one
    point = np.array([[1.0, 2.0]])
    assert merge_indistinct(point, mixture_from_labels(point, np.array([0])), 3).n_clusters == 1


# -- samples and outliers ----------------------------------------------------------------------------


def test_samples_have_the_moments_of_the_mixture() -> None:
    mixture, n = random_mixture(3, 2), 40_000
    points, labels = mixture.sample(np.random.default_rng(1), n)
    assert points.shape == (n, 2)
    assert (np.diff(labels) >= 0).all()
    for j in range(3):
        share, mine = mixture.proportions[j], points[labels == j]
        assert abs(len(mine) / n - share) < 4.5 * np.sqrt(share * (1 - share) / n)
        variances = mixture.variances[j]
        assert (np.abs(mine.mean(axis=0) - mixture.means[j]) < 4.5 * np.sqrt(variances / len(mine))).all()
        assert (np.abs(mine.var(axis=0) - variances) < 4.5 * variances * np.sqrt(2 / len(mine))).all()


def test_outlier_scores() -> None:
    mixture, points, _ = draw(3, 2, 500)
    scores = mixture.outlier_scores(np.concatenate([points, points + 1e3, points * 1e200]), 500)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.median(scores[:500]) < 1e-10
    assert (scores[500:1000] == 1.0).all()


def test_the_farthest_of_n_points_scores_uniformly() -> None:
    """That is what the score means: the probability that none of n points lies as far out."""
    rng, mixture = np.random.default_rng(0), random_mixture(1, 2)
    farthest = []
    for _ in range(300):
        points, _ = mixture.sample(rng, 40)
        farthest.append(mixture.outlier_scores(points, 40).max())
    assert kstest(farthest, "uniform").pvalue > 1e-4


def test_scores_grow_with_the_distance() -> None:
    mixture = DiagonalMixture(np.array([1.0]), np.zeros((1, 2)), np.ones((1, 2)))
    points = np.column_stack([np.linspace(0, 8, 50), np.zeros(50)])
    scores = mixture.outlier_scores(points, 100)
    assert (np.diff(scores) >= 0).all()
    assert scores[0] == 0.0
    assert scores[-1] > 0.999
