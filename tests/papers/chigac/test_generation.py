"""CHiGac's loop: pioneers and steps, draws, the learned stop, central members, the cap."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch.nn import functional

from clusterwise.papers.chigac.chigac import CHiGacNetwork
from clusterwise.papers.chigac.generation import Loop
from tests.papers.chigac.small import SMALL, build, everyone, task_of


def test_the_second_score_of_a_pioneer_adds_to_the_first() -> None:
    points = task_of().points[:1]
    everybody = torch.ones(points.shape[:2], dtype=torch.bool)
    assert not build().encode(points, None).central.any()
    model = build(central=True, stop="empty", recentre=0)
    with torch.no_grad():
        encoded = model.encode(points, None)
        assert float(encoded.central.std()) > 0
        for j in (0, 7, 30):
            scores = torch.zeros_like(encoded.central)
            scores[0, j] = 100.0
            loop = Loop(model, encoded._replace(central=scores), everybody, [0], 0, 20)
            assert loop.run()[0].steps[0].anchor == j


def test_pioneers_start_the_steps_and_belong_to_their_clusters() -> None:
    points = task_of().points
    for stop in ("learned", "empty"):
        for inference in build(3, stop=stop, recentre=1).infer(points, everyone(points)):
            taken = torch.zeros(points.shape[1], dtype=torch.bool)
            for step in inference.steps:
                assert step.anchor is not None
                assert step.members[step.anchor]
                assert not bool((step.members & taken).any())
                taken |= step.members
            if stop == "empty":
                assert bool(taken.all())


def trained(**options: Any) -> CHiGacNetwork:
    """A small network after a hundred steps on three clear clusters."""
    torch.manual_seed(0)
    model = CHiGacNetwork(dataclasses.replace(SMALL, width=16, n_coordinates=8, **options))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(150):
        task = task_of(n_sets=16, seed=step)
        task = dataclasses.replace(task, points=task.points.float())
        loss = model.loss(task, torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def network() -> CHiGacNetwork:
    return trained()


def configured(network: CHiGacNetwork, **options: Any) -> CHiGacNetwork:
    """The same network with other options of its configuration."""
    other = copy.copy(network)
    other.config = dataclasses.replace(network.config, **options)
    return other


def test_draws_differ_among_each_other_and_not_from_seed_to_seed(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=2, seed=1000).points.float()
    one, same, other = (
        network.infer(points, everyone(points), seeds=seeds, n_draws=8) for seeds in ([1, 2], [1, 2], [3, 2])
    )
    for a, b in zip(one, same, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.draws, b.draws, strict=True))
    assert any(not torch.equal(x, y) for x, y in zip(one[0].draws, other[0].draws, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(one[1].draws, other[1].draws, strict=True))
    assert len({tuple(draw.tolist()) for draw in one[0].draws}) > 1


def test_draws_do_not_depend_on_the_neighbours_in_the_batch(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=2, seed=1000).points.float()
    padded = functional.pad(points, (0, 0, 0, 9), value=50.0)
    mask = torch.arange(padded.shape[1]) < torch.tensor([[36], [36]])
    alone = network.infer(points[:1], everyone(points[:1]), seeds=[5], n_draws=6)[0]
    together = network.infer(padded, mask, seeds=[5, 6], n_draws=6)[0]
    assert torch.equal(alone.labels, together.labels[:36])
    for a, b in zip(alone.draws, together.draws, strict=True):
        assert torch.equal(a, b[:36])


def test_the_first_path_is_the_same_with_and_without_draws(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=3, seed=1001).points.float()
    without = network.infer(points, everyone(points))
    with_draws = network.infer(points, everyone(points), n_draws=3)
    for a, b in zip(without, with_draws, strict=True):
        assert torch.equal(a.labels, b.labels)
        assert [step.anchor for step in a.steps] == [step.anchor for step in b.steps]


def test_recentred_pioneers_are_in_the_middle_of_their_clusters(network: CHiGacNetwork) -> None:
    """Nearer to the mean of the cluster they belong to, on average, than those that Eq 11 chose."""
    task = task_of(n_sets=40, seed=1004)
    points = task.points.float()

    def mean_distance(recentre: int) -> float:
        distances = []
        found = configured(network, recentre=recentre).infer(points, everyone(points))
        for of_set, inference in zip(points, found, strict=True):
            for step in inference.steps:
                if int(step.members.sum()) >= 5:
                    assert step.anchor is not None
                    distances.append((of_set[step.anchor] - of_set[step.members].mean(0)).norm())
        return float(torch.stack(distances).mean())

    assert mean_distance(2) < 0.8 * mean_distance(0)


@pytest.mark.parametrize("says", [-torch.inf, torch.inf])
def test_the_learned_stop_leaves_stragglers_to_the_clusters_that_want_them(
    network: CHiGacNetwork, monkeypatch: pytest.MonkeyPatch, says: float
) -> None:
    """Who never says that nobody is a pioneer goes on to the end; who always does takes one step."""
    points = task_of(n_sets=10, seed=1002).points.float()
    empty = configured(network, stop="empty").infer(points, everyone(points))
    prototypes = network.prototypes

    def decided(*means: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, nobody = prototypes(*means)
        return found, torch.full_like(nobody, says)

    monkeypatch.setattr(network, "prototypes", decided)
    for a, b in zip(network.infer(points, everyone(points)), empty, strict=True):
        assert len(torch.unique(a.labels)) == int(a.labels.max()) + 1
        torch.testing.assert_close(a.steps[0].members, b.steps[0].members)
        if says < 0:
            assert torch.equal(a.labels, b.labels)
        else:
            assert len(a.steps) == 1
            assert torch.equal(a.labels, torch.zeros_like(a.labels))


def test_a_cap_is_reported_and_every_point_labelled(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=20, seed=1003).points.float()
    inferences = network.infer(points, everyone(points), max_clusters=1, n_draws=2)
    assert any(inference.cap_reached for inference in inferences)
    for inference in inferences:
        assert torch.equal(inference.labels, torch.zeros_like(inference.labels))
        assert inference.cap_reached == (not bool(inference.steps[0].members.all()))
