"""The nets and what they learn, against slow, obvious versions; output units that come and go."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import entropy, multivariate_normal

from clusterwise.deepdpm import nets as module
from clusterwise.deepdpm.method import Fit, Settings
from clusterwise.deepdpm.nets import (
    FROZEN_EPOCHS,
    Adam,
    ClusteringNet,
    Members,
    NetWeights,
    SubclusteringNets,
    divergence,
    first_cuts,
    log_responsibilities,
    m_step,
    regress,
    second_halves,
    train_clustering_net,
    train_epoch,
    train_subclustering_nets,
)
from clusterwise.rows.sorted_rows import Rows

Make = Callable[..., Settings]
MakeFit = Callable[..., Fit]


@pytest.fixture
def points() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32))


def net_with(n_clusters: int, seed: int = 0) -> ClusteringNet:
    rng = np.random.default_rng(seed)
    shapes = [(3, 8), (8,), (8, n_clusters), (n_clusters,)]
    return ClusteringNet.from_weights(NetWeights(*(rng.normal(size=shape) for shape in shapes)), 1e-2, "cpu")


# -- L_cl and the M-step -------------------------------------------------------------------------


def test_the_loss_is_the_divergence_of_memberships_from_responsibilities(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit
) -> None:
    """KL(r || r^E), not KL(r^E || r): both are computed from their definition."""
    rows, labels = three
    wide = Rows(rows.points + np.random.default_rng(1).normal(0, 1, rows.points.shape))
    fit = make_fit(wide, labels, batch_size=len(rows))
    eta = m_step(fit.statistics, fit.settings.prior)
    targets = np.exp(log_responsibilities(fit.settings.prior.terms(wide.points), eta))
    train_epoch(fit, eta)
    r = fit.net.to_weights().memberships(wide.points)
    loss, _ = train_epoch(fit, eta)
    assert loss == pytest.approx(entropy(r, targets, axis=1).mean(), rel=1e-4)
    assert abs(entropy(targets, r, axis=1).mean() / loss - 1) > 0.1


def test_the_divergence_seeks_one_mode() -> None:
    """To leave out one of two equal targets costs log 2; to have what the target leaves out costs much."""
    two, one = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 1e-9]]).log()
    assert float(divergence(one, two)) == pytest.approx(np.log(2), rel=1e-4)
    assert float(divergence(two, one)) > 9


def weighted_map(
    points: np.ndarray, weights: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """The slides' weighted MAP estimates of one cluster, with their Psi = psi / nu."""
    prior, d = settings.prior, points.shape[1]
    kappa, nu = prior.kappa + weights.sum(), prior.nu + weights.sum()
    mean = weights @ points / kappa
    scatter = (points * weights[:, None]).T @ points
    psi = (prior.nu * np.diag(prior.psi / prior.nu) + scatter - kappa * np.outer(mean, mean)) / nu
    return mean, nu * psi / (nu - d + 1)


def test_responsibilities_of_the_weighted_map_estimates(
    three: tuple[Rows, np.ndarray], make_settings: Make
) -> None:
    rows, _ = three
    settings = make_settings()
    r = np.random.default_rng(1).dirichlet([1, 1, 1], len(rows))
    terms = settings.prior.terms(rows.points)
    found = np.exp(log_responsibilities(terms, m_step(r.T @ terms, settings.prior)))
    joint = [
        w.mean() * multivariate_normal(*weighted_map(rows.points, w, settings)).pdf(rows.points) for w in r.T
    ]
    np.testing.assert_allclose(found.T, joint / np.sum(joint, axis=0), rtol=1e-6)


def test_epochs_bring_memberships_to_responsibilities(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit
) -> None:
    rows, labels = three
    fit = make_fit(rows, labels, batch_size=64)
    eta = m_step(fit.statistics, fit.settings.prior)
    losses = []
    for _ in range(12):
        loss, statistics = train_epoch(fit, eta)
        losses.append(loss)
    assert losses[-1] < 0.2 * losses[0]
    found = fit.net.to_weights().memberships(rows.points)
    np.testing.assert_array_equal(found.argmax(axis=1), labels)
    np.testing.assert_allclose(statistics[:, 0], np.bincount(labels), rtol=0.1)


def test_an_epoch_of_many_rows_sees_some_and_stands_for_all(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = three
    monkeypatch.setattr(module, "MAX_BATCHES", 4)
    fit = make_fit(rows, labels, batch_size=30)
    _, statistics = train_epoch(fit, m_step(fit.statistics, fit.settings.prior))
    assert statistics[:, 0].sum() == pytest.approx(len(rows), rel=1e-5)


def test_the_mixture_waits_for_the_net_after_a_move(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit
) -> None:
    fit = make_fit(*three)
    before = fit.statistics
    fit.just_moved = True
    train_clustering_net(fit, n_epochs=0)
    assert len(fit.history) == FROZEN_EPOCHS
    np.testing.assert_array_equal(fit.statistics, before)
    train_clustering_net(fit, n_epochs=1)
    assert len(fit.history) == FROZEN_EPOCHS + 1
    assert not np.array_equal(fit.statistics, before)


def test_weights_as_arrays_give_the_memberships_of_the_net_row_by_row(points: torch.Tensor) -> None:
    net = net_with(4)
    weights, rows = net.to_weights(), points.numpy().astype(np.float64)
    membership = weights.memberships(rows)
    expected = torch.softmax(net.logits(points), dim=1).detach().numpy()
    np.testing.assert_allclose(membership, expected, atol=1e-5)
    np.testing.assert_allclose(membership.sum(axis=1), 1, rtol=1e-12)
    ratio = weights.select(np.array([3, 1])).memberships(rows)
    np.testing.assert_allclose(ratio[:, 0] / ratio[:, 1], membership[:, 3] / membership[:, 1], rtol=1e-9)
    many = np.random.default_rng(3).normal(size=(9000, 3))
    np.testing.assert_array_equal(weights.memberships(many[4095:4099]), weights.memberships(many)[4095:4099])


# -- L_sub ---------------------------------------------------------------------------------------


def test_subclustering_nets_find_two_halves_of_each_cluster(make_fit: MakeFit) -> None:
    rng = np.random.default_rng(4)
    heaps = np.array([[-3.0, 0.0], [-2.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    sides = rng.permutation(np.repeat(np.arange(4), 80))
    fit = make_fit(Rows(heaps[sides] + rng.normal(0, 0.15, (320, 2))), sides // 2)
    members = Members.of(sides // 2, 2)
    train_subclustering_nets(fit, members)
    found = second_halves(fit, members)
    for cluster in range(2):
        rows = members.rows(cluster)
        agree = (found[rows] == (sides[rows] % 2 == 1)).mean()
        assert max(agree, 1 - agree) > 0.98
    centres = np.sort(fit.subnets.centres.numpy().reshape(4, 2), axis=0)
    np.testing.assert_allclose(centres, np.sort(heaps, axis=0), atol=0.15)


def test_first_cuts_are_across_the_longest_axis(make_fit: MakeFit) -> None:
    """Later ones are random, in the cluster's own units."""
    rows = Rows(np.random.default_rng(6).normal(size=(500, 2)) * [3.0, 0.3])
    labels = np.zeros(500, dtype=np.int64)
    fit, members = make_fit(rows, labels), Members.of(labels, 1)
    first_cuts(fit, members)
    agree = (second_halves(fit, members) == (rows.points[:, 0] > 0)).mean()
    assert max(agree, 1 - agree) > 0.95
    torch.testing.assert_close(fit.subnets.metrics[0], torch.eye(2))
    fit.ages += 1
    first_cuts(fit, members)
    white = rows.points @ fit.subnets.metrics[0].numpy()
    np.testing.assert_allclose(np.cov(white.T), np.eye(2), atol=0.02)


def test_members_are_drawn_from_their_cluster(three: tuple[Rows, np.ndarray]) -> None:
    _, labels = three
    members = Members.of(labels, 3)
    for cluster in range(3):
        np.testing.assert_array_equal(members.rows(cluster), np.flatnonzero(labels == cluster))
    drawn = members.draw(np.random.default_rng(0), 500)
    assert (labels[drawn] == [[0], [1], [2]]).all()
    assert len(np.unique(drawn[2])) > 90  # of 100, with replacement


def test_a_stack_of_nets_is_each_of_them(points: torch.Tensor) -> None:
    nets = SubclusteringNets.draw(np.random.default_rng(0), 4, 3, 50, "cpu")
    stacked = points.view(4, 100, 3)
    nets.fit_log_odds(stacked, torch.clamp(3 * stacked[:, :, 0], -4, 4))
    together = nets.log_odds(stacked)
    assert ((together > 0) == (stacked[:, :, 0] > 0)).float().mean() > 0.9
    assert (nets.centres[:, 1, 0] > 0.3).all()
    assert (nets.centres[:, 0, 0] < -0.3).all()
    for cluster in range(4):
        torch.testing.assert_close(together[cluster], nets.log_odds_of(cluster, stacked[cluster]))
    nets.take(torch.tensor([2, 2, 0]))
    torch.testing.assert_close(nets.log_odds(stacked[[2, 2, 0]]), together[[2, 2, 0]])
    assert nets.n_clusters == len(nets.centres) == 3


# -- new outputs ---------------------------------------------------------------------------------


def test_regression_recovers_a_linear_map_from_the_rows_that_count() -> None:
    rng = np.random.default_rng(1)
    hidden = torch.from_numpy(rng.normal(size=(2, 300, 4)).astype(np.float32))
    output = torch.from_numpy(rng.normal(size=(2, 4, 3)).astype(np.float32))
    bias = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    targets, weights = hidden @ output + bias[:, None], torch.ones(2, 300)
    targets[:, 150:], weights[:, 150:] = 1e3, 0.0
    found, found_bias = regress(hidden, targets, weights)
    torch.testing.assert_close(found, output, atol=0.02, rtol=0)
    torch.testing.assert_close(found_bias, bias, atol=0.02, rtol=0)


def test_kept_units_stay_and_new_ones_meet_their_targets(points: torch.Tensor) -> None:
    net = net_with(3)
    before = net.logits(points).detach()
    wanted = net_with(1, seed=5)
    wanted.hidden, wanted.hidden_bias = net.hidden, net.hidden_bias
    target = wanted.logits(points).detach()
    targets = torch.cat([before[:, [2, 0]], target], dim=1)
    net.set_outputs(points, targets, torch.ones_like(targets), torch.tensor([2, 0, -1]))
    after = net.logits(points).detach()
    torch.testing.assert_close(after[:, :2], before[:, [2, 0]])
    assert (after[:, 2] - target[:, 0]).abs().max() < 0.2 * target.std()
    assert net.n_clusters == 3
    assert all(parameter.requires_grad for parameter in net.parameters)


def test_adam_takes_the_steps_of_torch() -> None:
    start = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    mine, theirs = start.clone().requires_grad_(), start.clone().requires_grad_()
    optimizer, reference = Adam([mine], 0.05), torch.optim.Adam([theirs], lr=0.05)
    for _ in range(20):
        optimizer.step((mine**4).sum())
        reference.zero_grad()
        (theirs**4).sum().backward()
        reference.step()
    torch.testing.assert_close(mine, theirs)
