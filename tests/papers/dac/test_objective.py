"""DAC's objective: the filtering losses against loops, the law of removed clusters, flows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from clusterwise.nn.densities import ClusterFlow, diagonal_gaussian_log_density
from clusterwise.papers.dac.dac import Filtered
from clusterwise.papers.dac.objective import (
    filtering_loss,
    flow_loss,
    members_of_clusters,
    remaining_points,
    remove_random_clusters,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# -- the losses --------------------------------------------------------------------------------------


def loss_of(
    filtered: Filtered, points: Tensor, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> Tensor:
    density = None
    if filtered.means is not None and filtered.log_sds is not None:
        density = diagonal_gaussian_log_density(points, filtered.means[:, None], filtered.log_sds[:, None])
    return filtering_loss(filtered.logits, density, labels, mask, anchors)


def naive_loss(
    filtered: Filtered, points: Tensor, labels: Tensor, mask: Tensor, anchors: Tensor | None
) -> list[float]:
    """Eqs 5, 7 and 9, one data set, one cluster and one point at a time."""
    losses = []
    for b in range(len(points)):
        present = [i for i in range(points.shape[1]) if mask[b, i]]
        of_cluster: dict[int, float] = {}
        for j in sorted({int(labels[b, i]) for i in present}):
            cross_entropy, log_density, size = 0.0, 0.0, 0
            for i in present:
                probability = 1 / (1 + math.exp(-float(filtered.logits[b, i])))
                inside = int(labels[b, i]) == j
                cross_entropy -= math.log(probability if inside else 1 - probability)
                if inside and filtered.means is not None and filtered.log_sds is not None:
                    for x, mean, log_sd in zip(
                        points[b, i].tolist(),
                        filtered.means[b].tolist(),
                        filtered.log_sds[b].tolist(),
                        strict=True,
                    ):
                        variance = math.exp(log_sd) ** 2
                        log_density -= (x - mean) ** 2 / (2 * variance) + math.log(2 * math.pi * variance) / 2
                size += inside
            of_cluster[j] = cross_entropy / len(present) - log_density / size
        losses.append(min(of_cluster.values()) if anchors is None else of_cluster[int(labels[b, anchors[b]])])
    return losses


@pytest.mark.parametrize("with_density", [True, False], ids=["density", "no density"])
@pytest.mark.parametrize("anchored", [True, False], ids=["anchored", "minimum loss"])
@pytest.mark.parametrize("removed", [True, False], ids=["clusters removed", "all clusters"])
def test_filtering_loss_is_eqs_5_7_and_9(with_density: bool, anchored: bool, removed: bool) -> None:
    n_sets, n, d = 6, 12, 3
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (n_sets, n), generator=generator)
    mask = (labels != 1) & (labels != labels[:, :1]) if removed else torch.ones_like(labels, dtype=torch.bool)
    points = normal(n_sets, n, d)
    filtered = Filtered(
        3 * normal(n_sets, n, seed=1),
        normal(n_sets, d, seed=2) if with_density else None,
        normal(n_sets, d, seed=3) if with_density else None,
    )
    anchors = torch.multinomial(mask.double(), 1, generator=generator).squeeze(1) if anchored else None
    result = loss_of(filtered, points, labels, mask, anchors)
    expected = naive_loss(filtered, points, labels, mask, anchors)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)


def test_loss_is_stable_for_sure_networks() -> None:
    """Logits of 1e4 have probabilities that round to 0 and 1; the loss stays finite and right."""
    logits = torch.tensor([[1e4, 1e4, -1e4, -1e4]], dtype=torch.float64)
    labels = torch.tensor([[0, 0, 1, 1]])
    mask = torch.ones(1, 4, dtype=torch.bool)
    right = filtering_loss(logits, None, labels, mask, torch.tensor([0]))
    wrong = filtering_loss(logits, None, labels, mask, torch.tensor([2]))
    assert float(right) == 0.0
    assert float(wrong) == 1e4


def test_the_minimum_loss_takes_any_cluster_and_the_anchored_one_that_of_its_anchor() -> None:
    labels = torch.tensor([[0, 0, 0, 1, 1, 1, 2, 2]])
    finds_the_second = torch.where(labels == 1, 5.0, -5.0)
    everyone = torch.ones_like(labels, dtype=torch.bool)
    anchored = [
        float(filtering_loss(finds_the_second, None, labels, everyone, torch.tensor([anchor])))
        for anchor in (0, 4, 7)
    ]
    minimum = float(filtering_loss(finds_the_second, None, labels, everyone, None))
    assert minimum == anchored[1] < 0.01 < 1 < min(anchored[0], anchored[2])
    # A density that fits another cluster speaks for that one, the more the better it fits.
    density = torch.where(labels == 0, 20.0, 0.0)
    assert float(filtering_loss(finds_the_second, density, labels, everyone, None)) < minimum - 10


# -- removed clusters --------------------------------------------------------------------------------


def test_number_of_clusters_kept_is_uniform_and_so_is_which() -> None:
    n_sets, k = 20_000, 4
    labels = torch.arange(k).repeat(n_sets, 2)  # two points of each cluster
    generator = torch.Generator().manual_seed(0)
    mask = remove_random_clusters(labels, torch.full((n_sets,), k), generator)
    kept = mask[:, :k]
    assert torch.equal(kept, mask[:, k:])  # clusters are removed whole
    counts = np.bincount(kept.sum(1).numpy(), minlength=k + 1)
    assert counts[0] == 0
    assert chisquare(counts[1:]).pvalue > 1e-4
    for size in (1, 2, 3):
        subsets = kept[kept.sum(1) == size].int() @ (2 ** torch.arange(k, dtype=torch.int32))
        possible = [sum(2**j for j in subset) for subset in itertools.combinations(range(k), size)]
        assert chisquare(np.bincount(subsets.numpy(), minlength=2**k)[possible]).pvalue > 1e-4


def test_clusters_that_do_not_exist_are_not_kept_in_place_of_others() -> None:
    """A set of one cluster keeps it; a set of two, in the same batch, keeps both half of the time."""
    n_pairs = 4000
    labels = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 0, 1, 1], [0, 1, 2, 3, 4]]).repeat(n_pairs, 1)
    n_clusters = torch.tensor([1, 2, 5]).repeat(n_pairs)
    mask = remove_random_clusters(labels, n_clusters, torch.Generator().manual_seed(1))
    assert mask.any(1).all()
    assert mask[::3].all()
    both = mask[1::3, 0] & mask[1::3, 1]
    assert abs(float(both.double().mean()) - 0.5) < 4.5 * 0.5 / math.sqrt(n_pairs)
    mean_kept = float(mask[2::3].double().sum(1).mean())
    assert abs(mean_kept - 3.0) < 4.5 * math.sqrt(2.0 / n_pairs)


# -- data sets of a step ------------------------------------------------------------------------------


def test_members_of_every_cluster_are_found() -> None:
    labels = torch.tensor([[0, 1, 1, 0, 2], [0, 0, 0, 0, 1]])
    index, mask = members_of_clusters(labels, 3)
    found = [own[present].tolist() for own, present in zip(index, mask, strict=True)]
    assert found == [[0, 3], [1, 2], [4], [5, 6, 7], [9]]


def test_what_is_left_of_the_sets_is_packed() -> None:
    generator = torch.Generator().manual_seed(1)
    points, labels = normal(7, 40, 2), torch.randint(3, (7, 40), generator=generator)
    mask = torch.rand(7, 40, generator=generator) < torch.linspace(0.1, 1.0, 7)[:, None]
    parts = remaining_points(points, labels, mask)
    assert parts[0].points.shape[1] < 40
    found = [
        (part.points[row][part.mask[row]], part.labels[row][part.mask[row]])
        for part in parts
        for row in range(len(part.mask))
    ]
    for b, (own, names) in zip(mask.sum(1).argsort(stable=True).tolist(), found, strict=True):
        assert torch.equal(own, points[b][mask[b]])
        assert torch.equal(names, labels[b][mask[b]])


def test_a_flow_learns_from_clusters_that_it_sees_in_part() -> None:
    torch.manual_seed(0)
    flow = ClusterFlow(2, 8, 2, 8).eval()
    points = torch.randn(3, 40, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40).remainder(4).expand(3, -1)
    loss = flow_loss(flow, points, labels, torch.Generator().manual_seed(1))
    assert loss.shape == () and torch.isfinite(loss)
    alone = flow_loss(flow, points[:, :4], labels[:, :4], torch.Generator().manual_seed(1))
    assert alone.item() == 0.0  # a cluster of one point has nobody to describe
