"""A second look at each cluster: what it divides, what it leaves alone, and where the names go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterwise.pipeline.propose import Proposal
from clusterwise.pipeline.zoom import SMALLEST_CLUSTER, ZoomProposer


class Halves:
    """Divides a data set at a place of its first feature, and keeps what it was shown."""

    def __init__(self, place: float) -> None:
        self.place = place
        self.seen: list[np.ndarray] = []

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        self.seen += sets
        labels = [np.unique(points[:, 0] > self.place, return_inverse=True)[1] for points in sets]
        return [Proposal((of_set,), np.ones(1)) for of_set in labels]


def heaps(*places: float, n: int = 30) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal([place, 0.0], 0.01, (n, 2)) for place in places])


def test_clusters_are_seen_by_themselves_and_at_their_own_scale() -> None:
    parts = Halves(0.0)
    points = heaps(-5.0, -4.0, 4.0, 5.0)
    (proposal,) = ZoomProposer(Halves(0.0), parts).propose([points], [0], 0)
    zoomed, own = proposal.candidates
    np.testing.assert_array_equal(own, np.repeat([0, 0, 1, 1], 30))
    np.testing.assert_array_equal(zoomed, np.repeat([0, 2, 1, 3], 30))
    for seen in parts.seen:
        np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.square(seen).mean(), 1)
    np.testing.assert_allclose(proposal.weights, 0.5)


def test_few_points_and_equal_points_are_left_alone() -> None:
    parts = Halves(0.0)
    points = np.concatenate([heaps(-5.0, n=SMALLEST_CLUSTER - 1), np.ones((40, 2))])
    (proposal,) = ZoomProposer(Halves(0.0), parts).propose([points], [0], 0)
    assert parts.seen == []
    np.testing.assert_array_equal(*proposal.candidates)


def test_each_set_for_itself() -> None:
    zoom = ZoomProposer(Halves(0.0), Halves(0.0))
    sets = [heaps(-5.0, -4.0, 4.0), heaps(1.0, 2.0), heaps(3.0, n=5)]
    together = zoom.propose(sets, [0, 1, 2], 0)
    for points, proposal in zip(sets, together, strict=True):
        (alone,) = zoom.propose([points], [0], 0)
        np.testing.assert_array_equal(alone.candidates[0], proposal.candidates[0])
