"""Whole fits: to the right number of clusters from any, the same every time, and on from an interrupt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.deepdpm.method import fit_mixture, outputs_in_use
from clusterwise.deepdpm.net_training import History, Settings
from clusterwise.deepdpm.nets import NetWeights
from clusterwise.gaussian.full import Full
from clusterwise.gaussian.sorted_rows import Rows

Make = Callable[..., Settings]


def labels_of(snapshot, rows: Rows) -> np.ndarray:
    return snapshot.weights.memberships(rows.points).argmax(axis=1)


@pytest.mark.parametrize("k_init", [1, 3, 10])
def test_the_number_of_clusters_is_found(
    three: tuple[Rows, np.ndarray], make_settings: Make, k_init: int
) -> None:
    rows, labels = three
    end = fit_mixture(0, rows, make_settings(), k_init)
    assert adjusted_rand_score(labels, labels_of(end, rows)) > 0.99
    history = end.history
    assert history.n_clusters[0] <= k_init
    assert not end.interrupted
    assert end.quiet_rounds >= 3
    assert len(history) < 300
    moved = np.array(history.splits) - np.array(history.merges)
    np.testing.assert_array_equal(np.diff(history.n_clusters), moved[:-1])
    assert history.n_clusters[-1] == end.weights.n_clusters == 3


def test_two_bars_side_by_side_are_found(make_settings: Make) -> None:
    """Across their length lies no gap: it takes a cut that does not follow the longest axis."""
    rng = np.random.default_rng(0)
    bars = rng.normal(size=(1000, 2)) * [1.0, 0.08] + np.repeat([[0.0, -0.5], [0.0, 0.5]], 500, axis=0)
    assert fit_mixture(0, Rows(bars), make_settings(), 1).weights.n_clusters == 2


def test_an_interrupt_keeps_the_last_epoch_and_the_fit_goes_on(
    three: tuple[Rows, np.ndarray], make_settings: Make
) -> None:
    rows, labels = three

    def interrupt(history: History) -> None:
        if len(history) == 8:
            raise KeyboardInterrupt

    early = fit_mixture(0, rows, make_settings(), 1, callback=interrupt)
    assert early.interrupted
    assert len(early.history) == 8
    assert early.weights.n_clusters == len(early.statistics) == early.history.n_clusters[-1]
    late = fit_mixture(0, rows, make_settings(), 1, before=early)
    assert not late.interrupted
    assert late.history.n_clusters[:8] == early.history.n_clusters
    assert adjusted_rand_score(labels, labels_of(late, rows)) > 0.99
    assert len(early.history) == 8  # what was handed over is not changed


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_rows(make_settings: Make, n: int) -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(n, 2)))
    end = fit_mixture(0, rows, make_settings(max_epochs=60), 3)
    assert 1 <= end.weights.n_clusters <= n


def test_outputs_in_use_by_first_appearance() -> None:
    """Four outputs: left, never, right and nothing of either; the input begins on the right."""
    x = np.array([3.0, 2.0, -1.0, -2.0, 5.0, -3.0])
    hidden = np.array([[1.0, -1.0]])  # how far to the right, how far to the left
    output = np.array([[0.0, -9.0, 2.0, 0.0], [2.0, -9.0, 0.0, 0.0]])
    weights = NetWeights(hidden, np.zeros(2), output, np.array([0.0, -9.0, 0.0, -1.0]))
    order = np.argsort(x)
    rows, prior = Rows(x[order, None]), Full(0.1, 3.0, np.ones(1))
    kept, clusters, membership = outputs_in_use(rows, order, weights, prior)
    np.testing.assert_array_equal(kept.output, output[:, [2, 0]])
    np.testing.assert_array_equal(membership.argmax(axis=1), (x[order] < 0).astype(int))
    np.testing.assert_array_equal(membership, kept.memberships(x[order, None]))
    np.testing.assert_allclose(clusters.statistics, membership.T @ prior.terms(x[order, None]))
