"""The warm-up: codes and sums stay in step, and the clusters are found from a single one."""

from __future__ import annotations

import numpy as np
import pytest
from exact import codes_of, fixed, rows_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.dp.subclusters import Halves, State, warm_up, warm_up_step
from clusterwise.gaussian.niw import statistics_of
from clusterwise.rows.sorted_rows import Rows


@pytest.mark.parametrize("lengths", [(), (120, 0, 180)])
def test_warm_up_keeps_sums_in_step_and_finds_the_clusters(lengths) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)
    points = np.array([[-1.5, 0.0], [1.0, 1.0], [1.0, -1.0]])[truth] + 0.1 * rng.normal(size=(300, 2))
    sample = np.arange(300) if lengths == () else np.sort(rng.choice(300, 120, replace=False))
    rows, (hyper, hyper_prior) = rows_of(points, np.zeros(300), lengths, sample), fixed("full", 2)
    prior = hyper.prior(hyper_prior)
    total = prior.terms(points).sum(axis=0)
    state = State(np.zeros(len(sample), dtype=np.int64), total[None], hyper)
    halves = Halves(
        np.zeros(len(sample), dtype=bool), np.stack([total / 2] * 2)[None], np.zeros(1, dtype=int)
    )
    seen = {1}
    for _ in range(25):
        state, halves = warm_up_step(rng, rows, state, halves, prior)
        codes = codes_of(rows)
        np.testing.assert_array_equal(codes[sample], 2 * state.labels + halves.sides)
        by_half = statistics_of(Rows(points), codes.astype(np.int64), 2 * state.n_clusters, prior)
        np.testing.assert_allclose(halves.sums.reshape(by_half.shape), by_half, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(state.statistics, halves.sums.sum(axis=1), rtol=1e-9, atol=1e-8)
        seen.add(state.n_clusters)
    assert state.n_clusters == 3
    assert len(seen) > 1
    assert adjusted_rand_score(truth, codes >> 1) == 1


def test_clusters_merge_too() -> None:
    """Many clusters to start with, of which few are left."""
    rng = np.random.default_rng(1)
    points = np.repeat([[-1.0, 0.0], [1.0, 0.0]], 60, axis=0) + 0.1 * rng.normal(size=(120, 2))
    hyper, hyper_prior = fixed("diag", 2)
    prior = hyper.prior(hyper_prior)
    codes = rng.integers(12, size=120)
    rows = rows_of(points, codes >> 1)
    sums = statistics_of(Rows(points), codes, 12, prior).reshape(6, 2, -1)
    state = State(codes >> 1, sums.sum(axis=1), hyper)
    halves = Halves(codes % 2 == 1, sums, np.zeros(6, dtype=int))
    for _ in range(15):
        state, halves = warm_up_step(rng, rows, state, halves, prior)
    assert state.n_clusters == 2


def test_more_steps_are_reported() -> None:
    points, seen = np.random.default_rng(0).normal(size=(50, 2)), []
    rows = rows_of(points, np.zeros(50))
    state = warm_up(np.random.default_rng(0), rows, fixed("full", 2)[1], 7, seen.append)
    assert len(seen) == 7
    assert seen[-1] == state.n_clusters
