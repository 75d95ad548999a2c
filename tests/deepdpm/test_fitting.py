"""Whole fits: to the right number of clusters from any, the same every time, and on from an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.deepdpm.fitting import Fit, run
from clusterwise.deepdpm.history import History
from clusterwise.deepdpm.settings import Settings
from clusterwise.gaussian.rows import Rows

Make = Callable[..., Settings]


def labels_of(snapshot, rows: Rows) -> np.ndarray:
    return snapshot.weights.memberships(rows.points).argmax(axis=1)


@pytest.mark.parametrize("k_init", [1, 3, 10])
@pytest.mark.parametrize("subclusters", ["network", "2-means"])
def test_the_number_of_clusters_is_found(
    three: tuple[Rows, np.ndarray], make_settings: Make, k_init: int, subclusters: str
) -> None:
    rows, labels = three
    end = run(0, rows, make_settings(subclusters=subclusters), k_init)
    assert adjusted_rand_score(labels, labels_of(end, rows)) > 0.99
    history = end.history
    assert history.n_clusters[-1] == 3
    assert history.n_clusters[0] <= k_init
    assert not end.interrupted
    assert end.quiet_rounds >= 3
    assert len(history) < 300


def test_moves_add_up(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, _ = three
    for k_init in (1, 10):
        history = run(1, rows, make_settings(), k_init).history
        changes = np.diff(history.n_clusters)
        moved = np.array(history.splits) - np.array(history.merges)
        np.testing.assert_array_equal(changes, moved[:-1])


def test_without_splits_or_merges(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, _ = three
    assert run(0, rows, make_settings(splits=False), 1).history.n_clusters[-1] == 1
    no_merges = run(0, rows, make_settings(merges=False, splits=False), 6)
    assert no_merges.history.n_clusters[-1] >= 5
    assert run(0, rows, make_settings(splits=False), 6).history.n_clusters[-1] == 3


def test_a_cap_on_the_clusters(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, _ = three
    assert run(0, rows, make_settings(max_clusters=2), 1).history.n_clusters[-1] == 2


def test_two_bars_side_by_side_are_found(make_settings: Make) -> None:
    """Across their length lies no gap: it takes a cut that does not follow the longest axis."""
    rng = np.random.default_rng(0)
    bars = rng.normal(size=(1000, 2)) * [1.0, 0.08] + np.repeat([[0.0, -0.5], [0.0, 0.5]], 500, axis=0)
    end = run(0, Rows(bars), make_settings(), 1)
    assert end.history.n_clusters[-1] == 2


def test_same_seed_same_fit(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, _ = three
    one, other = (run(3, rows, make_settings(), 1) for _ in range(2))
    np.testing.assert_array_equal(one.weights.output, other.weights.output)
    assert one.history == other.history


def test_an_interrupt_keeps_the_last_epoch_and_the_fit_goes_on(
    three: tuple[Rows, np.ndarray], make_settings: Make
) -> None:
    rows, labels = three

    def interrupt(history: History) -> None:
        if len(history) == 8:
            raise KeyboardInterrupt

    early = run(0, rows, make_settings(), 1, report=interrupt)
    assert early.interrupted
    assert len(early.history) == 8
    assert early.weights.n_clusters == len(early.statistics) == early.history.n_clusters[-1]
    late = run(0, rows, make_settings(), 1, before=early)
    assert not late.interrupted
    assert late.history.n_clusters[:8] == early.history.n_clusters
    assert adjusted_rand_score(labels, labels_of(late, rows)) > 0.99
    assert len(early.history) == 8  # what was handed over is not changed


def test_clusters_that_no_row_prefers_are_dropped(
    three: tuple[Rows, np.ndarray], make_settings: Make
) -> None:
    rows, _ = three
    fit = Fit(0, rows, make_settings(), lambda _: None)
    fit.start(3)
    fit.train(1)
    weights = fit.net.to_weights()
    bias = weights.output_bias.copy()
    bias[1] = -1e6
    fit.resume(replace(fit.snapshot(False), weights=replace(weights, output_bias=bias)))
    labels, members = fit._hard_partition()
    assert fit.n_clusters == 2
    assert len(members.counts) == len(fit.statistics) == 2
    assert set(labels) == {0, 1}


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_rows(make_settings: Make, n: int) -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(n, 2)))
    end = run(0, rows, make_settings(max_epochs=60), 3)
    assert 1 <= end.weights.n_clusters <= n
