"""Splits: where they are tried, what they look like, and which of them convince."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.polish.evidence import Data, judge
from clusterwise.polish.splits import CUT_GAUSSIAN, SUSPICIOUS, best_split, convincing, divided, oddness


def unit(points: np.ndarray) -> Data:
    centred = points - points.mean(axis=0)
    return Data(centred / np.sqrt(np.square(centred).mean()))


def pair(apart: float, sizes: tuple[int, int], seed: int = 0) -> tuple[Data, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], sizes)
    points = rng.standard_normal((sum(sizes), 2))
    points[:, 0] += apart * labels
    return unit(points), np.eye(2)[labels].T.copy()


def test_what_a_cut_gaussian_loses_agrees_with_a_sample() -> None:
    sample = np.sort(np.random.default_rng(0).standard_normal(200_000))
    for place in (19, 99, 149):
        p = (place + 1) / (len(CUT_GAUSSIAN) + 1)
        left, right = np.split(sample, [int(p * len(sample))])
        gain = -0.5 * (p * np.log(left.var()) + (1 - p) * np.log(right.var())) + p * np.log(p)
        gain += (1 - p) * np.log(1 - p)
        assert CUT_GAUSSIAN[place] == pytest.approx(gain, abs=0.01)
    assert (CUT_GAUSSIAN < 0).all()
    np.testing.assert_allclose(CUT_GAUSSIAN, CUT_GAUSSIAN[::-1])


def test_gaussians_are_seldom_suspicious_and_other_shapes_always() -> None:
    rng = np.random.default_rng(1)
    weights = np.ones(500)
    normal = [oddness(rng.standard_normal((500, 2)), weights)[0] for _ in range(200)]
    # Chi-squared with two degrees of freedom beyond 9 has probability 0.011; four projections
    assert np.mean(np.array(normal) > SUSPICIOUS) < 0.13
    for _ in range(5):
        line = rng.standard_normal((500, 1)) + 0.3 * rng.standard_normal((500, 2))
        for points in (rng.uniform(size=(500, 2)), rng.standard_t(3, size=(500, 2)), line):
            assert oddness(points, weights)[0] > SUSPICIOUS


def test_weights_count_points() -> None:
    points = np.random.default_rng(2).gamma(2.0, size=(50, 3))
    twice = oddness(np.repeat(points, 2, axis=0), np.ones(100))[0]
    assert oddness(points, np.full(50, 2.0))[0] == pytest.approx(twice)


@pytest.mark.parametrize("sizes", [(100, 100), (190, 10), (199, 1)])
def test_best_split_finds_the_two_clusters(sizes: tuple[int, int]) -> None:
    data, truth = pair(8.0, sizes)
    split = best_split(data, judge(data, np.ones((1, 200)), 0.0), 0, 10)
    assert split is not None
    assert split.gain > 0
    found = split.parts.argmax(axis=0)
    assert (found == truth[0]).all() or (found == truth[1]).all()


def test_one_gaussian_is_not_split() -> None:
    for seed in range(10):
        data, _ = pair(0.0, (100, 100), seed)
        split = best_split(data, judge(data, np.ones((1, 200)), 0.0), 0, 10)
        assert split is None or split.gain < 0


def test_valleys_and_gaussian_parts_convince_and_halves_of_a_square_do_not() -> None:
    for apart in (2.5, 6.0):
        data, truth = pair(apart, (300, 300))
        assert convincing(data, truth, judge(data, truth, 0.0).hyper)
    data = unit(np.random.default_rng(3).uniform(size=(600, 2)))
    halves = np.stack([data.points[:, 0] < 0, data.points[:, 0] >= 0]) * 1.0
    assert not convincing(data, halves, judge(data, halves, 0.0).hyper)


def test_core_and_tails_do_not_convince() -> None:
    points = np.random.default_rng(4).standard_t(3, size=(600, 2))
    far = np.square(points).sum(axis=1) > 6
    data, parts = unit(points), np.stack([~far, far]) * 1.0
    assert not convincing(data, parts, judge(data, parts, 0.0).hyper)


def test_dividing_keeps_all_memberships_and_their_entropy() -> None:
    data, _ = pair(3.0, (150, 150))
    whole = judge(data, np.ones((1, 300)), 0.0)
    split = best_split(data, whole, 0, 10)
    assert split is not None
    state = divided(data, whole, [(0, split)])
    np.testing.assert_allclose(state.memberships.sum(axis=0), 1.0)
    entropy = -(state.memberships * np.log(np.maximum(state.memberships, 1e-300))).sum()
    assert state.entropy == pytest.approx(entropy, abs=1e-6)
