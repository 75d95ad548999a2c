"""Clusters shown to a network again: which ones, at which scale, and what their parts are called."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clusterwise.models.base import AmortizedModel, Inference, TrainingTask
from clusterwise.models.zoom import MOST_PARTS, SMALLEST_CLUSTER, batches_of_similar_size, zoom_in


class Halves(AmortizedModel):
    """A network that parts every set at the mean of its first coordinate, and keeps what it was shown."""

    method = "halves"
    has_density = False

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Tensor] = []
        self.seeds: list[int] = []

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def infer(
        self, points: Tensor, mask: Tensor, seeds: Sequence[int] | None = None, max_clusters: int = 100
    ) -> list[Inference]:
        assert max_clusters == MOST_PARTS
        self.shown += [points[b, mask[b]] for b in range(len(points))]
        self.seeds += list(seeds or [])
        labels = (points[..., 0] > 0).long()
        return [Inference(row, None, torch.zeros(2)) for row in labels]


def blobs(sizes: Sequence[int], seed: int = 0, spread: float = 0.1) -> tuple[Tensor, Tensor]:
    """Clusters of these sizes side by side, in random order, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=generator)]
    points = spread * torch.randn(len(labels), 2, generator=generator)
    points[:, 0] += 5.0 * labels
    return points, labels


def test_every_cluster_is_shown_alone_at_unit_spread() -> None:
    model, (points, labels) = Halves(), blobs([30, 12, 20])
    (found,) = zoom_in(model, [points], [labels], [7], points_per_batch=1000)
    assert sorted(map(len, model.shown)) == [12, 20, 30]
    assert model.seeds == [7, 7, 7]
    for shown in model.shown:
        torch.testing.assert_close(shown.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
        torch.testing.assert_close(shown.square().mean(), torch.tensor(1.0))
    for j in range(3):
        members = labels == j
        right = points[:, 0] > points[members, 0].mean()
        assert len(found[members & right].unique()) == len(found[members & ~right].unique()) == 1
        assert j in found[members]  # one part keeps the name
    assert found.unique().tolist() == list(range(6))


def test_small_and_constant_clusters_are_left_alone() -> None:
    points, labels = blobs([SMALLEST_CLUSTER - 1, SMALLEST_CLUSTER, 15])
    points[labels == 2] = 1.0
    model = Halves()
    (found,) = zoom_in(model, [points], [labels], [0], points_per_batch=1000)
    assert [len(shown) for shown in model.shown] == [SMALLEST_CLUSTER]
    assert torch.equal(found[labels != 1], labels[labels != 1])
    assert set(found.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("points_per_batch", [1, 60, 10_000])
def test_a_batch_equals_one_by_one(points_per_batch: int) -> None:
    sets, labels = zip(
        *(blobs(sizes, seed=i) for i, sizes in enumerate([[40], [12, 30, 9], [25, 25]])), strict=True
    )
    model = Halves()
    together = zoom_in(model, sets, labels, [1, 2, 3], points_per_batch)
    assert sorted(model.seeds) == [1, 2, 2, 3, 3]
    for points, of_set, found in zip(sets, labels, together, strict=True):
        (alone,) = zoom_in(Halves(), [points], [of_set], [1], points_per_batch)
        assert torch.equal(found, alone)


def test_labels_given_are_not_changed() -> None:
    points, labels = blobs([30, 30])
    copy = labels.clone()
    zoom_in(Halves(), [points], [labels], [0], 1000)
    assert torch.equal(labels, copy)


def test_tiny_clusters_are_scaled_without_loss() -> None:
    """Squares of 1e-30 are zero in single precision."""
    model, (points, labels) = Halves(), blobs([20], spread=1e-30)
    zoom_in(model, [points], [labels], [0], 1000)
    torch.testing.assert_close(model.shown[0].square().mean(), torch.tensor(1.0))


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_batches(sizes: list[int], points_per_batch: int) -> None:
    """Every set once, in order of size, and no batch beyond the budget unless it holds one set."""
    batches = list(batches_of_similar_size(sizes, points_per_batch))
    indices = [index for batch in batches for index in batch]
    assert sorted(indices) == list(range(len(sizes)))
    assert [sizes[index] for index in indices] == sorted(sizes)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(sizes[index] for index in batch) <= points_per_batch
