"""Polishing: planted clusters from any start, odd shapes left whole, odd data, what is reported."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.exceptions import InvalidDataError
from clusterwise.mixture import merge_indistinct, mixture_from_labels, refine
from clusterwise.polish import Polished, polish
from clusterwise.priors.crp import ChineseRestaurantMixture
from clusterwise.priors.gaussians import MixtureOfGaussians


def scaled(points: np.ndarray) -> np.ndarray:
    """Centre the points and bring them to unit spread."""
    centred = points - points.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean())
    return centred / (spread if spread > 0 else 1.0)


def planted(seed: int, sizes: tuple[int, ...], d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clusters of standard deviation one, at least ten apart."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    means = 10.0 * np.array([[(j * (i + 1)) % 5 for i in range(d)] for j in range(len(sizes))])
    return scaled(means[labels] + rng.standard_normal((len(labels), d))), labels


def labels_of(points: np.ndarray, polished: Polished) -> np.ndarray:
    return polished.mixture.memberships(points).argmax(axis=1)


# -- what is found -----------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["truth", "one cluster", "fragments", "two fused"])
@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_finds_planted_clusters_from_any_start(start: str, d: int) -> None:
    points, labels = planted(3, (80, 40, 120, 20), d)
    rng = np.random.default_rng(0)
    candidate = {
        "truth": labels,
        "one cluster": np.zeros_like(labels),
        "fragments": 3 * labels + rng.integers(3, size=len(labels)),
        "two fused": np.where(labels == 3, 2, labels),
    }[start]
    assert adjusted_rand_score(labels, labels_of(points, polish(points, [candidate], 10))) == 1.0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_finds_a_tiny_group_that_a_cluster_hides(size: int) -> None:
    points, labels = planted(1, (100, size))
    assert adjusted_rand_score(labels, labels_of(points, polish(points, [0 * labels], 10))) == 1.0


@pytest.mark.parametrize(
    ("shape", "seed"),
    [(shape, seed) for shape in ("gaussian", "uniform", "t", "line", "banana") for seed in (0, 1)],
)
def test_leaves_one_odd_shape_whole(shape: str, seed: int) -> None:
    rng = np.random.default_rng([5, seed])
    normal = rng.standard_normal((400, 2))
    points = {
        "gaussian": normal,
        "uniform": rng.uniform(size=(400, 2)),
        "t": rng.standard_t(5, size=(400, 2)),
        "line": np.stack([normal[:, 0], 0.9 * normal[:, 0] + 0.44 * normal[:, 1]], axis=1),
        "banana": np.stack([normal[:, 0], 0.5 * normal[:, 1] + 0.5 * np.square(normal[:, 0])], axis=1),
    }[shape]
    assert polish(scaled(points), [np.zeros(400, dtype=int)], 10).mixture.n_clusters == 1


def test_beats_merging_by_message_length_where_clusters_are_tiny() -> None:
    """From the truth, on Chinese restaurant mixtures: fewer errors in the number of clusters."""
    errors = np.zeros(2)
    for seed in range(25):
        drawn = ChineseRestaurantMixture(k_exact=6).draw_set(np.random.default_rng([71, seed]), 400)
        points, labels = scaled(drawn.points), np.unique(drawn.labels, return_inverse=True)[1]
        merged = merge_indistinct(points, refine(points, mixture_from_labels(points, labels), 10), 10)
        found = [merged.n_clusters, polish(points, [labels], 10).mixture.n_clusters]
        errors += np.abs(np.array(found) - drawn.n_clusters)
    assert errors[1] < errors[0] - 4


def test_one_cluster_is_start_enough_for_mixtures_of_gaussians() -> None:
    """No more below the oracle's partition on average than 0.03, from no information at all."""
    gaps = []
    for seed in range(20):
        rng = np.random.default_rng([72, seed])
        drawn = MixtureOfGaussians(k_max=4).draw_set(rng, 500)
        points = scaled(drawn.points)
        found = labels_of(points, polish(points, [np.zeros(500, dtype=int)], 10))
        oracle = adjusted_rand_score(drawn.labels, drawn.oracle_labels())
        gaps.append(oracle - adjusted_rand_score(drawn.labels, found))
    assert np.mean(gaps) < 0.03


# -- what is reported --------------------------------------------------------------------------------


def test_mixtures_are_distinct_and_ranked_and_give_a_posterior_of_k() -> None:
    rng = np.random.default_rng(4)
    labels = np.repeat([0, 1], 60)
    points = scaled(np.stack([4.0 * labels, 0 * labels], axis=1) + rng.standard_normal((120, 2)))
    polished = polish(points, [labels, 0 * labels], 10)
    evidences = [one.log_evidence for one in polished.scored]
    assert evidences == sorted(evidences, reverse=True)
    assert polished.best is polished.scored[0]
    assert len({(one.mixture.n_clusters, round(one.log_evidence, 1)) for one in polished.scored}) == len(
        evidences
    )
    found = {one.mixture.n_clusters for one in polished.scored}
    assert {1, 2} <= found  # the path that was not chosen is there too


def test_equal_candidates_count_once_and_names_of_labels_do_not_matter() -> None:
    points, labels = planted(2, (50, 30, 20))
    once = polish(points, [labels], 10)
    again = polish(points, [labels, (labels + 7) * 3, labels[::1]], 10)
    assert [one.log_evidence for one in again.scored] == [one.log_evidence for one in once.scored]


def test_more_candidates_never_lower_the_evidence() -> None:
    points, labels = planted(6, (50, 30, 20))
    rng = np.random.default_rng(0)
    bad = [rng.integers(4, size=100) for _ in range(2)]
    assert polish(points, [*bad, labels], 10).best.log_evidence >= polish(points, bad, 10).best.log_evidence


def test_order_of_rows_does_not_matter() -> None:
    drawn = MixtureOfGaussians(k_max=6).draw_set(np.random.default_rng(8), 400)
    points, order = scaled(drawn.points), np.random.default_rng(9).permutation(400)
    one, other = (polish(x, [np.zeros(400, dtype=int)], 10) for x in (points, points[order]))
    assert one.best.log_evidence == pytest.approx(other.best.log_evidence, abs=1e-6)
    assert adjusted_rand_score(labels_of(points, one)[order], labels_of(points[order], other)) == 1.0


# -- odd data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("d", [1, 3])
def test_few_points_are_one_cluster_even_if_each_comes_as_its_own(n: int, d: int) -> None:
    points = scaled(np.random.default_rng(n).standard_normal((n, d)))
    for candidate in (np.zeros(n, dtype=int), np.arange(n)):
        assert polish(points, [candidate], 10).mixture.n_clusters == 1


def test_constant_data_are_one_cluster() -> None:
    found = polish(np.zeros((30, 2)), [np.arange(30)], 10).mixture
    assert found.n_clusters == 1
    assert (found.variances > 0).all()


def test_a_constant_column_changes_nothing() -> None:
    points, labels = planted(2, (50, 30), 1)
    wide = np.concatenate([points, np.zeros((80, 1))], axis=1)
    assert adjusted_rand_score(labels, labels_of(wide, polish(wide, [0 * labels], 10))) == 1.0


def test_duplicates_keep_their_clusters() -> None:
    places = np.array([[0.0, 0.0], [1.0, 3.0], [5.0, 1.0]])
    labels = np.repeat(np.arange(3), 20)
    points = scaled(places[labels])
    found = polish(points, [labels], 10)
    assert adjusted_rand_score(labels, labels_of(points, found)) == 1.0
    assert np.isfinite(found.best.log_evidence)


def test_a_far_outlier_does_not_break_anything() -> None:
    points = np.concatenate([np.random.default_rng(0).standard_normal((200, 2)), [[1e6, 1e6]]])
    found = polish(scaled(points), [np.zeros(201, dtype=int)], 10)
    assert np.bincount(labels_of(scaled(points), found)).min() == 1
    assert found.mixture.n_clusters == 2


def test_without_steps_of_em_the_candidate_is_scored_too() -> None:
    points, labels = planted(2, (50, 30))
    assert adjusted_rand_score(labels, labels_of(points, polish(points, [labels], 0))) == 1.0


@pytest.mark.parametrize("candidates", [[], [np.zeros(3, dtype=int)]])
def test_candidates_must_fit_the_points(candidates: list[np.ndarray]) -> None:
    with pytest.raises(InvalidDataError, match="candidates"):
        polish(np.zeros((4, 2)), candidates, 10)
