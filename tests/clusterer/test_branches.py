from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from clusterwise.clusterer.branches import (
    N_RANGE_FEATURES,
    Branches,
    ClusterTree,
    OrderedRows,
    ScoredTree,
    best_cut,
    best_overlaps,
    measure_branches,
    values_below,
)
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.clusterer.trees import LINKAGES, trees_of
from clusterwise.neighbours import standardized

ROOM = 39


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((45, 2))


@pytest.fixture(scope="module")
def branches(points: np.ndarray) -> Branches:
    return branches_of(points)


def branches_of(points: np.ndarray, kind: str = "ward") -> Branches:
    graph = neighbour_graph(points)
    return measure_branches(graph, trees_of(graph, (kind,))[0])


def heaps(seed: int = 0, f: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((150, f)) + 8 * rng.integers(0, 3, 150)[:, None]


@pytest.mark.parametrize("kind", LINKAGES)
@pytest.mark.parametrize("f", [1, 2, 12])
def test_finite_whatever_the_features(kind: str, f: int) -> None:
    found = branches_of(heaps(f=f), kind)
    assert np.isfinite(found.features).all()
    assert found.sizes[0] == 150
    for i, parent in enumerate(found.parents[1:], start=1):
        assert parent < i and i in found.children[parent]


@pytest.mark.parametrize("change", ["scale", "shift", "turn"])
def test_neither_units_nor_rotations_matter(change: str) -> None:
    points = heaps()
    turned = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0]
    other = {"scale": 37 * points, "shift": points + 5, "turn": points @ turned}[change]
    if change == "scale":
        points, other = standardized(points), standardized(other)
    found = [branches_of(one).features for one in (points, other)]
    if change == "turn":  # the spread that ROOM is told in is that of the widest column
        found = [np.delete(features, ROOM, axis=1) for features in found]
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)


def test_the_order_of_the_rows_does_not_matter() -> None:
    points = heaps()
    by_size = []
    for rows in (np.arange(150), np.random.default_rng(6).permutation(150)):
        features = branches_of(points[rows]).features
        by_size.append(features[np.lexsort(features.T[:4])])
    # The halves of a branch may change sides, which no feature tells; only rounding is left.
    np.testing.assert_allclose(by_size[0][:, :8], by_size[1][:, :8], atol=1e-8)


def ranges_of(points: np.ndarray, order: np.ndarray, segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ordered = OrderedRows(neighbour_graph(points), order)
    edges = ordered.edges(segments)
    return ordered.ranges(segments, edges), ordered.splits(segments, edges)


def test_ranges_against_the_obvious() -> None:
    points = heaps()
    graph = neighbour_graph(points)
    labels = (points[:, 0] > points[:, 0].mean()).astype(int)
    order = np.argsort(labels, kind="stable")
    middle = int((labels == 0).sum())
    features, _ = ranges_of(points, order, np.array([[0, middle, middle, middle], [middle, 150, 150, 150]]))
    assert features.shape == (2, N_RANGE_FEATURES)
    for c in (0, 1):
        mine = labels == c
        inside = labels[graph.neighbours[mine]] == c
        assert features[c, 1] == pytest.approx(mine.mean())
        assert features[c, 4] == pytest.approx(inside.mean())
        assert features[c, 8] == pytest.approx(graph.log_core[mine].mean() - graph.log_core.mean())


def test_halves_need_not_stand_side_by_side() -> None:
    rows = np.array_split(np.random.default_rng(7).permutation(150), 3)
    _, apart = ranges_of(heaps(), np.concatenate(rows), np.array([[0, 50, 100, 150]]))
    other = np.concatenate([rows[0], rows[2], rows[1]])
    _, together = ranges_of(heaps(), other, np.array([[0, 50, 50, 100]]))
    np.testing.assert_allclose(apart, together, atol=1e-9)


def all_cuts(branches: Branches) -> list[tuple[int, ...]]:
    """All sets of disjoint nodes, of at most four."""
    rows = [set(branches.tree.rows(int(node))) for node in branches.nodes]
    return [
        cut
        for number in range(1, 5)
        for cut in combinations(range(len(rows)), number)
        if sum(len(rows[i]) for i in cut) == len(set().union(*(rows[i] for i in cut)))
    ]


def test_best_cut_of_all(points: np.ndarray, branches: Branches) -> None:
    for seed in range(5):
        scores = np.random.default_rng(seed).random(len(branches.nodes)) ** 3
        found = best_cut(branches.sizes, branches.children, scores)
        value = (branches.sizes * scores)[found].sum()
        assert value >= max((branches.sizes * scores)[list(cut)].sum() for cut in all_cuts(branches)) - 1e-12
        below = values_below(branches.sizes, branches.children, scores)
        assert value == pytest.approx(max(45 * scores[0], 45 * below[0]))
        labels = ScoredTree(branches, scores, below).best_partition(points)
        for label, node in enumerate(branches.nodes[found]):
            assert (labels[branches.tree.rows(int(node))] == label).all()
        assert labels.min() == 0 and labels.max() == len(found) - 1


def test_overlaps_against_sets(branches: Branches) -> None:
    truth = np.random.default_rng(1).integers(-1, 3, 45)
    found = best_overlaps(branches, truth)
    for node, overlap in zip(branches.nodes, found, strict=True):
        rows = {r for r in branches.tree.rows(int(node)) if truth[r] >= 0}
        clusters = [set(np.flatnonzero(truth == c)) for c in range(3)]
        assert overlap == pytest.approx(max(len(rows & c) / len(rows | c) for c in clusters))


def test_the_tree_of_an_answer_names_the_branches_that_are_its_clusters(branches: Branches) -> None:
    cut = best_cut(branches.sizes, branches.children, np.linspace(0, 1, len(branches.nodes)))
    labels = np.zeros(45, dtype=np.int64)
    for label, node in enumerate(branches.nodes[cut]):
        labels[branches.tree.rows(int(node))] = label
    scored = ScoredTree(branches, np.zeros(len(branches.nodes)), np.zeros(len(branches.nodes)))
    found = ClusterTree.of(scored, labels)
    covered = np.concatenate([branches.tree.rows(int(node)) for node in branches.nodes[cut]])
    if len(covered) == 45:
        np.testing.assert_array_equal(found.chosen, cut)
        np.testing.assert_allclose(found.overlaps, 1)
