"""What every assigner does alike: mixing weights of uneven samples, labels of many rows, outlier scores."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.fitting.protocol import Assigner, max_ordinary_distance, outlier_scores
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import PRIORS


def two_clusters() -> tuple[Clusters, np.ndarray, np.ndarray]:
    """Clusters of 300 and 100 points, which overlap a little, with their points and labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [300, 100])
    points = rng.normal(size=(400, 2)) + 4.0 * labels[:, None]
    prior = PRIORS["full"](0.1, 5.0, np.ones(2))
    return Clusters(prior, prior.statistics(points, labels, 2)), points, labels


def test_mixing_weights_follow_the_weights_of_the_rows() -> None:
    clusters, points, labels = two_clusters()
    weights = np.where(labels == 1, 9.0, 1.0)  # chosen with a ninth of their share
    found = clusters.with_mixing_weights(points, weights)
    np.testing.assert_allclose(found.proportions, [0.25, 0.75], atol=0.02)
    np.testing.assert_array_equal(found.means, clusters.means)  # what they look like stays
    even = clusters.with_mixing_weights(points, np.ones(400))
    np.testing.assert_allclose(even.proportions, clusters.proportions, atol=0.01)


class Halves(Assigner):
    """Tells points by the sign of their first feature; of these clusters no densities are known."""

    @property
    def n_clusters(self) -> int:
        return 2

    def memberships(self, points: np.ndarray) -> np.ndarray:
        return np.where(points[:, :1] > 0, [0.1, 0.9], [0.8, 0.2])

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        return np.full(len(points), 1 / n_rows)

    def select(self, clusters: np.ndarray) -> Halves:
        return self


def test_what_is_written_down_of_rows() -> None:
    points = np.array([[1.0], [-2.0], [3.0]])
    labels, probabilities, scores = Halves().assign(points, 4)
    np.testing.assert_array_equal(labels, [1, 0, 1])
    np.testing.assert_allclose(probabilities, [0.9, 0.8, 0.9], rtol=1e-6)
    np.testing.assert_array_equal(scores, [0.25] * 3)
    assert Halves().with_mixing_weights(points, np.ones(3)).n_clusters == 2


@pytest.mark.parametrize("d", [1, 2, 20])
def test_outlier_scores_are_those_of_the_farthest_of_n(d: int) -> None:
    """The farthest of n rows has a score that is uniform on [0, 1]; nearly all others have none."""
    rng, n = np.random.default_rng(d), 200
    distances = rng.chisquare(d, size=(500, n))
    scores = np.stack([outlier_scores(row, d, n) for row in distances])
    assert scores.max(axis=1).mean() == pytest.approx(0.5, abs=0.05)
    assert np.median(scores) < 1e-20
    assert outlier_scores(np.array([0.99 * max_ordinary_distance(d, n)]), d, n)[0] == 0
