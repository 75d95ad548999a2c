"""The cluster-wise loop of AMCP against its promises."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from clusterwise.papers.amcp.mixing import (
    ABSENT,
    UNASSIGNED,
    columns_of,
    first_by_k_means,
    seed_logits,
    with_nearest,
)
from clusterwise.papers.model import Inference
from tests.papers.amcp.samples import build, heaps


def everything(points: torch.Tensor) -> torch.Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)


def test_seeds_are_unassigned_and_unlike_what_is_assigned() -> None:
    model, similarity = build(), torch.tensor([[0.9, 0.1, -0.5, 0.9]])
    unassigned = torch.tensor([[True, True, False, True]])
    logits = seed_logits(model, similarity, torch.zeros(1, 4), unassigned)
    assert logits.argmax() == 1
    assert torch.softmax(logits, 1)[0, 2] == 0
    # A point that is expected to lead to a bad cluster is a worse seed.
    worse = seed_logits(model, similarity, torch.tensor([[0.0, 1.0, 0.0, 0.0]]), unassigned)
    assert worse[0, 1] < logits[0, 1]
    indifferent = seed_logits(build(coupling=False), similarity, torch.zeros(1, 4), unassigned)
    assert indifferent[0, [0, 1, 3]].unique().numel() == 1


def test_who_joins_and_who_moves() -> None:
    """Rows: a cluster so far, the new one, the rest; points: one assigned, three not, a seed, one absent."""
    plan = torch.tensor(
        [[0.1, 0.2, 0.8, 0.1, 0.1, 0.9], [0.7, 0.7, 0.1, 0.2, 0.2, 0.1], [0.2, 0.1, 0.1, 0.7, 0.7, 0]]
    )
    before = torch.tensor([[0, *[UNASSIGNED] * 4, ABSENT]])
    updated, final = (
        columns_of(plan[None].log(), before, torch.tensor([4]), update) for update in (True, False)
    )
    assert updated.tolist() == [[1, 1, 0, UNASSIGNED, 1, ABSENT]]
    assert final.tolist() == [[0, 1, UNASSIGNED, UNASSIGNED, 1, ABSENT]]


@pytest.mark.parametrize("update", [True, False])
@pytest.mark.parametrize("first_cluster", ["learned", "k-means"])
@pytest.mark.parametrize("e_step", ["regular", "sinkhorn"])
def test_every_point_is_labelled_and_steps_tell_how(update: bool, first_cluster: Any, e_step: Any) -> None:
    points, _ = heaps()
    mask = everything(points)
    mask[1, 30:] = False
    for seed in range(3):
        model = build(seed, update=update, first_cluster=first_cluster, e_step=e_step)
        for b, inference in enumerate(model.infer(points, mask, n_draws=2)):
            labels = inference.labels[mask[b]]
            assert int(labels.min()) >= 0
            assert len(inference.draws) == 2
            assert not inference.cap_reached
            assert (inference.steps[0].anchor is None) == (first_cluster == "k-means")
            ever = torch.stack([step.members for step in inference.steps]).sum(0)
            assert (ever[~mask[b]] == 0).all()
            if not update:  # nothing moves after it was assigned
                assert (ever[mask[b]] == 1).all()


def test_the_configuration_reaches_the_loop() -> None:
    """Each choice changes what is found, in one of a few networks at least."""
    points = torch.randn(4, 60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def found(**options: Any) -> list[Inference]:
        models = [build(seed, **options) for seed in range(4)]
        for model in models:
            model.log_sd.data -= 1.0  # narrower components, more clusters
        return [one for model in models for one in model.infer(points, everything(points))]

    usual = found()
    choices: list[dict[str, Any]] = [
        {"n_em_steps": 1}, {"proportions": "balanced"}, {"update": False}, {"coupling": False},
        {"first_cluster": "k-means"}, {"e_step": "sinkhorn"},
    ]  # fmt: skip
    for choice in choices:
        pairs = zip(usual, found(**choice), strict=True)
        assert any(not torch.equal(one.labels, other.labels) for one, other in pairs), choice


def test_a_network_without_transport_can_use_it() -> None:
    """With epsilon and strictness one: the plain Sinkhorn E-step."""
    points, _ = heaps()
    model = build(e_step="regular")
    model.config = dataclasses.replace(model.config, e_step="sinkhorn")
    assert len(model.infer(points, everything(points))) == 2


def test_a_cap_ends_the_loop() -> None:
    points, _ = heaps()
    model = build()
    with torch.no_grad():
        model.log_sd -= 6.0  # components so narrow that every point is a cluster
    for inference in model.infer(points, everything(points), max_clusters=4, n_draws=1):
        assert inference.cap_reached
        assert len(inference.steps) == 4
        assert len(inference.labels.unique()) <= 4


def test_what_is_left_at_a_cap_joins_the_nearest() -> None:
    x = torch.tensor([[0.0], [1.0], [0.1], [0.9], [5.0]])
    columns = torch.tensor([3, 7, UNASSIGNED, UNASSIGNED, ABSENT])
    assert with_nearest(x, columns).tolist() == [3, 7, 3, 7, ABSENT]


def test_many_sets_together_come_out_as_alone() -> None:
    """As many as are taken together and some more, paths of different lengths, some of them capped."""
    model, generator = build(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.log_sd -= 1.0  # narrower components, more clusters
    points = torch.randn(70, 300, 2, generator=generator, dtype=torch.float64)
    points = points * torch.rand(70, 1, 1, generator=generator, dtype=torch.float64)
    mask = torch.arange(300) < torch.randint(1, 301, (70, 1), generator=generator)
    together = model.infer(points, mask, max_clusters=4)
    assert {inference.cap_reached for inference in together} == {True, False}
    assert len({len(inference.steps) for inference in together}) > 1
    for b in (0, 1, 53, 54, 55, 69):
        (alone,) = model.infer(points[b : b + 1, mask[b]], mask[b : b + 1, mask[b]], max_clusters=4)
        assert torch.equal(together[b].labels[mask[b]], alone.labels)
        assert together[b].cap_reached == alone.cap_reached
        assert [step.anchor for step in together[b].steps] == [step.anchor for step in alone.steps]


def test_draws_depend_on_the_seed_alone() -> None:
    points, _ = heaps(3)
    model = build()
    together = model.infer(points, everything(points), seeds=[1, 2, 3], n_draws=3)
    alone = model.infer(points[1:2], everything(points[1:2]), seeds=[2], n_draws=3)[0]
    for mine, theirs in zip(alone.draws, together[1].draws, strict=True):
        assert mine.equal(theirs)


def test_k_means_finds_a_first_cluster() -> None:
    points, labels = heaps(2, 30)
    mask = everything(points)
    mask[1, :30] = False
    first = first_by_k_means(points, mask, k=3)
    assert (first & ~mask).sum() == 0
    assert all(len(labels[b][first[b]].unique()) == 1 for b in range(2))
    assert first[0].sum() == 30  # a whole cluster where k is right
