"""Impossible options of any prior are refused with one sentence that names the option."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.priors import make_prior

MIXTURES = ("mixture-of-gaussians", "warped-gaussians")
IMPOSSIBLE_COUNTS = (0, -1, 2.5, "four", True, math.nan)
IMPOSSIBLE_SCALES = (0, -1.0, math.inf, math.nan, "wide", True)


def cases() -> list[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = []
    for name in MIXTURES:
        for option in ("n_features", "k_max", "k_exact"):
            found += [(name, option, value) for value in IMPOSSIBLE_COUNTS]
        for option in ("concentration", "mean_sd", "sd_median"):
            found += [(name, option, value) for value in IMPOSSIBLE_SCALES]
        found += [(name, "sd_log_sd", -0.1), (name, "k_max", None), (name, "mean_sd", None)]
    for option in ("n_features", "k_exact"):
        found += [("crp-mixture", option, value) for value in IMPOSSIBLE_COUNTS]
    for option in ("mean_sd", "sd", "alpha"):
        found += [("crp-mixture", option, value) for value in IMPOSSIBLE_SCALES]
    return found


@pytest.mark.parametrize(("name", "option", "value"), cases())
def test_impossible_option_is_named(name: str, option: str, value: Any) -> None:
    with pytest.raises(RecipeError, match=f"^{option} of "):
        make_prior(name, **{option: value})


@pytest.mark.parametrize("name", MIXTURES)
def test_edges_of_the_domain_are_legal(name: str) -> None:
    prior = make_prior(name, k_max=np.int64(1), k_exact=None, sd_log_sd=0, mean_sd=1)
    batch = prior.draw(np.random.default_rng(0), 3, 5)
    assert batch.labels.max() == 0
    assert np.isfinite(batch.points).all()


def test_crp_options_may_be_left_open() -> None:
    open_one, default = make_prior("crp-mixture", alpha=None, k_exact=None), make_prior("crp-mixture")
    assert open_one == default
    many = open_one.draw(np.random.default_rng(0), 40, 30)
    assert len({int(labels.max()) for labels in many.labels}) > 3  # neither alpha nor K stands still
