from __future__ import annotations

import numpy as np
import pytest

from clusterwise.dp.convergence import Agreement, effective_sample_size, r_hat, summarize


def autoregressive(rng, correlation, shape):
    noise = rng.standard_normal(shape)
    draws = noise.copy()
    for t in range(1, shape[1]):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return draws


def test_independent_draws_count_in_full():
    draws = np.random.default_rng(0).standard_normal((4, 500))
    assert r_hat(draws) == pytest.approx(1.0, abs=0.01)
    assert effective_sample_size(draws) > 1500


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlated_draws_count_by_the_theory(correlation):
    """An autoregressive chain of n draws is worth n (1 - rho) / (1 + rho)."""
    draws = autoregressive(np.random.default_rng(1), correlation, (4, 5000))
    expected = 20_000 * (1 - correlation) / (1 + correlation)
    assert effective_sample_size(draws) == pytest.approx(expected, rel=0.2)


def test_chains_at_different_places_are_poor():
    draws = np.random.default_rng(2).standard_normal((2, 200)) + [[0.0], [5.0]]
    assert r_hat(draws) > 2
    assert effective_sample_size(draws) < 10
    assert summarize({"k": draws}).is_poor


def test_drifting_chain_is_poor():
    assert r_hat(np.linspace(0, 1, 100)[None]) > 1.5


def test_constant_is_fine_and_two_constants_are_not():
    assert r_hat(np.ones((2, 10))) == 1.0
    assert effective_sample_size(np.ones((2, 10))) == 20
    assert r_hat(np.array([[1.0] * 10, [2.0] * 10])) == np.inf


def test_too_few_draws_say_so():
    assert summarize({"k": np.ones((1, 1))}).is_poor


@pytest.mark.parametrize(
    ("within", "between", "poor"),
    [
        (0.95, 0.60, True),  # each chain has a clustering of its own
        (0.99, 0.85, False),  # they differ in few rows
        (0.70, 0.68, False),  # the posterior is wide, and all chains say so
    ],
)
def test_chains_disagree_only_where_it_matters(within, between, poor):
    assert Agreement(within, between).is_poor is poor
