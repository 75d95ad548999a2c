"""M-steps, epochs and subclustering nets against slow, obvious versions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import entropy, multivariate_normal

from clusterwise.deepdpm import net_training
from clusterwise.deepdpm.net_training import (
    FROZEN_EPOCHS,
    Members,
    Settings,
    Training,
    first_cuts,
    hard_labels,
    hard_partition,
    log_responsibilities,
    m_step,
    train_clustering_net,
    train_epoch,
    train_subclustering_nets,
)
from clusterwise.deepdpm.split_merge import subclusters
from clusterwise.gaussian.sorted_rows import Rows

Make = Callable[..., Settings]
MakeFit = Callable[..., Training]


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
    lifted = settings.prior.terms(rows.points)
    found = np.exp(log_responsibilities(lifted, m_step(r.T @ lifted, settings.prior)))
    joint = [
        w.mean() * multivariate_normal(*weighted_map(rows.points, w, settings)).pdf(rows.points) for w in r.T
    ]
    np.testing.assert_allclose(found.T, joint / np.sum(joint, axis=0), rtol=1e-6)


def test_the_loss_is_the_divergence_of_memberships_from_responsibilities(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit
) -> None:
    """KL(r || r^E), not KL(r^E || r): both are computed from their definition."""
    rows, labels = three
    wide = Rows(rows.points + np.random.default_rng(1).normal(0, 1, rows.points.shape))
    fit = make_fit(wide, labels, batch_size=len(rows))
    eta = m_step(fit.statistics, fit.settings.prior)
    targets = np.exp(log_responsibilities(fit.settings.prior.terms(wide.points), eta))
    train_epoch(fit.rng, wide, fit.net, eta, fit.settings)
    r = fit.net.to_weights().memberships(wide.points)
    loss, _ = train_epoch(fit.rng, wide, fit.net, eta, fit.settings)
    assert loss == pytest.approx(entropy(r, targets, axis=1).mean(), rel=1e-4)
    assert abs(entropy(targets, r, axis=1).mean() / loss - 1) > 0.1


def test_epochs_bring_memberships_to_responsibilities(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit
) -> None:
    rows, labels = three
    fit = make_fit(rows, labels, batch_size=64)
    eta = m_step(fit.statistics, fit.settings.prior)
    losses = []
    for _ in range(12):
        loss, statistics = train_epoch(fit.rng, rows, fit.net, eta, fit.settings)
        losses.append(loss)
    assert losses[-1] < 0.2 * losses[0]
    np.testing.assert_array_equal(hard_labels(rows, fit.net, "cpu"), labels)
    np.testing.assert_allclose(statistics[:, 0], np.bincount(labels), rtol=0.1)


def test_an_epoch_of_many_rows_sees_some_and_stands_for_all(
    three: tuple[Rows, np.ndarray], make_fit: MakeFit, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = three
    monkeypatch.setattr(net_training, "MAX_BATCHES", 4)
    fit = make_fit(rows, labels, batch_size=30)
    eta = m_step(fit.statistics, fit.settings.prior)
    _, statistics = train_epoch(fit.rng, rows, fit.net, eta, fit.settings)
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


def test_clusters_that_no_row_prefers_are_dropped(three: tuple[Rows, np.ndarray], make_fit: MakeFit) -> None:
    fit = make_fit(*three)
    train_clustering_net(fit, n_epochs=10)
    with torch.no_grad():
        fit.net.output_bias[1] = -1e6
    members = hard_partition(fit)
    assert fit.n_clusters == fit.subnets.n_clusters == len(fit.statistics) == len(members.counts) == 2
    assert set(members.labels) == {0, 1}
    assert fit.history.merges[-1] == 1


def test_members_are_drawn_from_their_cluster(three: tuple[Rows, np.ndarray]) -> None:
    _, labels = three
    members = Members.of(labels, 3)
    for cluster in range(3):
        np.testing.assert_array_equal(members.rows(cluster), np.flatnonzero(labels == cluster))
    drawn = members.draw(np.random.default_rng(0), 500)
    assert (labels[drawn] == [[0], [1], [2]]).all()
    assert len(np.unique(drawn[2])) > 90  # of 100, with replacement


def test_subclustering_nets_find_two_halves_of_each_cluster(make_fit: MakeFit) -> None:
    rng = np.random.default_rng(4)
    heaps = np.array([[-3.0, 0.0], [-2.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    sides = rng.permutation(np.repeat(np.arange(4), 80))
    fit = make_fit(Rows(heaps[sides] + rng.normal(0, 0.15, (320, 2))), sides // 2)
    members = Members.of(sides // 2, 2)
    train_subclustering_nets(fit, members)
    found = subclusters(fit, members)
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
    agree = (subclusters(fit, members) == (rows.points[:, 0] > 0)).mean()
    assert max(agree, 1 - agree) > 0.95
    torch.testing.assert_close(fit.subnets.metrics[0], torch.eye(2))
    fit.ages += 1
    first_cuts(fit, members)
    white = rows.points @ fit.subnets.metrics[0].numpy()
    np.testing.assert_allclose(np.cov(white.T), np.eye(2), atol=0.02)
