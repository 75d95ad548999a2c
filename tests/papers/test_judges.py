"""The judges of trees and of partitions: orders that must not matter, and gradients that must arrive."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from clusterwise.clusterer.cut import best_overlaps, decisions
from clusterwise.clusterer.features import Measured, Nodes, measure, nodes_of
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import LINKAGES, trees_of
from clusterwise.clusterer.node_judge import NodeJudge, NodeJudgeConfig, pack_nodes
from clusterwise.clusterer.partition_judge import (
    CandidateTask,
    PartitionJudge,
    PartitionJudgeConfig,
    pack_candidates,
    probabilities_of_k,
    ranked,
)
from clusterwise.clusterer.partitions import (
    BICS,
    LOG_ROWS,
    PartitionFeatures,
    agreements,
    features_of_partition,
)


def table(seed: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, n)
    return 4 * rng.standard_normal((3, 2))[truth] + rng.standard_normal((n, 2)), truth


def trees_of_table(points: np.ndarray) -> tuple[Measured, list[Nodes]]:
    near = neighbourhood_of(points)
    measured = measure(near)
    return measured, [nodes_of(measured, tree) for tree in trees_of(near, ("ward", "single", "paris"))]


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
    measured, trees = trees_of_table(points)
    rng = np.random.default_rng(seed + 100)
    scores = [rng.random((len(nodes.nodes), 2)) for nodes in trees]
    labels = [np.zeros(len(points), dtype=np.int64), truth]
    labels += [np.r_[np.arange(k), rng.integers(0, k, len(points) - k)] for k in numbers]
    return [features_of_partition(measured, one, trees, scores) for one in labels], agreements(labels)


def test_the_order_of_trees_does_not_matter() -> None:
    _, trees = trees_of_table(table(1)[0])
    model = node_judge().float()
    with torch.inference_mode():
        forth, back = model(pack_nodes(trees)).overlaps, model(pack_nodes(trees[::-1])).overlaps
    lengths = [len(nodes.nodes) for nodes in trees]
    for one, other in zip(forth.split(lengths), back.split(lengths[::-1])[::-1], strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_reach_every_parameter_of_the_node_judge() -> None:
    points, truth = table(2)
    _, trees = trees_of_table(points)
    task = pack_nodes(trees)
    overlaps = [best_overlaps(nodes, truth) for nodes in trees]
    cuts = [decisions(n.sizes, n.children, o) for n, o in zip(trees, overlaps, strict=True)]
    task = replace(
        task,
        overlaps=torch.from_numpy(np.concatenate(overlaps)).float(),
        whole=torch.from_numpy(np.concatenate(cuts)).float(),
    )
    model = node_judge().float()
    model.loss(task, torch.Generator()).backward()
    kinds = {list(LINKAGES).index(nodes.tree.kind) for nodes in trees}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name == "kinds.weight":
            assert {int(i) for i in parameter.grad.abs().sum(dim=1).nonzero()} == kinds
        elif not name.endswith("absent"):
            assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("seed", [3, 4])
def test_candidates_may_stand_in_any_order(seed: int) -> None:
    features, agree = candidates_of_table(seed, (2, 5, 9))
    origins = np.arange(len(features)) % 4
    model = partition_judge()
    order = np.random.default_rng(seed).permutation(len(features))
    task = doubled(pack_candidates([features], [origins], [agree]))
    shuffled = doubled(
        pack_candidates([[features[i] for i in order]], [origins[order]], [agree[np.ix_(order, order)]])
    )
    with torch.inference_mode():
        one, other = model(task), model(shuffled)
    for field in fields(one):
        torch.testing.assert_close(getattr(one, field.name)[:, order], getattr(other, field.name))


def test_data_sets_of_a_batch_do_not_hear_of_each_other() -> None:
    few, many = candidates_of_table(5, ()), candidates_of_table(6, (2, 4, 8))
    model = partition_judge()

    def judged(*sets: tuple[list[PartitionFeatures], np.ndarray]) -> torch.Tensor:
        origins = [np.zeros(len(features), dtype=np.int64) for features, _ in sets]
        with torch.inference_mode():
            packed = pack_candidates([one for one, _ in sets], origins, [agree for _, agree in sets])
            return model(doubled(packed)).choice

    both = judged(few, many)
    torch.testing.assert_close(both[:1, : len(few[0])], judged(few))
    torch.testing.assert_close(both[1:], judged(many))
    assert both.exp().sum(dim=1).tolist() == pytest.approx([1.0, 1.0])


def test_gradients_reach_every_parameter_of_the_partition_judge() -> None:
    features, agree = candidates_of_table(7, (2, 4))
    task = pack_candidates([features], [np.arange(len(features))], [agree])
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
    model.join.register_forward_pre_hook(lambda _, given: inputs.append(given[0][..., -len(BICS) :]))
    for m in (100.0, 1000.0):
        features, agree = candidates_of_table(8, ())
        for one, nats in zip(features, (0.0, 2.0), strict=True):
            one.whole[LOG_ROWS], one.whole[list(BICS)] = np.log(m), 2 * nats / m
        with torch.inference_mode():
            model(doubled(pack_candidates([features], [np.zeros(2, dtype=np.int64)], [agree])))
    torch.testing.assert_close(inputs[0], inputs[1], atol=1e-4, rtol=1e-4)
    assert (inputs[0][0, 1] > 0.2).all() and (inputs[0][0, 0] == 0).all()


def test_probabilities_of_k_lend_to_similar_numbers() -> None:
    found = probabilities_of_k(np.array([0.5, 0.3, 0.2]), np.array([2, 20, 2]), spread=0.05, most=50)
    assert found.sum() == pytest.approx(1)
    assert found[1] == pytest.approx(0.7, abs=1e-3)  # 2 lends next to nothing to 1 and 3
    assert 0.05 < found[19] < 0.2 and found[18] > 0.02 and found[20] > 0.02
    exact = probabilities_of_k(np.array([0.25, 0.75]), np.array([3, 30]), spread=1e-4, most=50)
    assert exact[2] == pytest.approx(0.25) and exact[29] == pytest.approx(0.75)


def test_an_answer_between_likely_candidates_beats_the_likeliest() -> None:
    labels = np.array([[0] * 6 + [1] * 6, [0] * 3 + [1] * 9, [0] * 5 + [1] * 7, [0] * 7 + [1] * 5])
    agreement = agreements(list(labels))
    choice = np.array([0.2, 0.34, 0.23, 0.23])
    order = ranked(choice, choice, agreement)
    assert sorted(order) == [0, 1, 2, 3]
    assert order[0] == (agreement @ choice).argmax() != choice.argmax()


def test_where_the_judge_is_in_doubt_the_agreement_of_the_candidates_counts() -> None:
    labels = np.array([[0] * 12, [0] * 6 + [1] * 6, [0] * 5 + [1] * 7, [0] * 7 + [1] * 5])
    agreement = agreements(list(labels))
    choice = np.array([0.97, 0.01, 0.01, 0.01])  # sure of what no other candidate is like
    assert ranked(choice, choice, agreement)[0] == ranked(choice, choice, agreement, doubt=0.2)[0] == 0
    assert ranked(choice, choice, agreement, doubt=0.9)[0] == 1
    assert ranked(choice, choice, agreement, doubt=1.0)[0] == agreement.mean(axis=0).argmax()


def test_candidates_with_the_same_expectation_are_told_apart_by_the_choice() -> None:
    rows = np.arange(3000)
    few = np.where(rows < 2, 2, rows % 2)  # a cluster of two rows, which the index does not feel
    agreement = agreements([rows % 2, few, rows % 3])
    for choice in ([0.3, 0.4, 0.3], [0.4, 0.3, 0.3]):
        numbers = np.array([0.6, 0.2, 0.2])
        assert ranked(np.array(choice), numbers, agreement)[0] == int(np.argmax(choice))
