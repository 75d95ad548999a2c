"""Mergers and splits change the evidence by what they say, and find what is there."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from search_data import heaps, sample_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.gaussian.em import refined, state_of_labels
from clusterwise.gaussian.evidence import Hyper, Sample
from clusterwise.gaussian.mergers import gains_of_mergers, merged, mergers, near_pairs
from clusterwise.gaussian.settings import DEFAULT
from clusterwise.gaussian.shapes import log_p_gaussian, projections
from clusterwise.gaussian.splits import best_split, divided

MOST = DEFAULT.most_directions


def test_entropy_and_statistics_of_a_merger() -> None:
    points, labels = heaps([100, 100, 40], 3.0)
    sample = sample_of(points)
    state = refined(sample, state_of_labels(sample, labels))
    joined = merged(sample, state, [np.array([0, 1])])
    np.testing.assert_allclose(joined.statistics, joined.memberships @ sample.lifted)
    expected = -sum(float((m[m > 0] * np.log(m[m > 0])).sum()) for m in joined.memberships)
    assert joined.entropy == pytest.approx(expected, abs=1e-6)


def test_what_a_merger_gains() -> None:
    """Told beforehand from the statistics: about what it turns out to be, pooled variances apart."""
    points, labels = heaps([100, 100, 100], 3.0)
    sample = sample_of(points)
    cut = np.where((labels == 0) & (np.arange(300) % 2 == 0), 3, labels)  # halves of one cluster, mixed
    state = state_of_labels(sample, cut)
    pairs, gains = gains_of_mergers(sample, state)
    best = pairs[gains.argmax()]
    assert sorted(best) == [0, 3]
    joined = merged(sample, state, [best])
    assert joined.log_evidence - state.log_evidence == pytest.approx(gains.max(), rel=0.05)


@pytest.mark.parametrize("k", [1, 2, 4, 5, 9])
def test_near_pairs_have_all_neighbours(k: int) -> None:
    """Each cluster and its three nearest, whether distances were needed for it or not."""
    centres = 1.7 ** np.arange(k)  # no two gaps are equal
    sample, labels = Sample(np.zeros((1, 1)), "full", DEFAULT), np.repeat(np.arange(k), 3)
    points = centres[labels, None] + np.tile([-0.1, 0.0, 0.1], k)[:, None]
    statistics = sample.family.statistics(points, labels, k)
    found = near_pairs(sample, Hyper(0.01, np.full(1, 0.01), 72.0), statistics, 3)
    distances = np.abs(centres[:, None] - centres) + np.where(np.eye(k), np.inf, 0.0)
    near = {
        (min(i, j), max(i, j))
        for i in range(k)
        for j in np.argsort(distances[i], kind="stable")[: min(3, k - 1)]
    }
    assert sorted(map(tuple, found.tolist())) == sorted(near)


def test_fragments_come_together(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    fragments = labels * 3 + np.arange(len(labels)) % 3
    states = list(mergers(sample, state_of_labels(sample, fragments)))
    best = max(states, key=lambda state: state.log_evidence)
    assert adjusted_rand_score(labels, best.memberships.argmax(axis=0)) == 1.0


def test_projections_are_standardized_and_find_the_gap() -> None:
    """Two clusters apart in one of five features, whatever the data are mixed with."""
    points, labels = heaps([200, 200], 8.0, d=5)
    points = points @ np.random.default_rng(1).standard_normal((5, 5))
    projected = projections(points, np.ones(400), MOST)
    np.testing.assert_allclose(projected.mean(axis=1), 0.0, atol=1e-8)
    np.testing.assert_allclose(projected.var(axis=1), 1.0)
    agreement = [adjusted_rand_score(labels, row > 0) for row in projected]
    assert max(agreement) > 0.95


def test_a_tilted_gaussian_is_a_gaussian() -> None:
    """The test says so whatever the correlation is, and as often as it should."""
    n_odd = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((300, 2)) @ np.array([[1.0, 0.0], [4.0, 0.2]])
        projected = projections(points, np.ones(300), MOST)
        turned = projections(points @ stats.ortho_group.rvs(2, random_state=seed), np.ones(300), MOST)
        log_p = log_p_gaussian(projected, np.ones(300))
        assert log_p == pytest.approx(log_p_gaussian(turned, np.ones(300)), abs=2.0)
        n_odd += log_p < np.log(0.001)
    assert n_odd <= 12  # several tests each, and directions that were sought out


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize(("sizes", "gap"), [([100, 100], 4.0), ([150, 12], 7.0)])
def test_a_split_is_found(covariance_type, sizes: list[int], gap: float) -> None:
    points, labels = heaps(sizes, gap)
    sample = sample_of(points, covariance_type)
    state = state_of_labels(sample, np.zeros_like(labels))
    split = best_split(sample, state, 0)
    assert split is not None
    assert split.gain > 0
    after = refined(sample, divided(sample, state, [(0, split)]))
    assert after.log_evidence > state.log_evidence
    assert adjusted_rand_score(labels, after.memberships.argmax(axis=0)) > 0.85


def test_one_gaussian_has_no_split() -> None:
    points = np.random.default_rng(0).standard_normal((400, 3)) @ np.diag([3.0, 1.0, 0.1])
    sample = sample_of(points)
    state = state_of_labels(sample, np.zeros(400, dtype=np.int64))
    split = best_split(sample, state, 0)
    assert split is None or split.gain < 0


def test_parts_add_up(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    state = state_of_labels(sample, np.zeros_like(labels))
    split = best_split(sample, state, 0)
    assert split is not None
    np.testing.assert_allclose(split.parts.sum(axis=0), state.memberships[0])
    after = divided(sample, state, [(0, split)])
    np.testing.assert_allclose(after.statistics.sum(axis=0), state.statistics.sum(axis=0), atol=1e-9)
