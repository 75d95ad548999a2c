"""Output units that come and go without a loss, and stacked nets that are as good as single ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clusterwise.deepdpm.nets import Adam, ClusteringNet, NetWeights, SubclusteringNets, regress


@pytest.fixture
def points() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32))


def net_with(n_clusters: int, seed: int = 0) -> ClusteringNet:
    rng = np.random.default_rng(seed)
    weights = NetWeights(
        rng.normal(size=(3, 8)),
        rng.normal(size=8),
        rng.normal(size=(8, n_clusters)),
        rng.normal(size=n_clusters),
    )
    return ClusteringNet.from_weights(weights, 1e-2, "cpu")


def test_regression_recovers_a_linear_map() -> None:
    rng = np.random.default_rng(1)
    hidden = torch.from_numpy(rng.normal(size=(2, 300, 4)).astype(np.float32))
    output = torch.from_numpy(rng.normal(size=(2, 4, 3)).astype(np.float32))
    bias = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    found, found_bias = regress(hidden, hidden @ output + bias[:, None], torch.ones(2, 300))
    torch.testing.assert_close(found, output, atol=0.02, rtol=0)
    torch.testing.assert_close(found_bias, bias, atol=0.02, rtol=0)


def test_rows_without_weight_do_not_count() -> None:
    rng = np.random.default_rng(2)
    hidden = torch.from_numpy(rng.normal(size=(100, 2)).astype(np.float32))
    targets = hidden.sum(dim=1, keepdim=True)
    spoiled = targets.clone()
    spoiled[50:] = 1e3
    weights = (torch.arange(100) < 50).float()
    torch.testing.assert_close(regress(hidden, spoiled, weights)[0], regress(hidden, targets, weights)[0])


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


def test_a_stack_of_nets_is_each_of_them(points: torch.Tensor) -> None:
    nets = SubclusteringNets.draw(np.random.default_rng(0), 4, 3, 6, "cpu")
    stacked = points.view(4, 100, 3)
    nets.fit_log_odds(stacked, stacked.sum(dim=2))
    together = nets.log_odds(stacked)
    for cluster in range(4):
        torch.testing.assert_close(together[cluster], nets.log_odds_of(cluster, stacked[cluster]))
    nets.take(torch.tensor([2, 2, 0]))
    torch.testing.assert_close(nets.log_odds(stacked[[2, 2, 0]]), together[[2, 2, 0]])
    assert nets.n_clusters == len(nets.centres) == 3


def test_subclustering_nets_are_fitted_to_log_odds(points: torch.Tensor) -> None:
    nets = SubclusteringNets.draw(np.random.default_rng(0), 2, 3, 50, "cpu")
    stacked = points.view(2, 200, 3)
    log_odds = torch.clamp(3 * stacked[:, :, 0], -4, 4)
    nets.fit_log_odds(stacked, log_odds)
    assert ((nets.log_odds(stacked) > 0) == (log_odds > 0)).float().mean() > 0.9
    assert (nets.centres[:, 1, 0] > 0.3).all()
    assert (nets.centres[:, 0, 0] < -0.3).all()


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
