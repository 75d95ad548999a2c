"""Proposers are callables from a graph to label vectors; nobody asks later which one it was."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.clusterer.graph import Graph, neighbour_graph
from clusterwise.clusterer.judges import Judges
from clusterwise.clusterer.proposers import PROPOSERS, _average_ranks, distinct, proposers_of
from clusterwise.exceptions import ClusterwiseError
from clusterwise.pretrained import get_parameters


def graph_of(points: np.ndarray) -> Graph:
    graph = neighbour_graph(points)
    judges = Judges(get_parameters("node-judge", "node-judge")[2], {})
    return replace(graph, trees=judges.score_trees(graph))


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("m", [8, 120])
def test_every_proposer_labels_every_row(name: str, m: int) -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((m, 3)) + 9 * rng.integers(0, 2, m)[:, None]
    proposed = list(PROPOSERS[name](graph_of(points)))
    assert proposed
    for labels in proposed:
        assert labels.shape == (m,) and labels.min() >= 0


def test_partitions_are_distinct_and_equal_rows_share_a_cluster() -> None:
    points = np.array([[0.0], [0.0], [1.0], [2.0]])
    names = np.array(["b", "b", "a", "a"])
    found = distinct(points, [np.array([0, 1, 2, 2]), names, np.array([-1, 5, 5, 5])])
    # They differ in nothing but names and in copies of one row.
    assert [labels.tolist() for labels in found] == [[0, 0, 0, 0], [0, 0, 1, 1]]


def test_a_proposer_of_ones_own_is_judged_like_ours() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    X = rng.standard_normal((300, 2)) + 10 * np.array([[0, 0], [1, 0], [0, 1]])[truth]
    seen: list[Graph] = []

    def by_angle(graph: Graph) -> Iterator[np.ndarray]:
        seen.append(graph)
        for k in (2, 3):
            yield cw.GaussianSearch().fit(graph.points).labels_ % k

    alone = cw.Clusterer(proposers=[by_angle], random_state=0).fit(X)
    assert alone.n_clusters_ == 3 and seen[0].points.shape == (300, 2)
    beside = cw.Clusterer(proposers=["tree-cuts", "communities", by_angle], random_state=0).fit(X)
    np.testing.assert_array_equal(beside.labels_, alone.labels_)


def test_what_is_no_proposer_or_proposes_nonsense() -> None:
    with pytest.raises(ClusterwiseError, match=r"'trees'.*neither a callable.*'tree-cuts'"):
        proposers_of(["trees"])
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(ClusterwiseError, match=r"shape \(5,\).*each of the 30 rows"):
        cw.Clusterer(proposers=[lambda graph: [np.zeros(5)]]).fit(X)
    assert cw.Clusterer(proposers=[lambda graph: []]).fit(X).n_clusters_ == 1


def test_levels_of_ranks_do_not_feel_skewed_columns_and_rows_far_out() -> None:
    rng = np.random.default_rng(3)
    truth = np.repeat([0, 1], 60)
    points = 6 * truth[:, None] + rng.standard_normal((120, 2))
    points[7] = 60.0
    plain, skewed = graph_of(points), graph_of(np.exp(points / 3))
    two = next(iter(PROPOSERS["rank-levels"](plain)))
    assert adjusted_rand_score(truth, two) > 0.9  # Ward's tree of the rows parts row 7 from the others
    assert adjusted_rand_score(truth, next(scored.tree for scored in plain.trees).level(2)) < 0.1
    np.testing.assert_allclose(_average_ranks(np.exp(points[:, 0])), rankdata(points[:, 0]))
    np.testing.assert_allclose(_average_ranks(np.round(points[:, 1])), rankdata(np.round(points[:, 1])))
    assert adjusted_rand_score(truth, next(iter(PROPOSERS["rank-levels"](skewed)))) > 0.9
