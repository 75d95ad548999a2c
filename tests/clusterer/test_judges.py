"""From scores to an answer: P(K), and the candidate that can expect most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.clusterer.features import agreements, features_of_partition
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.clusterer.judges import PartitionScores, probabilities_of_k, rank, score_partitions


def scores_of(
    choice: list[float], numbers: list[float], agreement: np.ndarray, k: list[int]
) -> PartitionScores:
    ones = np.ones(len(choice))
    return PartitionScores(ones, np.array(choice), np.array(numbers), agreement, np.array(k), 0.0)


def test_probabilities_of_k_extend_to_similar_numbers() -> None:
    found = probabilities_of_k(np.array([0.5, 0.3, 0.2]), np.array([2, 20, 2]), spread=0.05, max_k=50)
    assert found.sum() == pytest.approx(1)
    assert found[1] == pytest.approx(0.7, abs=1e-3)  # 2 gives next to nothing to 1 and 3
    assert 0.05 < found[19] < 0.2 and found[18] > 0.02 and found[20] > 0.02
    exact = probabilities_of_k(np.array([0.25, 0.75]), np.array([3, 30]), spread=1e-4, max_k=50)
    assert exact[2] == pytest.approx(0.25) and exact[29] == pytest.approx(0.75)


def test_an_answer_between_likely_candidates_beats_the_likeliest() -> None:
    labels = np.array([[0] * 6 + [1] * 6, [0] * 3 + [1] * 9, [0] * 5 + [1] * 7, [0] * 7 + [1] * 5])
    agreement, choice = agreements(list(labels)), [0.2, 0.34, 0.23, 0.23]
    order = rank(scores_of(choice, choice, agreement, [2, 2, 2, 2]))
    assert sorted(order) == [0, 1, 2, 3]
    assert order[0] == (agreement @ np.array(choice)).argmax() != np.argmax(choice)


def test_the_networks_own_estimate_counts_as_much_as_agreement_with_likely_candidates() -> None:
    labels = [np.array([0] * 12), np.array([0] * 6 + [1] * 6), np.arange(12) % 3]
    scores = scores_of([0.55, 0.45, 0.0], [0.55, 0.45, 0.0], agreements(labels), [1, 2, 3])
    for gain, first in ((0.0, 0), (0.3, 1)):
        expected = np.array([0.5, 0.5 + gain, 0.0])
        assert rank(replace(scores, expected_ari=expected))[0] == first


def test_candidates_with_the_same_expectation_are_told_apart_by_the_choice() -> None:
    rows = np.arange(3000)
    few = np.where(rows < 2, 2, rows % 2)  # a cluster of two rows, which the index does not feel
    agreement = agreements([rows % 2, few, rows % 3])
    for choice in ([0.3, 0.4, 0.3], [0.4, 0.3, 0.3]):
        assert rank(scores_of(choice, [0.6, 0.2, 0.2], agreement, [2, 3, 3]))[0] == int(np.argmax(choice))


def test_a_higher_temperature_makes_p_of_k_flatter_and_changes_nothing_else() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 60)
    judges = cw.Clusterer()._judges()
    graph = neighbour_graph(4 * rng.standard_normal((3, 2))[truth] + rng.standard_normal((60, 2)))
    graph = replace(graph, trees=judges.score_trees(graph))
    candidates = [np.zeros(60, dtype=np.int64), truth, np.arange(60) % 2, np.arange(60) % 7]
    features = [features_of_partition(graph, labels) for labels in candidates]
    own = float(judges.partitions["temperature"])
    cold, usual, hot = (
        score_partitions(
            {**judges.partitions, "temperature": np.float32(temperature)}, features, agreements(candidates)
        )
        for temperature in (own / 2, own, 3 * own)
    )
    np.testing.assert_array_equal(np.argsort(cold.numbers), np.argsort(hot.numbers))
    assert cold.numbers.max() > usual.numbers.max() > hot.numbers.max() > 1 / len(candidates)
    for scores in (cold, hot):
        assert scores.numbers.sum() == pytest.approx(1.0)
        np.testing.assert_array_equal(scores.choice, usual.choice)
        np.testing.assert_array_equal(scores.expected_ari, usual.expected_ari)
