"""Cuts and unions after DAC's passes: what is two becomes two, what is one stays one."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from clusterwise.papers import dac_revision
from clusterwise.papers.dac import DAC, DACConfig
from clusterwise.papers.dac_revision import PRICE


class Moments:
    """In place of a trained network: means and standard deviations as they are, none of them tiny."""

    def describe(self, points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        present = mask.unsqueeze(-1)
        n = present.sum(1)
        means = (points * present).sum(1) / n
        squares = ((points - means.unsqueeze(1)).square() * present).sum(1)
        return means, 0.5 * torch.log((squares + 0.02) / (n + 1))


NETWORK = cast("DAC", Moments())


def revised(network: DAC, points: Tensor, labels: Tensor, most: int, price: float = PRICE) -> Tensor:
    return dac_revision.revised(network, points, labels, most, price)[0]


def clusters(sizes: tuple[int, ...], apart: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Round clusters on a line, ``apart`` standard deviations from each other, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = 0.15 * rng.standard_normal((len(labels), 2))
    points[:, 0] += 0.15 * apart * labels
    return torch.tensor(points), torch.tensor(labels)


def agreement(one: Tensor, other: Tensor) -> float:
    """Share of points in pairs of clusters that belong together."""
    table = torch.zeros(int(one.max()) + 1, int(other.max()) + 1)
    table.index_put_((one, other), torch.ones(len(one)), accumulate=True)
    return float(table.amax(1).sum()) / len(one) if table.shape[0] == table.shape[1] else 0.0


@pytest.mark.parametrize("sizes", [(60, 60), (90, 30), (50, 50, 50)])
def test_two_clusters_with_one_name_are_cut(sizes: tuple[int, ...]) -> None:
    points, labels = clusters(sizes, apart=8)
    found = revised(NETWORK, points, (labels - 1).clamp(min=0), 20)
    assert agreement(found, labels) == 1.0


def test_a_cluster_with_several_names_is_united() -> None:
    points, labels = clusters((60, 40), apart=8)
    names = torch.where(labels == 0, torch.arange(len(labels)) % 3, 3)
    assert agreement(revised(NETWORK, points, names, 20), labels) == 1.0


def test_a_straggler_joins_its_cluster() -> None:
    """A cluster of one point at the rim is narrow, and far away in its own standard deviations."""
    points, labels = clusters((80, 60), apart=10)
    points[0] = torch.tensor([0.0, 0.6])  # four standard deviations from the middle of the first cluster
    names = labels.clone()
    names[0] = 2
    assert agreement(revised(NETWORK, points, names, 20), labels) == 1.0


def test_points_between_two_clusters_go_where_they_are_likelier() -> None:
    points, labels = clusters((80, 80), apart=5)
    greedy = torch.where(points[:, 0] < 0.15 * 3.5, 0, 1)  # the first pass took what belongs to the second
    assert agreement(greedy, labels) < 0.97
    assert agreement(revised(NETWORK, points, greedy, 20), labels) > 0.98


def test_what_is_right_stays() -> None:
    points, labels = clusters((50, 6, 30), apart=9)
    assert agreement(revised(NETWORK, points, 2 * labels, 20), labels) == 1.0


def test_the_price_decides() -> None:
    points, labels = clusters((60, 60), apart=4)
    together = torch.zeros_like(labels)
    assert int(revised(NETWORK, points, together, 20).max()) == 1
    assert int(revised(NETWORK, points, together, 20, price=50 * PRICE).max()) == 0
    assert int(revised(NETWORK, points, labels, 20, price=50 * PRICE).max()) == 0


def test_no_more_clusters_than_allowed() -> None:
    points, labels = clusters((30,) * 6, apart=9)
    assert int(revised(NETWORK, points, torch.zeros_like(labels), 3).max()) < 3


@pytest.mark.parametrize(("most", "capped"), [(1, True), (2, False)])
def test_a_cap_that_stood_in_the_way_is_told(most: int, capped: bool) -> None:
    points, labels = clusters((60, 60), apart=8)
    found, told = dac_revision.revised(NETWORK, points, torch.zeros_like(labels), most)
    assert int(found.max()) == most - 1
    assert told is capped


def test_one_point_and_equal_points() -> None:
    points = torch.full((7, 2), 0.5)
    for n in (1, 7):
        assert revised(NETWORK, points[:n], torch.zeros(n, dtype=torch.int64), 5).tolist() == [0] * n


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_every_data_set_of_a_batch_is_revised_by_itself(filtering: Any) -> None:
    torch.manual_seed(0)
    model = DAC(DACConfig(filtering=filtering, width=8, n_heads=2, n_inducing=4)).eval()
    sets = [clusters((20, 12), apart=8, seed=1)[0].float(), clusters((9,), apart=0, seed=2)[0].float()]
    points = torch.nn.utils.rnn.pad_sequence(sets, batch_first=True)
    mask = torch.arange(32) < torch.tensor([[32], [9]])
    together = model.infer(points, mask, seeds=[3, 4], revise=True)
    for one, own, seed in zip(together, sets, (3, 4), strict=True):
        alone = model.infer(own[None], torch.ones(1, len(own), dtype=torch.bool), seeds=[seed])[0].labels
        with torch.inference_mode():
            expected = revised(model, own, alone, 100)
        assert torch.equal(one.labels[: len(own)], expected)
