"""Proposals, decisions, and what becomes of the nets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import gammaln, multigammaln

from clusterwise.deepdpm.net_training import Members, Settings, Training, hard_labels, train_clustering_net
from clusterwise.deepdpm.split_merge import (
    k_after_moves,
    merge_clusters,
    merge_outputs,
    propose_merges,
    propose_splits,
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


# -- decisions -----------------------------------------------------------------------------------


def log_weight(points: np.ndarray, settings: Settings) -> float:
    """log Gamma(n) f(X) of points (n, d), by the formula of the slides; ``psi`` is their nu Psi."""
    n, d = points.shape
    prior = settings.prior
    kappa, nu = prior.kappa + n, prior.nu + n
    mean = points.sum(axis=0) / kappa
    psi = np.diag(prior.psi) + points.T @ points - kappa * np.outer(mean, mean)
    log_f = multigammaln(nu / 2, d) - multigammaln(prior.nu / 2, d) - n * d / 2 * np.log(np.pi)
    log_f += prior.nu / 2 * np.log(prior.psi).sum() - nu / 2 * np.linalg.slogdet(psi)[1]
    return float(gammaln(n) + log_f + d / 2 * np.log(prior.kappa / kappa))


def halves_of(points: np.ndarray, settings: Settings) -> np.ndarray:
    """Statistics (1, 2, p) of points (n, d) to the left and to the right of zero."""
    return settings.prior.statistics(points, (points[:, 0] > 0).astype(int), 2)[None]


def test_the_hastings_ratio_is_that_of_the_paper(make_settings: Make) -> None:
    settings = make_settings()
    points = np.random.default_rng(0).normal(0, 0.6, (40, 2))
    left, right = points[points[:, 0] <= 0], points[points[:, 0] > 0]
    expected = np.log(settings.alpha) + sum(log_weight(part, settings) for part in (left, right))
    expected -= log_weight(points, settings)
    halves, rng = halves_of(points, settings), np.random.default_rng(0)
    assert propose_splits(rng, halves, settings.alpha, settings.prior)[1] == pytest.approx([expected])
    assert propose_merges(rng, halves[0], settings.alpha, settings.prior)[1] == pytest.approx([-expected])


@pytest.mark.parametrize("share", [0.25, 0.7])
def test_alpha_makes_splits_likelier_and_merges_rarer(make_settings: Make, share: float) -> None:
    """With the alpha for which H is a share, this share of the proposals is accepted."""
    settings, rng = make_settings(), np.random.default_rng(0)
    halves = halves_of(np.random.default_rng(0).normal(0, 0.6, (40, 2)), settings)
    log_h = float(propose_splits(rng, halves, 1.0, settings.prior)[1][0])
    n = 1500
    alpha = np.exp(np.log(share) - log_h)
    splits = sum(len(propose_splits(rng, halves, alpha, settings.prior)[0]) for _ in range(n))
    alpha = np.exp(-np.log(share) - log_h)
    merges = sum(len(propose_merges(rng, halves[0], alpha, settings.prior)[0]) for _ in range(n))
    error = 4 * np.sqrt(share * (1 - share) / n)
    assert [splits / n, merges / n] == pytest.approx([share, share], abs=error)


def test_a_cluster_whose_halves_are_one_cannot_split(make_settings: Make) -> None:
    settings = make_settings()
    halves = halves_of(np.ones((5, 2)), settings)
    split, log_ratios = propose_splits(np.random.default_rng(0), halves, 1e300, settings.prior)
    assert len(split) == 0
    assert log_ratios[0] == -np.inf


def test_pieces_merge_in_pairs_and_never_three_at_once(make_settings: Make) -> None:
    """Four pieces of one cluster: whoever merges merges once."""
    settings, rng = make_settings(), np.random.default_rng(0)
    points = np.random.default_rng(5).normal(0, 0.3, (400, 2))
    pieces = settings.prior.statistics(points, np.digitize(points[:, 0], [-0.2, 0, 0.2]), 4)
    pairs, log_ratios = propose_merges(rng, pieces, 10.0, settings.prior)
    assert (log_ratios > 0).sum() >= 3
    assert len(np.unique(pairs)) == pairs.size >= 2
    assert propose_merges(rng, pieces[:1], 10.0, settings.prior)[0].shape == (0, 2)


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
