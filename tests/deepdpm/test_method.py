"""Whole fits, and the moves: to the right number of clusters from any, and on from an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise.deepdpm.method import (
    Fit,
    History,
    Settings,
    fit_mixture,
    hard_partition,
    merge_clusters,
    merge_outputs,
    split_clusters,
    split_outputs,
)
from clusterwise.deepdpm.nets import Members, train_clustering_net, train_subclustering_nets
from clusterwise.rows.sorted_rows import Rows

Make = Callable[..., Settings]
MakeFit = Callable[..., Fit]


def labels_of(fit: Fit) -> np.ndarray:
    return fit.net.to_weights().memberships(fit.rows.points).argmax(axis=1)


@pytest.fixture
def trained(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> Fit:
    """A fit whose net tells the three clusters apart."""
    rows, labels = three
    fit = make_fit(rows, labels)
    train_clustering_net(fit, n_epochs=60)
    np.testing.assert_array_equal(labels_of(fit), labels)
    return fit


# -- whole fits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k_init", [1, 3, 10])
def test_the_number_of_clusters_is_found(
    three: tuple[Rows, np.ndarray], make_settings: Make, k_init: int
) -> None:
    rows, labels = three
    end = fit_mixture(0, rows, make_settings(), k_init)
    found = end.weights.memberships(rows.points).argmax(axis=1)
    assert adjusted_rand_score(labels, found) > 0.99
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
    assert adjusted_rand_score(labels, late.weights.memberships(rows.points).argmax(axis=1)) > 0.99
    assert len(early.history) == 8  # what was handed over is not changed


@pytest.mark.parametrize("n", [1, 2, 5])
def test_hardly_any_rows(make_settings: Make, n: int) -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(n, 2)))
    end = fit_mixture(0, rows, make_settings(max_epochs=60), 3)
    assert 1 <= end.weights.n_clusters <= n


# -- splits and merges ---------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "splits"), [(0.0, 0), (6.0, 1)])
def test_a_cluster_splits_if_it_is_two_blobs(make_fit: MakeFit, gap: float, splits: int) -> None:
    rng = np.random.default_rng(0)
    sides = np.repeat([0, 1], 300)
    rows = Rows(rng.normal(0, 0.3, (600, 2)) + 0.3 * gap * (sides[:, None] - 0.5))
    fit, members = make_fit(rows, np.zeros(600, dtype=np.int64)), Members.of(np.zeros(600, dtype=np.int64), 1)
    train_clustering_net(fit)
    train_subclustering_nets(fit, members)
    assert split_clusters(fit, members) == splits
    assert fit.net.n_clusters == fit.subnets.n_clusters == len(fit.ages) == 1 + splits
    assert fit.just_moved == bool(splits)
    assert (fit.log_split_ratios[0] > 10) == bool(splits)
    if splits:
        assert adjusted_rand_score(sides, labels_of(fit)) > 0.95  # before any training
        np.testing.assert_allclose(fit.statistics[:, 0], 300, atol=5)
        assert fit.ages.tolist() == [0, 0]


def test_no_more_splits_than_allowed(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> None:
    rows, _ = three
    one = np.zeros(len(rows), dtype=np.int64)
    fit, members = make_fit(rows, one, max_clusters=1), Members.of(one, 1)
    train_clustering_net(fit)
    train_subclustering_nets(fit, members)
    assert split_clusters(fit, members) == 0
    assert fit.log_split_ratios[0] > 10


def test_pieces_of_one_cluster_merge(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> None:
    rows, labels = three
    pieces = np.where((labels == 0) & (rows.points[:, 1] > -1), 3, labels)
    fit = make_fit(rows, pieces)
    train_clustering_net(fit, n_epochs=60)
    assert merge_clusters(fit, Members.of(pieces, 4)) == 1
    np.testing.assert_allclose(np.sort(fit.statistics[:, 0]), [100, 200, 300])
    assert fit.net.n_clusters == fit.subnets.n_clusters == len(fit.ages) == 3
    assert fit.history.merges[-1] == 1
    assert fit.just_moved
    assert merge_clusters(fit, Members.of(labels, 3)) == 0


def test_split_units_follow_the_subclusters(three: tuple[Rows, np.ndarray], trained: Fit) -> None:
    """Right after the split, before any training, the new units cut the cluster as its net did."""
    rows, labels = three
    members = Members.of(labels, 3)
    points = torch.from_numpy(rows.points[members.draw(np.random.default_rng(0), 300)]).float()
    heights = points[:, :, 1] - points[:, :, 1].mean(dim=1, keepdim=True)
    trained.subnets.fit_log_odds(points, torch.clamp(20 * heights, -4, 4))
    split_outputs(trained, members, np.array([0]))
    found = labels_of(trained)
    np.testing.assert_array_equal(found[labels > 0], labels[labels > 0])  # the others are left alone
    own = labels == 0
    assert set(found[own]) == {0, 3}
    middle = rows.points[own, 1].mean()
    assert ((found[own] == 3) == (rows.points[own, 1] > middle)).mean() > 0.85


def test_merged_units_take_the_rows_of_both(three: tuple[Rows, np.ndarray], trained: Fit) -> None:
    _, labels = three
    assert merge_outputs(trained, Members.of(labels, 3), np.array([[0, 2]])).tolist() == [0, 1]
    assert trained.net.n_clusters == 2
    assert (labels_of(trained) == (labels == 1)).mean() > 0.98


def test_clusters_that_no_row_prefers_are_dropped(trained: Fit) -> None:
    with torch.no_grad():
        trained.net.output_bias[1] = -1e6
    members = hard_partition(trained)
    assert trained.net.n_clusters == trained.subnets.n_clusters == len(trained.statistics) == 2
    assert set(members.labels) == {0, 1}
    assert trained.history.merges[-1] == 1


def test_distribution_of_k_after_one_more_round(trained: Fit) -> None:
    def law(splits: list[float], merges: list[float]) -> dict[int, float]:
        weights = snapshot.weights.select(np.arange(2))
        ratios = {"log_split_ratios": np.array(splits), "log_merge_ratios": np.array(merges)}
        return replace(snapshot, weights=weights, **ratios).k_after_moves()

    snapshot, log_half = trained.snapshot(), np.log(0.5)
    assert law([-500.0, -800.0], [-900.0]) == {2: 1.0}
    assert law([log_half, -1e9], []) == pytest.approx({2: 0.5, 3: 0.5})
    assert law([log_half, -1e9], [log_half]) == pytest.approx({1: 0.25, 2: 0.5, 3: 0.25})
    assert law([5.0, 5.0], [-1e9, log_half]) == pytest.approx({3: 0.5, 4: 0.5})  # one merger of two clusters
