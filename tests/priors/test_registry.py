"""Priors are found by name, and a wrong name or option lists what exists."""

from __future__ import annotations

import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.priors import (
    PRIORS,
    ChineseRestaurantMixture,
    MixtureOfGaussians,
    WarpedGaussians,
    make_prior,
)


def test_names() -> None:
    assert sorted(PRIORS) == [
        "correlated-gaussians",
        "crp-mixture",
        "mixture-of-gaussians",
        "warped-gaussians",
    ]
    assert isinstance(make_prior("crp-mixture"), ChineseRestaurantMixture)
    assert isinstance(make_prior("mixture-of-gaussians"), MixtureOfGaussians)
    assert isinstance(make_prior("warped-gaussians"), WarpedGaussians)


@pytest.mark.parametrize("name", PRIORS)
def test_defaults_are_those_of_the_class(name: str) -> None:
    assert make_prior(name) == PRIORS[name]()


def test_options_reach_the_prior() -> None:
    assert make_prior("crp-mixture", mean_sd=3.0, sd=0.25, k_exact=6) == ChineseRestaurantMixture(
        mean_sd=3.0, sd=0.25, k_exact=6
    )


def test_unknown_name_lists_all_names() -> None:
    with pytest.raises(RecipeError) as error:
        make_prior("gaussians")
    assert "'gaussians'" in str(error.value)
    assert all(name in str(error.value) for name in PRIORS)


def test_unknown_option_lists_all_options() -> None:
    with pytest.raises(RecipeError) as error:
        make_prior("crp-mixture", alfa=1.0, sigma=2.0)
    message = str(error.value)
    assert "alfa, sigma" in message
    assert all(option in message for option in ("n_features", "mean_sd", "sd", "alpha", "k_exact"))
