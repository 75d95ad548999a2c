"""M-steps, epochs and subclustering nets against slow, obvious versions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from clusterwise.deepdpm import training
from clusterwise.deepdpm.nets import ClusteringNet, SubclusteringNets
from clusterwise.deepdpm.settings import Settings
from clusterwise.deepdpm.training import (
    Members,
    assign,
    log_targets,
    natural_parameters,
    train_epoch,
    train_subclusters,
)
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.rows import Rows

Make = Callable[..., Settings]


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
    lifted = settings.prior.lift(rows.points)
    found = np.exp(log_targets(lifted, natural_parameters(r.T @ lifted, settings)))
    joint = np.stack(
        [
            w.mean() * multivariate_normal(*weighted_map(rows.points, w, settings)).pdf(rows.points)
            for w in r.T
        ],
        axis=1,
    )
    np.testing.assert_allclose(found, joint / joint.sum(axis=1, keepdims=True), rtol=1e-6)


def test_without_the_prior_the_m_step_is_that_of_plain_em(make_settings: Make) -> None:
    points = np.random.default_rng(2).normal(size=(50, 2)) @ np.array([[1.0, 0.5], [0.0, 0.3]])
    settings = make_settings(prior_in_m_step=False)
    eta = natural_parameters(settings.prior.lift(points).sum(axis=0, keepdims=True), settings)
    expected = multivariate_normal(points.mean(axis=0), np.cov(points.T, bias=True)).logpdf(points)
    np.testing.assert_allclose(settings.prior.lift(points) @ eta[0], expected, rtol=1e-3)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_means_are_read_from_the_natural_parameters(covariance_type: str, make_settings: Make) -> None:
    rng = np.random.default_rng(3)
    prior = PRIORS[covariance_type](1e-4, 5.0, np.full(3, 0.02))
    settings = Settings(prior, 10.0)
    statistics = np.stack([prior.lift(rng.normal(c, 1, (40, 3))).sum(axis=0) for c in (0.0, 5.0)])
    means = training._means(natural_parameters(statistics, settings), settings)
    np.testing.assert_allclose(means, prior.means(statistics), rtol=1e-4)


@pytest.mark.parametrize("loss", ["kl", "isotropic"])
def test_an_epoch_lowers_the_loss_and_adds_up(
    three: tuple[Rows, np.ndarray], make_settings: Make, loss: str
) -> None:
    rows, labels = three
    settings = make_settings(cluster_loss=loss, batch_size=64)
    net = ClusteringNet.draw(np.random.default_rng(0), 2, 50, 5e-3, "cpu")
    net.output, net.output_bias = torch.zeros(50, 3), torch.zeros(3)
    net.renew()
    eta = natural_parameters(settings.prior.statistics(rows.points, labels, 3), settings)
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(12):
        value, statistics = train_epoch(rng, rows, net, eta, settings)
        losses.append(value)
    assert losses[-1] < 0.2 * losses[0]
    assert statistics[:, 0].sum() == pytest.approx(len(rows), rel=1e-5)
    np.testing.assert_array_equal(assign(rows, net, "cpu"), labels)


def test_an_epoch_of_many_rows_sees_some_and_stands_for_all(
    three: tuple[Rows, np.ndarray], make_settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, labels = three
    settings = make_settings(batch_size=30)
    monkeypatch.setattr(training, "BATCHES", 4)
    net = ClusteringNet.draw(np.random.default_rng(0), 2, 50, 5e-3, "cpu")
    net.output, net.output_bias = torch.zeros(50, 2), torch.zeros(2)
    net.renew()
    eta = natural_parameters(settings.prior.statistics(rows.points, np.minimum(labels, 1), 2), settings)
    _, statistics = train_epoch(np.random.default_rng(0), rows, net, eta, settings)
    assert statistics[:, 0].sum() == pytest.approx(len(rows), rel=1e-5)


def test_members_are_drawn_from_their_cluster(three: tuple[Rows, np.ndarray]) -> None:
    _, labels = three
    members = Members.of(labels, 3)
    for cluster in range(3):
        np.testing.assert_array_equal(members.rows(cluster), np.flatnonzero(labels == cluster))
    drawn = members.draw(np.random.default_rng(0), np.array([2, 0]), 500)
    assert (labels[drawn] == [[2], [0]]).all()
    assert len(np.unique(drawn[0])) > 90  # of 100, with replacement


def test_subclustering_nets_find_two_halves_of_each_cluster(make_settings: Make) -> None:
    """Each of two clusters is a pair of heaps, which a cut through the middle of nowhere turns into."""
    rng = np.random.default_rng(4)
    heaps = np.array([[-3.0, 0.0], [-2.0, 0.0], [2.0, 1.0], [2.0, -1.0]])
    sides = rng.permutation(np.repeat(np.arange(4), 80))
    rows, labels = Rows(heaps[sides] + rng.normal(0, 0.15, (320, 2))), sides // 2
    settings = make_settings(subcluster_learning_rate=2e-2)
    nets = SubclusteringNets.draw(rng, 2, 2, 50, settings.subcluster_learning_rate, "cpu")
    members = Members.of(labels, 2)
    drawn = members.draw(rng, np.arange(2), 200)
    points = torch.from_numpy(rows.points[drawn].astype(np.float32))
    crooked = points @ torch.tensor([1.0, 1.0])
    nets.aim(torch.arange(2), points, crooked - crooked.mean(dim=1, keepdim=True))
    train_subclusters(rng, rows, nets, members, settings)
    for cluster in range(2):
        mine = members.rows(cluster)
        found = (
            nets.log_odds_of(cluster, torch.from_numpy(rows.points[mine].astype(np.float32))) > 0
        ).numpy()
        agree = (found == (sides[mine] % 2 == 1)).mean()
        assert max(agree, 1 - agree) > 0.98
    centres = np.sort(nets.centres.numpy().reshape(4, 2), axis=0)
    np.testing.assert_allclose(centres, np.sort(heaps, axis=0), atol=0.15)
