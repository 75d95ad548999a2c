"""The loss of what AMCP's revision decides by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise.models.amcp_bound import _cost, decision_loss, drift_loss, gain_of_two_parts
from clusterwise.models.amcp_revision import _two_parts

PRECISION = torch.tensor(16.0)


def groups(apart: float, n: int = 60, n_groups: int = 2, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Encodings (1, N, 4) of groups of sd 0.1 in a row, and their labels (1, N)."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n_groups).repeat_interleave(n)
    x = 0.1 * torch.randn(n_groups * n, 4, generator=generator)
    x[:, 0] += apart * labels
    return x.unsqueeze(0), labels.unsqueeze(0)


def test_true_clusters_that_lie_apart_do_not_drift() -> None:
    x, labels = groups(apart=3.0, n_groups=3)
    loss, drifted = drift_loss(x, labels, 3, PRECISION, 6)
    assert loss < 1e-3
    assert torch.equal(drifted, labels)


def test_the_nearer_clusters_are_the_more_they_drift() -> None:
    losses = [drift_loss(*groups(apart), 2, PRECISION, 6)[0].item() for apart in (0.2, 0.4, 0.8, 1.6)]
    assert losses == sorted(losses, reverse=True)


@pytest.mark.parametrize("apart", [0.0, 0.6, 1.2])
def test_the_gain_is_that_of_the_revision(apart: float) -> None:
    x, labels = groups(apart, n_groups=3)
    members = labels < 2  # the third is not looked at
    gain, share = gain_of_two_parts(x, members, PRECISION)
    own, _, _, share_of_first = _two_parts(np.ascontiguousarray(x[members].numpy()), 16.0)
    assert gain.item() == pytest.approx(own, rel=1e-3, abs=1e-2)
    assert share.item() == pytest.approx(min(share_of_first, 1 - share_of_first), abs=1e-3)


def decision(x: torch.Tensor, labels: torch.Tensor, n_clusters: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return decision_loss(x, labels, labels, torch.tensor([n_clusters]), PRECISION, generator)


def test_two_clusters_should_gain_more_than_the_price_and_one_less() -> None:
    right = decision(*groups(apart=1.5), 2)
    taken_for_one = decision(*groups(apart=0.2), 2)
    x, labels = groups(apart=1.5)
    cut = decision(x, torch.zeros_like(labels), 1)
    assert right < 0.1
    assert taken_for_one > 1
    assert cut > 1


def test_steps_along_the_gradient_part_two_clusters_that_look_like_one() -> None:
    x, labels = groups(apart=0.4)
    x.requires_grad_()
    before = gain_of_two_parts(x.detach(), labels >= 0, PRECISION)[0]
    for _ in range(20):
        (gradient,) = torch.autograd.grad(decision(x, labels, 2), x)
        x = (x - 0.5 * gradient).detach().requires_grad_()
    assert gain_of_two_parts(x.detach(), labels >= 0, PRECISION)[0] > 2 * before + 1


def test_a_wrong_decision_costs_what_ari_loses() -> None:
    """A few far points beside many: united with them they cost all of it, though they are few pairs."""
    labels = np.repeat([0, 1, 2], [300, 40, 100])
    united, cut = np.minimum(labels, 1), labels.copy()
    cut[:90] = 3
    together = torch.tensor([300.0**2 + 40**2 + 100**2, 300.0**2 + 40**2 + 100**2, 600.0**2 + 10**2])
    divided = torch.tensor([40.0 * 100, 90.0 * 210, 600.0 * 10])
    cost = _cost(together, divided, torch.tensor([True, False, True]), 440)
    expected = [1 - adjusted_rand_score(labels, found) for found in (united, cut)]
    assert cost[:2].tolist() == pytest.approx(expected, abs=5e-3)
    of_few = _cost(together[2:], divided[2:], torch.tensor([True]), 610)
    assert of_few.item() == pytest.approx(1.0, abs=1e-3)
