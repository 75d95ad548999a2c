from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from clusterwise.clusterer.cut import (
    best_cut,
    best_overlaps,
    decisions,
    labels_of_cut,
    values_below,
)
from clusterwise.clusterer.features import Nodes, measure, nodes_of
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.linkages import trees_of


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    points = np.random.default_rng(0).standard_normal((45, 2))
    near = neighbourhood_of(points)
    return nodes_of(measure(near), trees_of(near, ("ward",))[0])


def all_cuts(nodes: Nodes) -> list[tuple[int, ...]]:
    """All sets of disjoint nodes, of at most four."""
    rows = [set(nodes.tree.rows(int(node))) for node in nodes.nodes]
    return [
        cut
        for number in range(1, 5)
        for cut in combinations(range(len(rows)), number)
        if sum(len(rows[i]) for i in cut) == len(set().union(*(rows[i] for i in cut)))
    ]


def test_best_cut_of_all(nodes: Nodes) -> None:
    for seed in range(5):
        scores = np.random.default_rng(seed).random(len(nodes.nodes)) ** 3
        found = best_cut(nodes.sizes, nodes.children, scores)
        value = (nodes.sizes * scores)[found].sum()
        assert value >= max((nodes.sizes * scores)[list(cut)].sum() for cut in all_cuts(nodes)) - 1e-12
        below = values_below(nodes.sizes, nodes.children, scores)
        assert value == pytest.approx(max(45 * scores[0], 45 * below[0]))
        told = decisions(nodes.sizes, nodes.children, scores)
        np.testing.assert_array_equal(np.flatnonzero(told == 1), found)
        labels = labels_of_cut(nodes, found)
        assert [(labels == i).sum() for i in range(len(found))] == list(nodes.sizes[found])


def test_overlaps_against_sets(nodes: Nodes) -> None:
    truth = np.random.default_rng(1).integers(-1, 3, 45)
    found = best_overlaps(nodes, truth)
    for node, overlap in zip(nodes.nodes, found, strict=True):
        rows = {r for r in nodes.tree.rows(int(node)) if truth[r] >= 0}
        clusters = [set(np.flatnonzero(truth == c)) for c in range(3)]
        assert overlap == pytest.approx(max(len(rows & c) / len(rows | c) for c in clusters))
