"""Proposals, decisions, and what becomes of the nets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from clusterwise.deepdpm.net_training import Members, Settings, Training, hard_labels, train_clustering_net
from clusterwise.deepdpm.split_merge import (
    k_after_moves,
    merge_clusters,
    merge_outputs,
    split_clusters,
    split_outputs,
)
from clusterwise.gaussian.sorted_rows import Rows

Make = Callable[..., Settings]
MakeFit = Callable[..., Training]


@pytest.fixture
def trained(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> Training:
    """A fit whose net tells the three clusters apart."""
    rows, labels = three
    fit = make_fit(rows, labels)
    train_clustering_net(fit, n_epochs=60)
    np.testing.assert_array_equal(hard_labels(rows, fit.net, "cpu"), labels)
    return fit


# -- what becomes of fits and their nets ---------------------------------------------------------


def test_a_union_splits_and_its_parts_merge(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> None:
    rows, labels = three
    fit, two = make_fit(rows, np.minimum(labels, 1)), Members.of(np.minimum(labels, 1), 2)
    train_clustering_net(fit, n_epochs=60)
    points = torch.from_numpy(rows.points[np.stack([two.rows(0)[:200], two.rows(1)[:200]])]).float()
    fit.subnets.fit_log_odds(points, 4 * points[:, :, 1])  # the third cluster is above the second
    assert split_clusters(fit, two) == 1
    assert fit.log_split_ratios[0] < -10 < 10 < fit.log_split_ratios[1]
    np.testing.assert_allclose(fit.statistics[:, 0], np.bincount(labels), atol=3)
    assert fit.n_clusters == fit.subnets.n_clusters == len(fit.ages) == 3
    assert fit.ages.tolist() == [1, 0, 0]
    assert fit.just_moved

    pieces = np.where((labels == 0) & (rows.points[:, 1] > -1), 3, labels)
    fit = make_fit(rows, pieces)
    train_clustering_net(fit, n_epochs=60)
    assert merge_clusters(fit, Members.of(pieces, 4)) == 1
    np.testing.assert_allclose(np.sort(fit.statistics[:, 0]), [100, 200, 300])
    assert fit.n_clusters == fit.subnets.n_clusters == len(fit.ages) == 3
    assert fit.history.merges[-1] == 1
    assert fit.just_moved


def test_split_units_follow_the_subclusters(three: tuple[Rows, np.ndarray], trained: Training) -> None:
    """Right after the split, before any training, the new units cut the cluster as its net did."""
    rows, labels = three
    members = Members.of(labels, 3)
    points = torch.from_numpy(rows.points[members.draw(np.random.default_rng(0), 300)]).float()
    heights = points[:, :, 1] - points[:, :, 1].mean(dim=1, keepdim=True)
    trained.subnets.fit_log_odds(points, torch.clamp(20 * heights, -4, 4))
    split_outputs(trained, members, np.array([0]))
    found = hard_labels(rows, trained.net, "cpu")
    np.testing.assert_array_equal(found[labels > 0], labels[labels > 0])  # the others are left alone
    own = labels == 0
    assert set(found[own]) == {0, 3}
    middle = rows.points[own, 1].mean()
    assert ((found[own] == 3) == (rows.points[own, 1] > middle)).mean() > 0.85


def test_merged_units_take_the_rows_of_both(three: tuple[Rows, np.ndarray], trained: Training) -> None:
    rows, labels = three
    merge_outputs(trained, Members.of(labels, 3), np.array([[0, 2]]), np.array([0, 1]))
    assert trained.n_clusters == 2
    assert (hard_labels(rows, trained.net, "cpu") == (labels == 1)).mean() > 0.98


def test_distribution_of_k_after_one_more_round(trained: Training) -> None:
    def law(splits: list[float], merges: list[float]) -> dict[int, float]:
        weights = snapshot.weights.select(np.arange(2))
        ratios = {"log_split_ratios": np.array(splits), "log_merge_ratios": np.array(merges)}
        return k_after_moves(replace(snapshot, weights=weights, **ratios))

    snapshot, log_half = trained.snapshot(), np.log(0.5)
    assert law([-500.0, -800.0], [-900.0]) == {2: 1.0}
    assert law([log_half, -1e9], []) == pytest.approx({2: 0.5, 3: 0.5})
    assert law([log_half, -1e9], [log_half]) == pytest.approx({1: 0.25, 2: 0.5, 3: 0.25})
    assert law([5.0, 5.0], [-1e9, log_half]) == pytest.approx({3: 0.5, 4: 0.5})  # one merger of two clusters
