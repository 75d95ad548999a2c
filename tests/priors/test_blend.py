"""A blend draws from its parts in the given shares, and keeps their truth beside the points."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.priors import ChineseRestaurantMixture, MixtureOfGaussians, make_prior
from clusterwise.priors.blend import Blend

ONE, MANY = MixtureOfGaussians(k_exact=1), MixtureOfGaussians(k_exact=9)


def test_shares() -> None:
    n = 2000
    batch = Blend([ONE, MANY], [3.0, 1.0]).draw(np.random.default_rng(0), n, 30)
    ones = sum(batch[b].n_clusters == 1 for b in range(n))
    assert abs(ones / n - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / n)


def test_points_labels_and_components_belong_together() -> None:
    batch = Blend([ONE, MANY, ChineseRestaurantMixture()], [1, 1, 1]).draw(np.random.default_rng(1), 30, 200)
    assert batch.points.shape == (30, 200, 2)
    for b in range(30):
        drawn = batch[b]
        log_joint = drawn.components.log_joint(drawn.points)
        assert log_joint.shape[1] >= drawn.labels.max() + 1
        # Far more likely under its own component than under the others, on average.
        own = log_joint[np.arange(200), drawn.labels]
        assert own.mean() >= log_joint.mean() - 1e-9


def test_made_from_a_recipe() -> None:
    parts = [
        {"name": "mixture-of-gaussians", "k_exact": 2, "share": 3.0},
        {"name": "crp-mixture", "mean_sd": 3.0},
    ]
    blend = make_prior("blend", n_features=3, parts=parts)
    assert isinstance(blend, Blend)
    assert blend.parts == (
        MixtureOfGaussians(n_features=3, k_exact=2),
        ChineseRestaurantMixture(n_features=3, mean_sd=3.0),
    )
    np.testing.assert_allclose(blend.shares, [0.75, 0.25])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "at least one part"),
        ({"parts": [{"share": 1.0}]}, "name of a prior"),
        ({"parts": "crp-mixture"}, "list of tables"),
        ({"parts": [{"name": "crp-mixture", "share": 0.0}]}, "share above 0"),
        ({"parts": [{"name": "crp-mixture"}, {"name": "crp-mixture", "n_features": 5}]}, "same n_features"),
        ({"parts": [{"name": "nonesuch"}]}, "no prior 'nonesuch'"),
        ({"parts": [{"name": "crp-mixture", "k_min": 3}]}, "no option k_min"),
        ({"shares": [1.0]}, "no option shares"),
    ],
)
def test_wrong_parts(options: dict[str, object], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_prior("blend", **options)
