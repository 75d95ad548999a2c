"""Chains over rows in blocks: the posterior they leave unchanged, and the sums that they keep."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from exact import ExactPosterior, few_points, fixed
from sklearn.metrics import adjusted_rand_score

from clusterwise.dp.blocks import LocalBlocks, places_of
from clusterwise.dp.chain import run_chain
from clusterwise.dp.hyper import HyperPrior
from clusterwise.dp.partitioned import BlockMoves, Sample
from clusterwise.dp.state import State, statistics_of
from clusterwise.gaussian.sorted_rows import Rows


def moves_over(points: np.ndarray, lengths: list[int], sample: np.ndarray) -> BlockMoves:
    """Moves over blocks of these lengths, with rows (m,) in the sample."""
    edges = np.cumsum([0, *lengths])
    block_of, place_of = places_of(sample, lengths)
    blocks = LocalBlocks(
        [points[first:end] for first, end in pairwise(edges)],
        [place_of[block_of == number] for number in range(len(lengths))],
    )
    return BlockMoves(blocks, Sample(Rows(points[sample]), block_of, place_of), len(points))


def labels_of(moves: BlockMoves) -> np.ndarray:
    """Labels of all rows, with what the blocks have yet to be told."""
    return np.concatenate([moves.change.apply(block).labels for block in moves.blocks.states])


def set_labels(moves: BlockMoves, labels: np.ndarray) -> None:
    done = 0
    for block in moves.blocks.states:
        block.labels[:] = labels[done : done + len(block.labels)]
        done += len(block.labels)


@pytest.mark.parametrize(("move", "sample"), [("sweep", 5), ("anchored", 5), ("anchored", 3)])
def test_moves_leave_the_posterior_unchanged(move: str, sample: int) -> None:
    exact = ExactPosterior(few_points(5, 2), *fixed("full", 2))
    rng = np.random.default_rng(5)
    visits, n_moved = np.zeros(len(exact.partitions)), 0
    for _ in range(1800):
        before = exact.draw(rng)
        moves = moves_over(exact.rows.points, [2, 3], np.arange(sample))
        set_labels(moves, before.labels)
        if move == "sweep":
            after = moves._sweep(rng, before, exact.prior)
        else:
            after = replace(before, labels=before.labels[:sample])
            for _ in range(3):
                after = moves._split_or_merge(rng, after, exact.prior)
        labels = labels_of(moves)
        np.testing.assert_array_equal(labels[:sample], after.labels)
        after = replace(after, labels=labels.astype(np.int64))
        n_moved += exact.number(before) != exact.number(after)
        visits[exact.number(after)] += 1
    assert n_moved > 180  # a move that never moves would pass
    assert exact.total_variation(visits) < exact.noise(visits.sum(), rng)


@pytest.mark.parametrize("n_warm_up", [1, 9, 30])
def test_sums_and_the_sample_stay_those_of_the_labels(n_warm_up: int) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=1200)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    points = centres[truth] + rng.normal(size=(1200, 2)) * 0.5
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    sample = np.sort(rng.choice(1200, 300, replace=False))
    moves = moves_over(points, [500, 0, 300, 400], sample)
    prior = HyperPrior("full", 2)
    chain = run_chain(np.random.default_rng(1), moves, prior, "split-merge", n_warm_up, 5)
    state: State = chain.last
    labels = labels_of(moves)
    np.testing.assert_array_equal(labels[sample], state.labels)
    assert set(labels) == set(range(state.n_clusters))
    expected = statistics_of(
        Rows(points), labels.astype(np.int64), state.n_clusters, state.hyper.prior(prior)
    )
    np.testing.assert_allclose(state.statistics, expected, rtol=1e-9, atol=1e-9)
    if n_warm_up == 30:
        assert adjusted_rand_score(truth, labels) > 0.9


def test_rows_that_are_all_the_same() -> None:
    moves = moves_over(np.zeros((20, 2)), [10, 10], np.arange(20))
    chain = run_chain(np.random.default_rng(0), moves, HyperPrior("diag", 2), "split-merge", 6, 3)
    np.testing.assert_array_equal(labels_of(moves), chain.last.labels)
