"""The judges of trees and of partitions: orders that must not matter, and gradients that must arrive."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from clusterwise.clusterer.branches import Branches, ScoredTree, best_overlaps, measure_branches
from clusterwise.clusterer.features import (
    BICS,
    LOG_ROWS,
    MODULARITIES,
    PartitionFeatures,
    agreements,
    features_of_partition,
)
from clusterwise.clusterer.graph import Graph, neighbour_graph
from clusterwise.clusterer.judges import score_branches, score_partitions
from clusterwise.clusterer.trees import trees_of
from clusterwise.training.node_judge import NodeJudge, NodeJudgeConfig, NodeTask
from clusterwise.training.partition_judge import (
    CandidateTask,
    PartitionJudge,
    PartitionJudgeConfig,
    pack_candidates,
)


def table(seed: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    return 4 * rng.standard_normal((3, 2))[truth] + rng.standard_normal((n, 2)), truth


def trees_of_table(points: np.ndarray) -> tuple[Graph, list[Branches]]:
    graph = neighbour_graph(points)
    return graph, [measure_branches(graph, tree) for tree in trees_of(graph, ("ward", "single", "gini-.3"))]


def node_task(trees: list[Branches]) -> NodeTask:
    """The branches of some trees behind each other."""
    offsets = np.cumsum([0] + [len(one.nodes) for one in trees[:-1]])

    def joined(name: str) -> torch.Tensor:
        parts = [getattr(one, name) for one in trees]
        if name in ("parents", "children"):
            parts = [np.where(p >= 0, p + offset, -1) for p, offset in zip(parts, offsets, strict=True)]
        return torch.from_numpy(np.concatenate(parts))

    sizes = joined("sizes")
    return NodeTask(
        joined("features").float(), joined("parents"), joined("children"), sizes, sizes / trees[0].tree.n_rows
    )


def node_judge() -> NodeJudge:
    torch.manual_seed(0)
    return NodeJudge(NodeJudgeConfig(width=8, n_rounds=2)).double().eval()


def partition_judge() -> PartitionJudge:
    torch.manual_seed(0)
    return PartitionJudge(PartitionJudgeConfig(width=8, n_rounds=2)).double().eval()


def doubled(task: CandidateTask) -> CandidateTask:
    floats = {f.name: getattr(task, f.name) for f in fields(task)}
    return replace(
        task, **{k: v.double() for k, v in floats.items() if v is not None and v.is_floating_point()}
    )


def candidates_of_table(seed: int, numbers: tuple[int, ...]) -> tuple[list[PartitionFeatures], np.ndarray]:
    points, truth = table(seed)
    graph, trees = trees_of_table(points)
    rng = np.random.default_rng(seed + 100)
    scored = tuple(ScoredTree(one, *rng.random((2, len(one.nodes)))) for one in trees)
    graph = replace(graph, trees=scored)
    labels = [np.zeros(len(points), dtype=np.int64), truth]
    labels += [np.r_[np.arange(k), rng.integers(0, k, len(points) - k)] for k in numbers]
    return [features_of_partition(graph, one) for one in labels], agreements(labels)


def disturbed(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """All parameters and buffers away from where they begin, as arrays."""
    generator = torch.Generator().manual_seed(5)
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data += 0.1 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("seed", [0, 1])
def test_branches_are_scored_in_numpy_as_in_torch(seed: int) -> None:
    _, trees = trees_of_table(table(seed)[0])
    model = node_judge().float()
    parameters = disturbed(model)
    with torch.inference_mode():
        expected = model(node_task(trees)).overlaps.numpy()
    np.testing.assert_allclose(score_branches(parameters, trees), expected, atol=1e-4)
    alone = np.concatenate([score_branches(parameters, [one]) for one in trees])
    np.testing.assert_allclose(alone, expected, atol=1e-4)


@pytest.mark.parametrize("seed", [3, 4])
def test_partitions_are_scored_in_numpy_as_in_torch(seed: int) -> None:
    features, agree = candidates_of_table(seed, (2, 5, 9))
    model = partition_judge().float()
    parameters = disturbed(model)
    task = pack_candidates([features], [agree])
    with torch.inference_mode():
        expected, out_of_range = model(task), float(model.out_of_range(task)[0])
    found = score_partitions(parameters, features, agree)
    np.testing.assert_allclose(found.expected_ari, torch.sigmoid(expected.qualities)[0].numpy(), atol=1e-5)
    np.testing.assert_allclose(found.choice, expected.choice[0].exp().numpy(), atol=1e-5)
    np.testing.assert_allclose(found.numbers, expected.numbers[0].exp().numpy(), atol=1e-5)
    assert found.out_of_range == pytest.approx(out_of_range)
    assert found.n_clusters.tolist() == task.n_clusters[0].tolist()


def test_the_order_of_trees_does_not_matter() -> None:
    _, trees = trees_of_table(table(1)[0])
    model = node_judge().float()
    with torch.inference_mode():
        forth, back = model(node_task(trees)).overlaps, model(node_task(trees[::-1])).overlaps
    lengths = [len(one.nodes) for one in trees]
    for one, other in zip(forth.split(lengths), back.split(lengths[::-1])[::-1], strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_reach_every_parameter_of_the_node_judge() -> None:
    points, truth = table(2)
    _, trees = trees_of_table(points)
    overlaps = np.concatenate([best_overlaps(one, truth) for one in trees])
    task = replace(node_task(trees), overlaps=torch.from_numpy(overlaps).float())
    model = node_judge().float()
    model.loss(task, torch.Generator()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert name.endswith("absent") or parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("seed", [3, 4])
def test_candidates_may_stand_in_any_order(seed: int) -> None:
    features, agree = candidates_of_table(seed, (2, 5, 9))
    model = partition_judge()
    order = np.random.default_rng(seed).permutation(len(features))
    task = doubled(pack_candidates([features], [agree]))
    shuffled = doubled(pack_candidates([[features[i] for i in order]], [agree[np.ix_(order, order)]]))
    with torch.inference_mode():
        one, other = model(task), model(shuffled)
    for field in fields(one):
        torch.testing.assert_close(getattr(one, field.name)[:, order], getattr(other, field.name))


def test_data_sets_of_a_batch_do_not_depend_on_each_other() -> None:
    few, many = candidates_of_table(5, ()), candidates_of_table(6, (2, 4, 8))
    model = partition_judge()

    def judged(*sets: tuple[list[PartitionFeatures], np.ndarray]) -> torch.Tensor:
        with torch.inference_mode():
            packed = pack_candidates([one for one, _ in sets], [agree for _, agree in sets])
            return model(doubled(packed)).choice

    both = judged(few, many)
    torch.testing.assert_close(both[:1, : len(few[0])], judged(few))
    torch.testing.assert_close(both[1:], judged(many))
    assert both.exp().sum(dim=1).tolist() == pytest.approx([1.0, 1.0])


def test_gradients_reach_every_parameter_of_the_partition_judge() -> None:
    features, agree = candidates_of_table(7, (2, 4))
    task = pack_candidates([features], [agree])
    task = replace(
        task,
        qualities=torch.from_numpy(agree[1:2]).float(),  # the second candidate is the truth
        true_n_clusters=torch.tensor([3]),
    )
    model = partition_judge().float()
    model.loss(task, torch.Generator()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_more_evidence_is_seen_however_many_rows_there_are() -> None:
    """Two candidates whose BICs differ by two nats look the same in a small and in a large table."""
    model = partition_judge()
    inputs: list[torch.Tensor] = []
    last = -len(MODULARITIES)
    model.join.register_forward_pre_hook(
        lambda _, given: inputs.append(given[0][..., last - len(BICS) : last])
    )
    for m in (100.0, 1000.0):
        features, agree = candidates_of_table(8, ())
        for one, nats in zip(features, (0.0, 2.0), strict=True):
            one.partition[LOG_ROWS], one.partition[list(BICS)] = np.log(m), 2 * nats / m
        with torch.inference_mode():
            model(doubled(pack_candidates([features], [agree])))
    torch.testing.assert_close(inputs[0], inputs[1], atol=1e-4, rtol=1e-4)
    assert (inputs[0][0, 1] > 0.2).all() and (inputs[0][0, 0] == 0).all()
