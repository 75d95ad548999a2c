"""The density of the fitted clusters, and draws from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from .conftest import Make


def grid(estimator: Any, n_per_axis: int = 200) -> tuple[np.ndarray, float]:
    """Cells that cover the mixture out to 12 standard deviations: their centres (m, d) and volume."""
    sds = np.sqrt(np.diagonal(estimator.covariances_, axis1=1, axis2=2))
    low, high = (estimator.means_ - 12 * sds).min(axis=0), (estimator.means_ + 12 * sds).max(axis=0)
    steps = (high - low) / n_per_axis
    axes = [start + step * (np.arange(n_per_axis) + 0.5) for start, step in zip(low, steps, strict=True)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
    return centres, float(steps.prod())


def test_the_density_integrates_to_one(make: Make, heaps: np.ndarray) -> None:
    estimator = make().fit(heaps * [1.0, 3.0])
    cells, volume = grid(estimator, 400)
    # Beyond the grid lie the long tails of a Student t.
    assert np.exp(estimator.score_samples(cells)).sum() * volume == pytest.approx(1, abs=0.03)


def test_the_density_of_one_feature_integrates_to_one(make_network: Make, heaps: np.ndarray) -> None:
    """The zeros that the network sees beside it are no part of the density."""
    estimator = make_network(projection="pca").fit(heaps[:, :1])
    cells, volume = grid(estimator, 20_000)
    assert np.exp(estimator.score_samples(cells)).sum() * volume == pytest.approx(1, abs=0.03)


def test_the_density_of_projected_features_is_one_on_their_plane(
    make_network: Make, heaps: np.ndarray
) -> None:
    """Three features that lie on a plane: the density over the plane is that of two features."""
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0][:2]
    flat = make_network(projection="pca").fit(heaps @ axes)
    points = np.random.default_rng(1).uniform(-2500, 2500, (200_000, 2)) + heaps.mean(axis=0)
    density = np.exp(flat.score_samples(points @ axes)) * 5000.0**2
    assert density.mean() == pytest.approx(1, abs=0.02 + 5 * density.std() / np.sqrt(len(density)))


def test_the_density_is_nearly_that_of_the_gaussians_and_the_score_its_mean(
    make_each: Make, heaps: np.ndarray
) -> None:
    """A Student t with the clusters' means and covariances."""
    estimator = make_each.fitted()
    scores, by_hand = estimator.score_samples(heaps), np.zeros(140)
    described = (estimator.means_, estimator.covariances_, estimator.proportions_)
    for mean, covariance, share in zip(*described, strict=True):
        by_hand += share * multivariate_normal(mean, covariance).pdf(heaps)
    assert np.median(np.abs(scores - np.log(by_hand))) < 0.3
    assert estimator.score(heaps) == estimator.score(heaps, y=np.zeros(140)) == scores.mean()


def test_samples_have_the_moments_of_the_clusters(make_each: Make, heaps: np.ndarray) -> None:
    n = 20_000
    estimator = make_each.fitted()
    points, labels = estimator.sample(n)
    assert points.shape == (n, 2)
    assert labels.shape == (n,)
    shares = np.bincount(labels, minlength=estimator.n_clusters_) / n
    np.testing.assert_allclose(shares, estimator.proportions_, atol=5 * 0.5 / np.sqrt(n))
    for j, (mean, covariance) in enumerate(zip(estimator.means_, estimator.covariances_, strict=True)):
        drawn, sd = points[labels == j], np.sqrt(np.diag(covariance))
        if len(drawn) > 1000:
            assert (np.abs(drawn.mean(axis=0) - mean) < 5 * sd / np.sqrt(len(drawn))).all()
            # Tails of a Student t make the standard error larger than that of a Gaussian.
            np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.3 * sd.max() ** 2)


def test_samples_of_projected_data_lie_near_the_data(make_network: Make, heaps: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([heaps, heaps.sum(axis=1)]) + rng.normal(0, 1, (140, 3))
    estimator = make_network(projection="pca").fit(X)
    points, _ = estimator.sample(500)
    assert points.shape == (500, 3)
    assert np.abs(points[:, :2].sum(axis=1) - points[:, 2]).max() < 20  # on the plane of the data
    assert (points.min(axis=0) > X.min(axis=0) - 1000).all()
    assert (points.max(axis=0) < X.max(axis=0) + 1000).all()


def test_samples_are_reproducible(make_each: Make, heaps: np.ndarray) -> None:
    one, other = make_each.fitted().sample(7), make_each().fit(heaps).sample(7)
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    assert make_each.fitted().sample()[0].shape == (1, 2)
