"""What every prior promises: shapes, seeds, one law for all draws, an oracle, checked options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import ks_2samp

from clusterwise.exceptions import RecipeError
from clusterwise.priors import (
    PRIORS,
    Blend,
    ChineseRestaurantMixture,
    LabelledSet,
    MixtureOfGaussians,
    make_prior,
)

MIXTURES = ("mixture-of-gaussians", "warped-gaussians")
ONE, MANY = MixtureOfGaussians(k_exact=1), MixtureOfGaussians(k_exact=9)


@pytest.mark.parametrize(
    ("name", "n_features"),
    [(name, d) for name in PRIORS for d in (1, 2, 7) if d == 2 or name != "warped-gaussians"],
)
def test_shapes(name: str, n_features: int) -> None:
    for n_points in (1, 11):
        batch = make_prior(name, n_features=n_features).draw(np.random.default_rng(0), 5, n_points)
        assert len(batch) == len(batch.components) == 5
        assert batch.points.shape == (5, n_points, n_features)
        assert batch.labels.shape == (5, n_points)
        for index in range(5):
            joint = batch.components[index].log_joint(batch.points[index])
            assert 0 <= batch.labels[index].min() <= batch.labels[index].max() < joint.shape[1]
            assert batch[index].n_clusters == len(set(batch.labels[index].tolist()))
            assert np.isfinite(batch[index].oracle_log_likelihood())


def summaries(drawn: LabelledSet) -> tuple[float, float, float]:
    """Number of clusters, largest proportion, log spread of the points."""
    _, sizes = np.unique(drawn.labels, return_counts=True)
    return len(sizes), sizes.max() / sizes.sum(), float(np.log(drawn.points.var(axis=0).sum()))


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in PRIORS] + [("crp-mixture", {"k_exact": 3}), ("crp-mixture", {"alpha": 2.0})],
)
def test_batch_has_the_law_of_single_draws(name: str, options: dict[str, float]) -> None:
    prior = make_prior(name, **options)
    batch = prior.draw(np.random.default_rng(10), 1000, 25)
    batched = np.array([summaries(batch[index]) for index in range(1000)])
    rng = np.random.default_rng(11)
    single = np.array([summaries(prior.draw_set(rng, 25)) for _ in range(1000)])
    for column in range(3):
        assert ks_2samp(batched[:, column], single[:, column], method="asymp").pvalue > 1e-4


@pytest.mark.parametrize("name", PRIORS)
def test_oracle_posterior_is_calibrated(name: str) -> None:
    """The oracle's labels are right as often as its densities say."""
    batch = make_prior(name).draw(np.random.default_rng(5), 200, 50)
    hits, expected, variance = 0.0, 0.0, 0.0
    for index in range(200):
        joint = batch.components[index].log_joint(batch.points[index])
        best = np.exp((joint - logsumexp(joint, axis=1, keepdims=True)).max(axis=1))
        hits += (batch[index].oracle_labels() == batch.labels[index]).sum()
        expected += best.sum()
        variance += (best * (1 - best)).sum()
    assert abs(hits - expected) < 4.5 * np.sqrt(variance)


def test_blend_draws_in_the_given_shares() -> None:
    n = 2000
    batch = Blend([ONE, MANY], [3.0, 1.0]).draw(np.random.default_rng(0), n, 30)
    ones = sum(batch[b].n_clusters == 1 for b in range(n))
    assert abs(ones / n - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / n)


def test_blend_keeps_the_truth_beside_the_points() -> None:
    batch = Blend([ONE, MANY, ChineseRestaurantMixture()], [1, 1, 1]).draw(np.random.default_rng(1), 30, 200)
    for b in range(30):
        log_joint = batch.components[b].log_joint(batch.points[b])
        own = log_joint[np.arange(200), batch.labels[b]]
        assert own.mean() >= log_joint.mean() - 1e-9


def test_blend_of_a_recipe() -> None:
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


def test_wrong_names_list_what_there_is() -> None:
    with pytest.raises(RecipeError, match="no prior 'gaussians'") as error:
        make_prior("gaussians")
    assert all(name in str(error.value) for name in [*PRIORS, "blend"])
    with pytest.raises(RecipeError, match="no option alfa, sigma") as error:
        make_prior("crp-mixture", alfa=1.0, sigma=2.0)
    assert all(option in str(error.value) for option in ("n_features", "mean_sd", "sd", "alpha", "k_exact"))


def impossible() -> list[tuple[str, str, Any]]:
    counts = (0, -1, 2.5, "four", True, math.nan)
    scales = (0, -1.0, math.inf, math.nan, "wide", True)
    found: list[tuple[str, str, Any]] = [("mixture-of-gaussians", "k_law", "poisson")]
    for name in MIXTURES:
        found += [(name, "sd_log_sd", -0.1), (name, "k_max", None), (name, "mean_sd", None)]
        found += [(name, option, value) for option in ("n_features", "k_max", "k_exact") for value in counts]
        for option in ("concentration", "mean_sd", "sd_median"):
            found += [(name, option, value) for value in scales]
    found += [("crp-mixture", "k_exact", value) for value in counts]
    found += [("crp-mixture", option, value) for option in ("sd", "alpha") for value in scales]
    return found


@pytest.mark.parametrize(("name", "option", "value"), impossible())
def test_impossible_options_are_named(name: str, option: str, value: Any) -> None:
    with pytest.raises(RecipeError, match=f"^{option} of "):
        make_prior(name, **{option: value})


@pytest.mark.parametrize("name", MIXTURES)
def test_edges_of_the_domain_are_legal(name: str) -> None:
    prior = make_prior(name, k_max=np.int64(1), k_exact=None, sd_log_sd=0, mean_sd=1)
    batch = prior.draw(np.random.default_rng(0), 3, 5)
    assert batch.labels.max() == 0
    assert np.isfinite(batch.points).all()
