"""Proposals, decisions, and what becomes of the nets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from clusterwise.deepdpm import moves
from clusterwise.deepdpm.nets import ClusteringNet, SubclusteringNets
from clusterwise.deepdpm.settings import Settings
from clusterwise.deepdpm.training import Members, assign, natural_parameters, train_epoch
from clusterwise.gaussian.rows import Rows

Make = Callable[..., Settings]


@pytest.fixture
def trained(three: tuple[Rows, np.ndarray], make_settings: Make) -> ClusteringNet:
    """A net that tells the three clusters apart."""
    rows, labels = three
    settings = make_settings()
    net = ClusteringNet.draw(np.random.default_rng(0), 2, 50, 1e-2, "cpu")
    net.output, net.output_bias = torch.zeros(50, 3), torch.zeros(3)
    net.renew()
    eta = natural_parameters(settings.prior.statistics(rows.points, labels, 3), settings)
    for _ in range(60):
        train_epoch(np.random.default_rng(0), rows, net, eta, settings)
    np.testing.assert_array_equal(assign(rows, net, "cpu"), labels)
    return net


def subnets(n_clusters: int) -> SubclusteringNets:
    return SubclusteringNets.draw(np.random.default_rng(1), n_clusters, 2, 50, 2e-2, "cpu")


def test_two_clusters_in_one_split_and_halves_of_one_do_not(
    three: tuple[Rows, np.ndarray], make_settings: Make
) -> None:
    rows, labels = three
    settings = make_settings()
    as_two = np.minimum(labels, 1)  # the second cluster is a union of two
    sides = np.where(as_two == 1, labels == 2, rows.points[:, 0] > -1.5)
    halves = moves.statistics_of_halves(rows, as_two, sides, 2, settings.prior)
    accepted, log_odds = moves.accept_splits(np.random.default_rng(0), halves, settings)
    assert accepted.tolist() == [False, True]
    assert log_odds[0] < -10 < 10 < log_odds[1]


def test_statistics_of_halves_are_sums(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, labels = three
    prior = make_settings().prior
    sides = rows.points[:, 1] > 0
    halves = moves.statistics_of_halves(rows, labels, sides, 3, prior)
    for cluster in range(3):
        for side in (False, True):
            chosen = (labels == cluster) & (sides == side)
            expected = prior.lift(rows.points[chosen]).sum(axis=0)
            np.testing.assert_allclose(halves[cluster, int(side)], expected, atol=1e-9)


def test_a_cluster_whose_halves_are_one_cannot_split(make_settings: Make) -> None:
    settings = make_settings()
    halves = np.zeros((1, 2, settings.prior.n_statistics))
    halves[0, 0] = settings.prior.lift(np.ones((5, 2))).sum(axis=0)
    accepted, log_odds = moves.accept_splits(np.random.default_rng(0), halves, settings)
    assert not accepted.any()
    assert log_odds[0] == -np.inf


def test_pieces_merge_in_pairs_and_never_three_at_once(make_settings: Make) -> None:
    """Four pieces of one cluster: whoever merges merges once."""
    settings = make_settings()
    points = np.random.default_rng(5).normal(0, 0.3, (400, 2))
    pieces = settings.prior.statistics(points, np.digitize(points[:, 0], [-0.2, 0, 0.2]), 4)
    pairs, log_odds = moves.accept_merges(np.random.default_rng(0), pieces, settings)
    assert (log_odds > 0).sum() >= 3
    joined = [k for pair in pairs for k in pair]
    assert len(joined) == len(set(joined)) >= 2
    far = settings.prior.statistics(
        points + np.repeat([[0.0, 0], [9, 0]], 200, axis=0), np.arange(400) // 200, 2
    )
    assert moves.accept_merges(np.random.default_rng(0), far, settings)[0] == []
    assert moves.accept_merges(np.random.default_rng(0), far[:1], settings)[0] == []


@pytest.mark.parametrize("by_centres", [False, True])
def test_split_units_follow_the_subclusters(
    three: tuple[Rows, np.ndarray], trained: ClusteringNet, by_centres: bool
) -> None:
    """Right after the split, before any training, the new units cut the cluster as its net did."""
    rows, labels = three
    members, nets = Members.of(labels, 3), subnets(3)
    drawn = members.draw(np.random.default_rng(0), np.arange(3), 300)
    points = torch.from_numpy(rows.points[drawn].astype(np.float32))
    heights = points[:, :, 1] - points[:, :, 1].mean(dim=1, keepdim=True)
    nets.aim(torch.arange(3), points, torch.clamp(20 * heights, -4, 4))
    moves.split_outputs(
        np.random.default_rng(0), rows, members, trained, nets, np.array([0]), by_centres, "cpu"
    )
    assert trained.n_clusters == nets.n_clusters == 4
    found = assign(rows, trained, "cpu")
    np.testing.assert_array_equal(found[labels > 0], labels[labels > 0])  # the others are left alone
    mine = labels == 0
    assert set(found[mine]) == {0, 3}
    middle = rows.points[mine, 1].mean()
    assert ((found[mine] == 3) == (rows.points[mine, 1] > middle)).mean() > 0.85


def test_joined_units_take_the_rows_of_both(three: tuple[Rows, np.ndarray], trained: ClusteringNet) -> None:
    rows, labels = three
    members, nets = Members.of(labels, 3), subnets(3)
    remain = moves.join_outputs(np.random.default_rng(0), rows, members, trained, nets, [(0, 2)], "cpu")
    assert remain.tolist() == [0, 1]
    assert trained.n_clusters == nets.n_clusters == 2
    assert (assign(rows, trained, "cpu") == (labels == 1)).mean() > 0.98


def test_first_cuts_are_across_the_longest_axis(make_settings: Make) -> None:
    rng = np.random.default_rng(6)
    rows = Rows(rng.normal(size=(500, 2)) * [3.0, 0.3])
    settings = make_settings()
    labels = np.zeros(500, dtype=np.int64)
    members, nets = Members.of(labels, 1), subnets(1)
    statistics = settings.prior.statistics(rows.points, labels, 1)
    moves.aim_subclusters(rng, rows, nets, members, statistics, np.zeros(1, dtype=int), settings)
    sides = moves.network_sides(rows, nets, members, "cpu")
    agree = (sides == (rows.points[:, 0] > 0)).mean()
    assert max(agree, 1 - agree) > 0.95
    torch.testing.assert_close(nets.metrics[0], torch.eye(2))
    moves.aim_subclusters(rng, rows, nets, members, statistics, np.ones(1, dtype=int), settings)
    white = rows.points @ nets.metrics[0].numpy()
    np.testing.assert_allclose(np.cov(white.T), np.eye(2), atol=0.02)


def test_two_means(three: tuple[Rows, np.ndarray], make_settings: Make) -> None:
    rows, labels = three
    as_two, nets = np.minimum(labels, 1), subnets(2)
    nets.centres = torch.tensor([[[-1.6, -1.0], [-1.4, -1.0]], [[1.0, 0.0], [0.5, 1.0]]])
    sides = moves.two_means_sides(rows, nets, as_two)
    np.testing.assert_array_equal(sides[as_two == 1], labels[as_two == 1] == 2)
    for side in (0, 1):
        centre = rows.points[(as_two == 0) & (sides == side)].mean(axis=0)
        np.testing.assert_allclose(nets.centres[0, side].numpy(), centre, atol=1e-5)


def test_distribution_of_k_after_one_more_round() -> None:
    log_half = np.log(0.5)
    settled = moves.Proposals(np.array([-500.0, -800.0]), np.array([-900.0]))
    assert moves.k_after_moves(2, settled) == {2: 1.0}
    split = moves.Proposals(np.array([log_half, -1e9]), np.empty(0))
    assert moves.k_after_moves(2, split) == pytest.approx({2: 0.5, 3: 0.5})
    both = moves.Proposals(np.array([log_half, -1e9]), np.array([log_half]))
    assert moves.k_after_moves(2, both) == pytest.approx({1: 0.25, 2: 0.5, 3: 0.25})
