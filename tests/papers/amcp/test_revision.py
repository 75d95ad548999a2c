"""Splits and merges after AMCP's loop: what is two becomes two, what is one stays one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from clusterwise.papers.amcp.revision import ClusterJudge, Decisions, GroupTruth, revise_partitions
from clusterwise.pretrained import get_weights
from tests.papers.amcp.samples import judge_of, on_a_line

JUDGE = judge_of(price=20.0)


class Revised(NamedTuple):
    labels: np.ndarray
    capped: bool
    decisions: Decisions


def revised(
    x: np.ndarray,
    labels: np.ndarray,
    judge: ClusterJudge,
    cap: int = 20,
    truth: np.ndarray | None = None,
    follows: bool = False,
) -> Revised:
    """What becomes of one data set, (n, d) and (n,)."""
    points, before = torch.from_numpy(x)[None], torch.from_numpy(labels)[None]
    known = None
    if truth is not None:
        known = GroupTruth(torch.from_numpy(truth)[None], torch.tensor([follows]))
    present = torch.ones_like(before, dtype=torch.bool)
    found, capped, decisions = revise_partitions(judge, points, present, before, cap, truth=known)
    parts = [torch.cat(part) for part in zip(*decisions, strict=True)] if decisions else [torch.empty(0)] * 4
    return Revised(found[0].numpy(), bool(capped[0]), Decisions(*parts))


@pytest.mark.parametrize("sizes", [(40, 40), (60, 15), (30, 30, 30), (200, 6)])
def test_two_clusters_in_one_are_split(sizes: tuple[int, ...]) -> None:
    x, labels = on_a_line(sizes)
    found = revised(x, np.maximum(labels - 1, 0), JUDGE).labels
    assert adjusted_rand_score(labels, found) == 1


def test_a_cluster_in_several_is_merged() -> None:
    x, labels = on_a_line((50, 40))
    found = revised(x, np.where(labels == 0, np.arange(len(labels)) % 3, 3), JUDGE).labels
    assert adjusted_rand_score(labels, found) == 1


def test_what_is_right_stays() -> None:
    x, labels = on_a_line((50, 6, 30))
    assert adjusted_rand_score(labels, revised(x, 2 * labels, JUDGE).labels) == 1  # names may have gaps


def test_the_judge_decides() -> None:
    x, labels = on_a_line((60, 60), apart=5.0)
    for price, k in ((20.0, 2), (1e6, 1)):
        for start in (labels, np.zeros_like(labels)):
            assert len(np.unique(revised(x, start, judge_of(price=price)).labels)) == k


def test_a_judge_may_have_to_be_surer() -> None:
    x, labels = (torch.from_numpy(array).expand(2, *array.shape) for array in on_a_line((60, 60), apart=5.0))
    present, thresholds = torch.ones_like(labels, dtype=torch.bool), torch.tensor([0.0, 100.0])
    found, *_ = revise_partitions(JUDGE, x, present, labels, 20, thresholds)
    assert [len(own.unique()) for own in found] == [2, 1]


def test_the_order_of_rows_does_not_matter() -> None:
    x, labels = on_a_line((50, 40, 20), apart=4.0)
    order = np.random.default_rng(0).permutation(len(x))
    found, shuffled = (revised(x[o], labels[o] // 2, JUDGE).labels for o in (np.arange(len(x)), order))
    assert adjusted_rand_score(found[order], shuffled) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_reflection_changes_nothing(seed: int) -> None:
    x, labels = on_a_line((60, 5, 30), apart=4.0, seed=seed)
    one, other = (revised(sign * x, np.zeros_like(labels), JUDGE).labels for sign in (1, -1))
    assert adjusted_rand_score(one, other) == 1


def test_no_more_clusters_than_allowed() -> None:
    x, labels = on_a_line((30,) * 6)
    always = judge_of(1.0)
    for start in (np.zeros_like(labels), labels):
        found = revised(x, start, always, 6)
        assert len(np.unique(found.labels)) <= 6
        assert found.capped
    assert not revised(x, labels, JUDGE, 6).capped


def test_no_split_is_tried_for_ever() -> None:
    """A judge that always says two would otherwise go on with parts that lose all their points."""
    x, labels = on_a_line((5,) * 30, apart=8.0)
    assert len(revised(x, labels, judge_of(1.0), 1000, labels).decisions.apart) < 400


def test_one_point_equal_points_and_constant_columns() -> None:
    for n in (1, 7):
        np.testing.assert_array_equal(revised(np.full((n, 2), 0.5), np.zeros(n, int), JUDGE).labels, 0)
    copies, pair = np.repeat([[0.0, 1.0], [1.0, 0.0]], 6, axis=0), np.repeat([0, 1], 6)
    np.testing.assert_array_equal(revised(copies, pair, JUDGE).labels, pair)
    x, labels = on_a_line((30, 30))
    x[:, 1] = 0
    assert adjusted_rand_score(labels, revised(x, np.zeros_like(labels), JUDGE).labels) == 1


@pytest.mark.parametrize("judge", [JUDGE, judge_of(1.0)])
def test_many_data_sets_together_come_out_as_alone(judge: ClusterJudge) -> None:
    """Of different sizes, one of them on a line; splits here, merges there, a cap that only some reach."""
    sizes = [(40, 40), (60, 15, 5), (30, 30, 30, 30), (90,), (1,), (25, 25)]
    sets = [on_a_line(own, apart=5.0, seed=i) for i, own in enumerate(sizes)]
    sets[5][0][:, 1] = 0
    n = max(len(labels) for _, labels in sets)
    x, starts = np.full((6, n, 2), 1e3), np.zeros((6, n), dtype=np.int64)
    for b, (own, labels) in enumerate(sets):
        x[b, : len(own)], starts[b, : len(own)] = own, (labels // 2) if b % 2 else np.zeros(len(own))
    present = torch.tensor([[i < sum(own) for i in range(n)] for own in sizes])
    found, capped, _ = revise_partitions(judge, torch.from_numpy(x), present, torch.from_numpy(starts), 3)
    for b, (own, _) in enumerate(sets):
        alone = revised(own, starts[b, : len(own)], judge, 3)
        assert adjusted_rand_score(alone.labels, found[b, : len(own)]) == 1
        assert alone.capped == capped[b]
    assert not capped[4]
    assert bool(capped.any()) == (judge is not JUDGE)


def test_the_truth_can_decide_and_is_kept() -> None:
    x, labels = on_a_line((50, 40, 30), apart=6.0)
    never = judge_of(-1.0)
    found, _, decisions = revised(x, np.zeros_like(labels), never, 20, labels, follows=True)
    assert adjusted_rand_score(labels, found) > 0.95
    assert len(decisions.evidence) == len(decisions.apart) == len(decisions.n_pairs) > 0
    assert decisions.apart.min() < 0.5 < decisions.apart.max()
    # The first decision is about all points: cut in two, most pairs of both parts are of two clusters.
    assert decisions.n_pairs[0] <= 60 * 60
    assert decisions.apart[0] > 0.5
    alone = revised(x, np.zeros_like(labels), never, 20, labels)
    assert alone.labels.max() == 0  # kept, but the judge decides


def test_shipped_judge_tells_one_from_two() -> None:
    judge = get_weights("amcp-2d").model.judge
    for sizes in ((300,), (150, 150), (200, 10), (100, 100, 100)):
        x, labels = on_a_line(sizes, apart=6.0, seed=3)
        for start in (labels, np.zeros_like(labels)):
            assert len(np.unique(revised(x, start, judge).labels)) == len(sizes)
