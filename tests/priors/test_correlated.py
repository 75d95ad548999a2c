"""Mixtures of correlated Gaussians are drawn from the components that they come with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from clusterwise.exceptions import RecipeError
from clusterwise.priors import make_prior
from clusterwise.priors.correlated import CorrelatedComponents, CorrelatedGaussians


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_oracle_agrees_with_scipy(n_features: int) -> None:
    drawn = CorrelatedGaussians(n_features=n_features, k_exact=3).draw_set(np.random.default_rng(3), 20)
    components = drawn.components
    assert isinstance(components, CorrelatedComponents)
    expected = [
        np.log(weight) + stats.multivariate_normal(mean, root @ root.T).logpdf(drawn.points)
        for weight, mean, root in zip(components.weights, components.means, components.roots, strict=True)
    ]
    np.testing.assert_allclose(components.log_joint(drawn.points), np.transpose(expected))


def test_points_given_labels() -> None:
    """Whitened by the root of their component, points are standard normal."""
    batch = CorrelatedGaussians(n_features=3, k_exact=2).draw(np.random.default_rng(0), 200, 50)
    white = []
    for b, components in enumerate(batch.components):
        assert isinstance(components, CorrelatedComponents)
        offsets = batch.points[b] - components.means[batch.labels[b]]
        white.append(np.linalg.solve(components.roots[batch.labels[b]], offsets[..., None])[..., 0])
    values = np.concatenate(white).ravel()
    assert stats.kstest(values, "norm").pvalue > 1e-4
    correlation = np.corrcoef(np.concatenate(white).T)
    assert np.abs(correlation - np.eye(3)).max() < 4.5 / np.sqrt(len(values) / 3)


def test_widths_and_tilts() -> None:
    batch = CorrelatedGaussians(k_exact=1, sd_median=0.5, sd_log_sd=0.7).draw(
        np.random.default_rng(1), 4000, 1
    )
    roots = np.stack([c.roots[0] for c in batch.components if isinstance(c, CorrelatedComponents)])
    log_sds = 0.5 * np.log(np.square(roots).sum(axis=1))  # columns are rotated axes times their widths
    assert stats.kstest(log_sds.ravel(), stats.norm(np.log(0.5), 0.7).cdf).pvalue > 1e-4
    angles = np.arctan2(roots[:, 1, 0], roots[:, 0, 0]) % np.pi
    assert stats.kstest(angles / np.pi, "uniform").pvalue > 1e-4


def test_number_of_components() -> None:
    batch = CorrelatedGaussians(k_max=4).draw(np.random.default_rng(2), 2000, 1)
    k = np.array([len(c.weights) for c in batch.components if isinstance(c, CorrelatedComponents)])
    assert stats.chisquare(np.bincount(k, minlength=5)[1:]).pvalue > 1e-4


def test_by_name() -> None:
    assert isinstance(make_prior("correlated-gaussians", k_max=3), CorrelatedGaussians)
    with pytest.raises(RecipeError, match="sd_median"):
        make_prior("correlated-gaussians", sd_median=0.0)
