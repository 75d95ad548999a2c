"""The density of the fitted mixture, and draws from it; weights without density say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Make = Callable[..., Any]


def grid(estimator: Any, n_per_axis: int = 200) -> tuple[np.ndarray, float]:
    """Cells that cover the mixture out to 7 standard deviations: their centres (m, d) and volume."""
    sds = np.sqrt(estimator.variances_)
    low, high = (estimator.means_ - 7 * sds).min(axis=0), (estimator.means_ + 7 * sds).max(axis=0)
    steps = (high - low) / n_per_axis
    axes = [start + step * (np.arange(n_per_axis) + 0.5) for start, step in zip(low, steps, strict=True)]
    centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
    return centres, float(steps.prod())


@pytest.mark.parametrize("options", [{}, {"scaling": "feature"}, {"refine_steps": 0, "zoom_levels": 0}])
def test_the_density_integrates_to_one(
    make_with_density: Make, heaps: np.ndarray, options: dict[str, Any]
) -> None:
    estimator = make_with_density(**options).fit(heaps * [1.0, 3.0])
    cells, volume = grid(estimator)
    # The narrowest cluster is many cells wide, so that the midpoint rule is exact to more than 1e-3.
    assert np.exp(estimator.score_samples(cells)).sum() * volume == pytest.approx(1, abs=1e-3)


def test_the_density_of_one_feature_integrates_to_one(make_with_density: Make, heaps: np.ndarray) -> None:
    """The zeros that the network sees beside it are no part of the density."""
    for options in ({}, {"refine_steps": 0, "zoom_levels": 0}):
        estimator = make_with_density(projection="pca", **options).fit(heaps[:, :1])
        cells, volume = grid(estimator, 20_000)
        assert np.exp(estimator.score_samples(cells)).sum() * volume == pytest.approx(1, abs=1e-3)


def test_the_density_of_projected_features_is_one_on_their_plane(
    make_with_density: Make, heaps: np.ndarray
) -> None:
    """Three features that lie on a plane: the density over the plane is that of two features."""
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0][:2]
    flat = make_with_density(projection="pca").fit(heaps @ axes)
    points = np.random.default_rng(1).uniform(-2500, 2500, (200_000, 2)) + heaps.mean(axis=0)
    density = np.exp(flat.score_samples(points @ axes)) * 5000.0**2
    assert density.mean() == pytest.approx(1, abs=5 * density.std() / np.sqrt(len(density)))


def test_score_samples_is_the_mixture_of_the_summaries(make_with_density: Make, heaps: np.ndarray) -> None:
    estimator = make_with_density().fit(heaps)
    by_hand = np.zeros(140)
    for mean, variance, proportion in zip(
        estimator.means_, estimator.variances_, estimator.proportions_, strict=True
    ):
        exponent = -0.5 * (np.square(heaps - mean) / variance).sum(axis=1)
        by_hand += proportion * np.exp(exponent) / (2 * np.pi * np.sqrt(variance.prod()))
    np.testing.assert_allclose(estimator.score_samples(heaps), np.log(by_hand), rtol=1e-9)
    assert estimator.score(heaps) == pytest.approx(np.log(by_hand).mean())
    assert estimator.score(heaps, y=np.zeros(140)) == estimator.score(heaps)


def test_samples_have_the_moments_of_the_summaries(make_with_density: Make, heaps: np.ndarray) -> None:
    n = 20_000
    estimator = make_with_density().fit(heaps)
    points, labels = estimator.sample(n)
    assert points.shape == (n, 2)
    assert labels.shape == (n,)
    shares = np.bincount(labels, minlength=estimator.n_clusters_) / n
    np.testing.assert_allclose(shares, estimator.proportions_, atol=5 * 0.5 / np.sqrt(n))
    for j, (mean, variance) in enumerate(zip(estimator.means_, estimator.variances_, strict=True)):
        drawn, sd = points[labels == j], np.sqrt(variance)
        assert (np.abs(drawn.mean(axis=0) - mean) < 5 * sd / np.sqrt(len(drawn))).all()
        # The standard error of a Gaussian's standard deviation is sd / sqrt(2 n).
        assert (np.abs(drawn.std(axis=0) - sd) < 5 * sd / np.sqrt(2 * len(drawn))).all()


def test_samples_of_projected_data_lie_near_the_data(make_with_density: Make, heaps: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([heaps, heaps.sum(axis=1)]) + rng.normal(0, 1, (140, 3))
    estimator = make_with_density(projection="pca").fit(X)
    points, _ = estimator.sample(500)
    assert points.shape == (500, 3)
    assert np.abs(points[:, :2].sum(axis=1) - points[:, 2]).max() < 20  # on the plane of the data
    assert (points.min(axis=0) > X.min(axis=0) - 1000).all()
    assert (points.max(axis=0) < X.max(axis=0) + 1000).all()


def test_samples_are_reproducible(make_with_density: Make, heaps: np.ndarray) -> None:
    one, other = (make_with_density().fit(heaps).sample(7) for _ in range(2))
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    assert make_with_density().fit(heaps).sample()[0].shape == (1, 2)


@pytest.mark.parametrize("fitted", [False, True])
def test_weights_without_density_say_so(make_variant: Make, heaps: np.ndarray, fitted: bool) -> None:
    estimator = make_variant("without-density")
    if fitted:
        estimator.fit(heaps)
        assert (estimator.predict(heaps) == estimator.labels_).all()
    for method in ("score_samples", "score", "sample"):
        assert not hasattr(estimator, method)
        with pytest.raises(AttributeError, match="'tiny-without-density' were trained without a density"):
            getattr(estimator, method)
