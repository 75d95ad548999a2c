"""A chain from its first step to its last draw, and what is said of the agreement of several."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactPosterior, codes_of, few_points, fixed, rows_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.dp.chain import Agreement, Chain, effective_sample_size, r_hat, run_chain, step, summarize
from clusterwise.dp.state import HyperPrior
from clusterwise.gaussian.niw import statistics_of
from clusterwise.rows.sorted_rows import Rows


def blobs(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, 2) of unit spread in four clusters, and their labels."""
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=n)
    points = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])[truth] + 0.5 * rng.normal(size=(n, 2))
    return (points - points.mean(axis=0)) / points.std(axis=0), truth


def chain_of(points: np.ndarray, *numbers: int, sampler="split-merge", kind="diag", **options) -> Chain:
    rows = rows_of(points, np.zeros(len(points)))
    return run_chain(np.random.default_rng(0), rows, HyperPrior(kind, 2), sampler, *numbers, **options)


@pytest.mark.parametrize("sampler", ["split-merge", "gibbs"])
def test_sampler_finds_the_posterior_from_one_cluster(sampler) -> None:
    """Seven points, all 877 partitions; the tolerance counts the draws that the chain is worth."""
    exact = ExactPosterior(few_points(7, 2), *fixed("full", 2))
    rng = np.random.default_rng(11)
    state, rows, path = exact.state((0,) * 7), rows_of(exact.points, np.zeros(7)), []
    for _ in range(1500):
        state = step(rng, rows, state, exact.hyper_prior, sampler)
        path.append(exact.number(state.labels))
    visits = np.bincount(path, minlength=len(exact.partitions))
    likely = np.argsort(-exact.probabilities)[:20]
    worth = min(effective_sample_size((np.array(path) == i)[None].astype(float)) for i in likely)
    assert worth > 70
    assert exact.total_variation(visits) < exact.noise(worth, rng)


@pytest.mark.parametrize("sampler", ["gibbs", "split-merge"])
def test_chain_finds_clusters_that_are_apart(sampler) -> None:
    points, truth = blobs(120)
    chain = chain_of(points, 40, 5, sampler=sampler, kind="full")
    assert adjusted_rand_score(truth, chain.last.labels) > 0.95


@pytest.mark.parametrize("n_warm_up", [1, 9, 30])
def test_sums_and_the_sample_stay_those_of_all_blocks(n_warm_up: int) -> None:
    points, truth = blobs(1200)
    sample = np.sort(np.random.default_rng(0).choice(1200, 300, replace=False))
    rows, prior = rows_of(points, np.zeros(1200), [500, 0, 300, 400], sample), HyperPrior("full", 2)
    state = run_chain(np.random.default_rng(1), rows, prior, "split-merge", n_warm_up, 5).last
    labels = (codes_of(rows) >> 1).astype(np.int64)
    np.testing.assert_array_equal(labels[sample], state.labels)
    assert set(labels) == set(range(state.n_clusters))
    expected = statistics_of(Rows(points), labels, state.n_clusters, state.hyper.prior(prior))
    np.testing.assert_allclose(state.statistics, expected, rtol=1e-9, atol=1e-9)
    if n_warm_up == 30:
        assert adjusted_rand_score(truth, labels) > 0.9


def test_rows_that_are_all_the_same() -> None:
    rows = rows_of(np.zeros((20, 2)), np.zeros(20), [10, 10])
    chain = run_chain(np.random.default_rng(0), rows, HyperPrior("diag", 2), "split-merge", 6, 3)
    np.testing.assert_array_equal(codes_of(rows) >> 1, chain.last.labels)


def test_chain_goes_on_where_it_ended() -> None:
    points, _ = blobs(80)
    first = chain_of(points, 10, 6, keep_every=2)
    assert len(first.trace.n_clusters) == 6
    assert len(first.kept) == 3
    more = chain_of(points, 10, 4, keep_every=2, before=first)
    assert more.trace.n_clusters[:6] == first.trace.n_clusters
    assert len(more.trace.n_clusters) == 10
    assert len(first.trace.n_clusters) == 6  # the first chain is as it was


@pytest.mark.parametrize("after", [3, 17])
def test_interrupt_keeps_the_draws_so_far(after) -> None:
    points, _ = blobs(60)
    steps = 0

    def report(_: int) -> None:
        nonlocal steps
        steps += 1
        if steps == after:
            raise KeyboardInterrupt

    if after < 10:  # nothing to keep
        with pytest.raises(KeyboardInterrupt):
            chain_of(points, 10, 20, report=report)
    else:
        chain = chain_of(points, 10, 20, report=report)
        assert chain.interrupted
        assert len(chain.kept) == len(chain.trace.n_clusters) > 0


# -- do the chains agree? ------------------------------------------------------------------------


def autoregressive(rng: np.random.Generator, correlation: float, shape: tuple[int, int]) -> np.ndarray:
    noise = rng.standard_normal(shape)
    draws = noise.copy()
    for t in range(1, shape[1]):
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * noise[:, t]
    return draws


def test_independent_draws_count_in_full() -> None:
    draws = np.random.default_rng(0).standard_normal((4, 500))
    assert r_hat(draws) == pytest.approx(1.0, abs=0.01)
    assert effective_sample_size(draws) > 1500


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlated_draws_count_by_the_theory(correlation) -> None:
    """An autoregressive chain of n draws is worth n (1 - rho) / (1 + rho)."""
    draws = autoregressive(np.random.default_rng(1), correlation, (4, 5000))
    expected = 20_000 * (1 - correlation) / (1 + correlation)
    assert effective_sample_size(draws) == pytest.approx(expected, rel=0.2)


def test_chains_at_different_places_are_poor() -> None:
    draws = np.random.default_rng(2).standard_normal((2, 200)) + [[0.0], [5.0]]
    assert r_hat(draws) > 2
    assert effective_sample_size(draws) < 10
    assert summarize({"k": draws}).is_poor
    assert r_hat(np.linspace(0, 1, 100)[None]) > 1.5  # a single one that drifts
    assert summarize({"k": np.ones((1, 1))}).is_poor  # too few draws


def test_constant_is_fine_and_two_constants_are_not() -> None:
    assert r_hat(np.ones((2, 10))) == 1.0
    assert effective_sample_size(np.ones((2, 10))) == 20
    assert r_hat(np.array([[1.0] * 10, [2.0] * 10])) == np.inf


@pytest.mark.parametrize(
    ("within", "between", "poor"),
    [
        (0.95, 0.60, True),  # each chain has a clustering of its own
        (0.99, 0.85, False),  # they differ in few rows
        (0.70, 0.68, False),  # the posterior is wide, and all chains agree that it is
    ],
)
def test_chains_disagree_only_where_it_matters(within, between, poor) -> None:
    assert Agreement(within, between).is_poor is poor
