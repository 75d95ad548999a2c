"""Who belongs where, and who belongs nowhere, by the nearest rows."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.clusterer.assign import NeighbourAssigner
from clusterwise.clusterer.graph import neighbourhood_of
from clusterwise.clusterer.points import Projection


def assigner_of(points: np.ndarray, labels: np.ndarray) -> NeighbourAssigner:
    return NeighbourAssigner.of(Projection(), neighbourhood_of(points), np.eye(labels.max() + 1)[labels])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("copies", [1, 10])
def test_outlier_scores_of_rounded_rows(copies: int) -> None:
    """Most rows of a fine grid have copies; neither they nor their neighbours are outliers."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 300)
    points = np.round(rng.normal(size=(600, 2)) + 20 * labels[:, None])
    points, labels = points.repeat(copies, axis=0), labels.repeat(copies)
    assigner = assigner_of(points, labels)
    new = np.array([[0.0, 0.0], [20.0, 21.0], [-40.0, 0.0]])
    membership, scores = assigner.describe(np.concatenate([points, new]))
    assert np.isfinite(membership).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    assert np.mean(scores[:-3] > 0.5) < 0.05
    assert scores[-3] == scores[-2] == 0
    assert scores[-1] > 0.95


@pytest.mark.filterwarnings("error")
def test_outlier_scores_of_nothing_but_copies() -> None:
    labels = np.repeat([0, 1], 20)
    points = np.repeat([[0.0, 0.0], [3.0, 1.0]], 20, axis=0)
    scores = assigner_of(points, labels).describe(np.concatenate([points, [[1.0, 1.0]]]))[1]
    np.testing.assert_array_equal(scores, [0.0] * 40 + [1.0])
