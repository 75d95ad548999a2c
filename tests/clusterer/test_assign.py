"""Who belongs where, and who belongs nowhere, by judged rows and by Gaussians."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from clusterwise.clusterer.assign import (
    ByGaussians,
    ByNeighbours,
    WithJudgedRows,
    assigner_of,
    average_memberships,
)
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.neighbours import Projection


def by_neighbours(points: np.ndarray, labels: np.ndarray) -> ByNeighbours:
    return ByNeighbours.of(Projection(), neighbour_graph(points), np.eye(labels.max() + 1)[labels])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("copies", [1, 10])
def test_outlier_scores_of_rounded_rows(copies: int) -> None:
    """Most rows of a fine grid have copies; neither they nor their neighbours are outliers."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    points = np.round(rng.normal(size=(600, 2)) + 20 * labels[:, None])
    points, labels = points.repeat(copies, axis=0), labels.repeat(copies)
    new = np.array([[0.0, 0.0], [20.0, 21.0], [-40.0, 0.0]])
    found = by_neighbours(points, labels).assign(np.concatenate([points, new]), 600)
    scores = found.outlier_scores
    assert np.isfinite(found.probabilities).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.mean(scores[:-3] > 0.5) < 0.05
    assert scores[-3] == scores[-2] == 0
    assert scores[-1] > 0.95


@pytest.mark.filterwarnings("error")
def test_outlier_scores_of_nothing_but_copies() -> None:
    labels = np.repeat([0, 1], 20)
    points = np.repeat([[0.0, 0.0], [3.0, 1.0]], 20, axis=0)
    scores = by_neighbours(points, labels).outlier_scores(np.concatenate([points, [[1.0, 1.0]]]), 41)
    np.testing.assert_array_equal(scores, [0.0] * 40 + [1.0])


def test_judged_rows_keep_their_labels_and_copies_go_with_them() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 200)
    points = rng.standard_normal((200, 4)) + 5 * np.eye(4)[labels]
    wrong = rng.choice(200, 9, replace=False)
    labels[wrong] = (labels[wrong] + 1) % 3
    memberships = np.eye(3)[labels]
    found = assigner_of(points, neighbour_graph(points), Projection(), labels, memberships)
    assert isinstance(found, WithJudgedRows)
    np.testing.assert_array_equal(found.memberships(points).argmax(axis=1), labels)
    np.testing.assert_array_equal(found.assign(points[::-1], 200).labels, labels[::-1])
    nearby = found.memberships(points[wrong] + 1e-3).argmax(axis=1)
    assert (nearby != labels[wrong]).any()  # others are assigned by what is around them
    np.testing.assert_allclose(found.memberships(points).sum(axis=1), 1)
    turned = found.select(np.array([2, 0, 1]))
    np.testing.assert_array_equal(turned.memberships(points).argmax(axis=1), (labels + 1) % 3)


def test_gaussians_where_they_tell_the_labels_as_well() -> None:
    rng = np.random.default_rng(2)
    labels = np.repeat([0, 1], 150)
    blobs = rng.standard_normal((300, 2)) + 12 * labels[:, None]
    moons, halves = make_moons(300, noise=0.05, random_state=0)
    for points, known, kind in ((blobs, labels, ByGaussians), (moons, halves, ByNeighbours)):
        found = assigner_of(points, neighbour_graph(points), Projection(), known, np.eye(2)[known])
        assert isinstance(getattr(found, "others", found), kind)


def test_memberships_average_over_candidates_and_the_answer_is_largest() -> None:
    answer = np.repeat([0, 1], 10)
    other = np.r_[np.zeros(5, dtype=int), np.ones(15, dtype=int)]
    alone = average_memberships(answer, [answer], np.ones(1))
    np.testing.assert_allclose(alone, np.eye(2)[answer], atol=1e-9)
    both = average_memberships(answer, [answer, other], np.array([0.25, 0.75]))
    np.testing.assert_array_equal(both.argmax(axis=1), answer)
    assert both[0, 0] == pytest.approx(1) and both[7, 0] < 0.6
    np.testing.assert_allclose(both.sum(axis=1), 1)
