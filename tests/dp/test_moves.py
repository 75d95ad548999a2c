"""All moves keep labels and statistics in step with each other, whatever the chunks are."""

from __future__ import annotations

import numpy as np
import pytest
from exact import fixed

from clusterwise.dp.anchored import draw_anchors, split_or_merge
from clusterwise.dp.chain import run_chain
from clusterwise.dp.gibbs import gibbs_sweep
from clusterwise.dp.hyper import HyperPrior
from clusterwise.dp.state import State, draw_categories, state_of_labels, statistics_of
from clusterwise.dp.subclusters import Halves, warm_up_step
from clusterwise.dp.sweep import sweep
from clusterwise.gaussian import sorted_rows as rows_module
from clusterwise.gaussian.sorted_rows import Rows

COVARIANCES = ("full", "diag", "spherical")


def blobs(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    return np.array([[-1.5, 0.0], [1.0, 1.0], [1.0, -1.0]])[labels] + 0.1 * rng.normal(size=(n, 2)), labels


def is_consistent(state: State, rows: Rows, prior) -> bool:
    afresh = statistics_of(rows, state.labels, state.n_clusters, prior)
    np.testing.assert_allclose(state.statistics, afresh, rtol=1e-9, atol=1e-8)
    return bool((np.bincount(state.labels, minlength=state.n_clusters) > 0).all())


@pytest.mark.parametrize("covariance_type", COVARIANCES)
@pytest.mark.parametrize("chunk", [20 * 16, 10**6])
def test_moves_keep_statistics_in_step(covariance_type, chunk, monkeypatch):
    monkeypatch.setattr(rows_module, "CHUNK", chunk)
    points, _ = blobs()
    rows, rng = Rows(points), np.random.default_rng(1)
    hyper, hyper_prior = fixed(covariance_type, 2)
    prior = hyper.prior(hyper_prior)
    state = state_of_labels(rows, rng.integers(5, size=len(points)), hyper, hyper_prior)
    seen = set()
    for _ in range(10):
        state = sweep(rng, rows, state, prior)
        assert is_consistent(state, rows, prior)
        for _ in range(5):
            state = split_or_merge(rng, rows, state, prior, draw_anchors(rng, rows))
            assert is_consistent(state, rows, prior)
        seen.add(state.n_clusters)
    state = gibbs_sweep(rng, rows, state, prior)
    assert is_consistent(state, rows, prior)
    assert len(seen) > 1


def test_warm_up_keeps_statistics_in_step_and_finds_the_clusters():
    points, truth = blobs()
    rows, rng = Rows(points), np.random.default_rng(2)
    hyper, hyper_prior = fixed("full", 2)
    prior = hyper.prior(hyper_prior)
    state = state_of_labels(rows, np.zeros(len(points), dtype=np.int64), hyper, hyper_prior)
    sides = points[:, 0] > 0
    parts = prior.statistics(points, sides.astype(np.int64), 2)
    halves = Halves(sides, parts[None], np.zeros(1, dtype=np.int64))
    for _ in range(25):
        state, halves = warm_up_step(rng, rows, state, halves, prior)
        assert is_consistent(state, rows, prior)
        by_half = statistics_of(rows, 2 * state.labels + halves.sides, 2 * state.n_clusters, prior)
        np.testing.assert_allclose(halves.statistics.reshape(by_half.shape), by_half, rtol=1e-9, atol=1e-8)
    assert state.n_clusters == 3
    assert len({(a, b) for a, b in zip(state.labels, truth, strict=True)}) == 3


def test_chunks_do_not_change_the_statistics_of_a_state(monkeypatch):
    points, labels = blobs()
    prior = HyperPrior("full", 2)
    hyper, _ = fixed("full", 2)
    whole = statistics_of(Rows(points), labels, 3, hyper.prior(prior))
    monkeypatch.setattr(rows_module, "CHUNK", 200)
    np.testing.assert_allclose(whole, statistics_of(Rows(points), labels, 3, hyper.prior(prior)), rtol=1e-12)


def test_categories_follow_their_probabilities():
    probabilities = np.array([0.5, 0.0, 0.2, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.repeat(np.log(probabilities)[None] + 700.0, 40_000, axis=0)
    drawn = np.bincount(draw_categories(np.random.default_rng(0), logits), minlength=4) / 40_000
    assert drawn[1] == 0
    np.testing.assert_allclose(drawn, probabilities, atol=5 * 0.5 / np.sqrt(40_000))


def test_chain_goes_on_where_it_ended():
    points, _ = blobs(80)
    rows, hyper_prior = Rows(points), HyperPrior("diag", 2)
    first = run_chain(np.random.default_rng(0), rows, hyper_prior, "split-merge", 10, 6, keep_every=2)
    assert len(first.trace.n_clusters) == 6
    assert len(first.kept) == 3
    more = run_chain(
        np.random.default_rng(1), rows, hyper_prior, "split-merge", 10, 4, keep_every=2, before=first
    )
    assert more.trace.n_clusters[:6] == first.trace.n_clusters
    assert len(more.trace.n_clusters) == 10
    assert len(first.trace.n_clusters) == 6  # the first chain is as it was


@pytest.mark.parametrize("after", [3, 17])
def test_interrupt_keeps_the_draws_so_far(after):
    points, _ = blobs(60)
    steps = 0

    def report(_: int) -> None:
        nonlocal steps
        steps += 1
        if steps == after:
            raise KeyboardInterrupt

    def run():
        return run_chain(
            np.random.default_rng(0),
            Rows(points),
            HyperPrior("diag", 2),
            "split-merge",
            10,
            20,
            report=report,
        )

    if after < 10:  # nothing to keep
        with pytest.raises(KeyboardInterrupt):
            run()
    else:
        chain = run()
        assert chain.interrupted
        assert len(chain.kept) == len(chain.trace.n_clusters) > 0


@pytest.mark.parametrize("sampler", ["gibbs", "split-merge"])
def test_chain_finds_clusters_that_are_apart(sampler):
    points, truth = blobs(120)
    chain = run_chain(np.random.default_rng(3), Rows(points), HyperPrior("full", 2), sampler, 40, 5)
    together = chain.last.labels[:, None] == chain.last.labels
    assert (together == (truth[:, None] == truth)).mean() > 0.97
