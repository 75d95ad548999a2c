"""Every move leaves the enumerated posterior unchanged, and keeps codes, sums and labels in step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact import ExactPosterior, codes_of, few_points, fixed, rows_of, state_of_labels

from clusterwise.dp import exact_moves
from clusterwise.dp.exact_moves import Anchors, draw_categories, gibbs_sweep, split_or_merge, sweep
from clusterwise.dp.state import State
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.rows import sorted_rows
from clusterwise.rows.blocks import ChainRows
from clusterwise.rows.sorted_rows import Rows

COVARIANCES = ("full", "diag", "spherical")
MOVES = {
    "sweep": sweep,
    "split or merge": split_or_merge,
    "gibbs": lambda rng, rows, state, prior: gibbs_sweep(rng, rows.sample, state, prior),
}
CASES = [
    *[(move, kind, (), 5) for move in MOVES for kind in COVARIANCES],
    ("sweep", "full", (2, 3), 3),
    ("split or merge", "full", (2, 3), 5),
    ("split or merge", "full", (2, 3), 3),
]


@pytest.mark.parametrize(("move", "covariance_type", "lengths", "n_sample"), CASES)
def test_move_leaves_the_posterior_unchanged(move, covariance_type, lengths, n_sample) -> None:
    """Draws from the posterior, moved a little, are independent draws from the posterior."""
    exact = ExactPosterior(few_points(5, 2), *fixed(covariance_type, 2))
    rng = np.random.default_rng([5, COVARIANCES.index(covariance_type)])
    visits, n_moved = np.zeros(len(exact.partitions)), 0
    for _ in range(1800):
        before = exact.draw(rng)
        rows = rows_of(exact.points, before.labels, lengths, np.arange(n_sample))
        after = replace(before, labels=before.labels[:n_sample])
        for _ in range(3 if move == "split or merge" else 1):
            after = MOVES[move](rng, rows, after, exact.prior)
        labels = after.labels if move == "gibbs" else codes_of(rows) >> 1
        np.testing.assert_array_equal(labels[:n_sample], after.labels)
        n_moved += exact.number(before.labels) != exact.number(labels)
        visits[exact.number(labels)] += 1
    assert n_moved > 180  # a move that never moves would pass
    assert exact.total_variation(visits) < exact.noise(visits.sum(), rng)


def blobs(n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = np.array([[-1.5, 0.0], [1.0, 1.0], [1.0, -1.0]])
    return centres[rng.integers(3, size=n)] + 0.1 * rng.normal(size=(n, 2))


def assert_in_step(state: State, labels: np.ndarray, points: np.ndarray, prior: NormalInverseWishart) -> None:
    """The statistics are those of labels (n,) of all points, and no cluster is empty."""
    afresh = statistics_of(Rows(points), labels.astype(np.int64), state.n_clusters, prior)
    np.testing.assert_allclose(state.statistics, afresh, rtol=1e-9, atol=1e-8)
    assert set(labels.tolist()) == set(range(state.n_clusters))


@pytest.mark.parametrize("covariance_type", COVARIANCES)
@pytest.mark.parametrize(("lengths", "chunk"), [((), 10**6), ((), 20 * 16), ((100, 0, 200), 20 * 16)])
def test_moves_keep_everything_in_step(covariance_type, lengths, chunk, monkeypatch) -> None:
    monkeypatch.setattr(sorted_rows, "CHUNK", chunk)
    points, rng = blobs(), np.random.default_rng(1)
    hyper, hyper_prior = fixed(covariance_type, 2)
    prior = hyper.prior(hyper_prior)
    state = state_of_labels(points, rng.integers(5, size=len(points)), hyper, hyper_prior)
    sample = np.arange(300) if lengths == () else np.sort(rng.choice(300, 90, replace=False))
    rows = rows_of(points, state.labels, lengths, sample)
    state, seen = replace(state, labels=state.labels[sample]), set()
    for _ in range(10):
        for move in [sweep] + [split_or_merge] * 5:
            state = move(rng, rows, state, prior)
            labels = codes_of(rows) >> 1
            np.testing.assert_array_equal(labels[sample], state.labels)
            assert_in_step(state, labels, points, prior)
        seen.add(state.n_clusters)
    assert len(seen) > 1
    if lengths == ():
        state = gibbs_sweep(rng, rows.sample, state, prior)
        assert_in_step(state, state.labels, points, prior)


def heap(gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (40, 2) of two round clusters in a row, and labels of the left and the right half."""
    points = 0.2 * np.random.default_rng(0).normal(size=(40, 2))
    points[20:, 0] += gap
    return (points - points.mean(axis=0))[np.argsort(points[:, 0])], np.repeat([0, 1], 20)


def share_of_two(points: np.ndarray, labels: np.ndarray, alpha: float, monkeypatch) -> float:
    """How often the clusters of the first and the last point are two after one proposal."""
    hyper, hyper_prior = fixed("full", 2, alpha)
    prior, rng = hyper.prior(hyper_prior), np.random.default_rng(2)
    monkeypatch.setattr(exact_moves, "draw_anchors", lambda rng, rows: Anchors(0, 39, None, 8))
    state, n_two = state_of_labels(points, labels, hyper, hyper_prior), 0
    for _ in range(300):
        rows = ChainRows.in_memory(Rows(points), state.labels)
        n_two += split_or_merge(rng, rows, state, prior).n_clusters == 2
    return n_two / 300


@pytest.mark.parametrize("n_before", [1, 2])
def test_clusters_apart_are_split_and_halves_of_one_are_merged(n_before: int, monkeypatch) -> None:
    """The sign of the acceptance test: from one cluster and from two."""
    for gap, expected in ((3.0, 1.0), (0.0, 0.0)):
        points, halves = heap(gap)
        found = share_of_two(points, halves if n_before == 2 else 0 * halves, 0.05, monkeypatch)
        assert abs(found - expected) < 0.05


@pytest.mark.parametrize("n_before", [1, 2])
def test_a_larger_alpha_means_more_clusters(n_before: int, monkeypatch) -> None:
    """In the Hastings ratio of a split alpha is a factor, of a merge a divisor."""
    points, halves = heap(0.8)
    labels = halves if n_before == 2 else 0 * halves
    found = [share_of_two(points, labels, alpha, monkeypatch) for alpha in (0.03, 1.0)]
    assert found[0] + 0.3 < found[1]


def test_splits_and_merges_are_in_balance(monkeypatch) -> None:
    """From the posterior as many splits as merges happen: the ratio has the probability of the proposal."""
    points = 0.3 * np.random.default_rng(4).normal(size=(5, 2))
    exact = ExactPosterior(points, *fixed("diag", 2, 3.0))
    monkeypatch.setattr(exact_moves, "draw_anchors", lambda rng, rows: Anchors(0, 4, None, 2))
    rng, flows = np.random.default_rng(3), {1: 0.0, 2: 0.0}
    for labels, probability in zip(exact.partitions, exact.probabilities, strict=True):
        k = max(labels) + 1
        if k == 1 or (k == 2 and labels[0] != labels[4]):
            before, n = exact.state(labels), 2000 if k == 1 else 400
            rows = [rows_of(points, before.labels) for _ in range(n)]
            moved = [split_or_merge(rng, one, before, exact.prior) for one in rows]
            flows[k] += probability * sum(after.n_clusters != k for after in moved) / n
    assert flows[1] == pytest.approx(flows[2], rel=0.2)


def test_categories_follow_their_probabilities() -> None:
    probabilities = np.array([0.5, 0.0, 0.2, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.repeat(np.log(probabilities)[None] + 700.0, 40_000, axis=0)
    drawn = np.bincount(draw_categories(np.random.default_rng(0), logits), minlength=4) / 40_000
    assert drawn[1] == 0
    np.testing.assert_allclose(drawn, probabilities, atol=5 * 0.5 / np.sqrt(40_000))
