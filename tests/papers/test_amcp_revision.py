"""Splits and merges after AMCP's loop: what is two becomes two, what is one stays one."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.papers.amcp_gaussians import Perceptron, Perceptrons
from clusterwise.papers.amcp_revision import N_EVIDENCE, revised
from clusterwise.pretrained import get_weights
from tests.papers.test_amcp_gaussians import PLAIN, constant


def with_price(price: float) -> Perceptrons:
    """Two clusters if the log-likelihood gains more than a price; the first number that the judge sees."""
    first = np.zeros((2, N_EVIDENCE))
    first[:, 0] = 1.0, -1.0
    threshold = np.log1p(price) - 2.5
    judge = Perceptron(
        first, np.zeros(2), np.eye(2), np.zeros(2), np.array([[1.0, -1.0]]), np.array([-threshold])
    )
    return PLAIN._replace(judge=judge)


JUDGE = with_price(20.0)


def clusters(sizes: tuple[int, ...], apart: float = 8.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Round clusters of these sizes on a line, ``apart`` standard deviations from each other."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.standard_normal((len(labels), 2))
    x[:, 0] += apart * labels
    return (x - x.mean(0)) / x.std(), labels


@pytest.mark.parametrize("sizes", [(40, 40), (60, 15), (30, 30, 30), (200, 6)])
def test_two_clusters_in_one_are_split(sizes: tuple[int, ...]) -> None:
    x, labels = clusters(sizes)
    found, *_ = revised(x, np.maximum(labels - 1, 0), JUDGE, 20)
    assert adjusted_rand_score(labels, found) == 1


def test_a_cluster_in_several_is_merged() -> None:
    x, labels = clusters((50, 40))
    found, *_ = revised(x, np.where(labels == 0, np.arange(len(labels)) % 3, 3), JUDGE, 20)
    assert adjusted_rand_score(labels, found) == 1


def test_what_is_right_stays() -> None:
    x, labels = clusters((50, 6, 30))
    found, *_ = revised(x, 2 * labels, JUDGE, 20)  # names may have gaps
    np.testing.assert_array_equal(found, labels)


def test_the_judge_decides() -> None:
    x, labels = clusters((60, 60), apart=5.0)
    for price, k in ((20.0, 2), (1e6, 1)):
        for start in (labels, np.zeros_like(labels)):
            assert revised(x, start, with_price(price), 20)[0].max() + 1 == k


def test_the_order_of_rows_does_not_matter() -> None:
    x, labels = clusters((50, 40, 20), apart=4.0)
    order = np.random.default_rng(0).permutation(len(x))
    found, shuffled = (revised(x[o], labels[o] // 2, JUDGE, 20)[0] for o in (np.arange(len(x)), order))
    assert adjusted_rand_score(found[order], shuffled) == 1


def test_no_more_clusters_than_allowed() -> None:
    x, labels = clusters((30,) * 6)
    always = PLAIN._replace(judge=constant(N_EVIDENCE, 1.0))
    for start in (np.zeros_like(labels), labels):
        assert len(np.unique(revised(x, start, always, 6).labels)) <= 6
        assert revised(x, start, always, 6).capped
    assert not revised(x, labels, JUDGE, 6).capped


def test_no_split_is_tried_for_ever() -> None:
    """A judge that always says two would otherwise go on with parts that lose all their points."""
    x, labels = clusters((5,) * 30, apart=8.0)
    always = PLAIN._replace(judge=constant(N_EVIDENCE, 1.0))
    found = revised(x, labels, always, 1000, labels)
    assert len(found.decisions.apart) < 400
    assert len(np.unique(found.labels)) == found.labels.max() + 1


@pytest.mark.parametrize("seed", range(3))
def test_a_reflection_changes_nothing(seed: int) -> None:
    x, labels = clusters((60, 5, 30), apart=4.0, seed=seed)
    one, other = (revised(sign * x, np.zeros_like(labels), JUDGE, 20).labels for sign in (1, -1))
    assert adjusted_rand_score(one, other) == 1


def test_one_point_equal_points_and_constant_columns() -> None:
    for n in (1, 7):
        np.testing.assert_array_equal(revised(np.full((n, 2), 0.5), np.zeros(n, int), JUDGE, 5)[0], 0)
    x, labels = clusters((30, 30))
    x[:, 1] = 0
    found, *_ = revised(x, np.zeros_like(labels), JUDGE, 20)
    assert adjusted_rand_score(labels, found) == 1


def test_the_truth_can_decide_and_is_kept() -> None:
    x, labels = clusters((50, 40, 30), apart=6.0)
    never = PLAIN._replace(judge=constant(N_EVIDENCE, -1.0))
    found, _, decisions = revised(x, np.zeros_like(labels), never, 20, labels, follow_truth=True)
    assert adjusted_rand_score(labels, found) > 0.95
    assert len(decisions.evidence) == len(decisions.apart) == len(decisions.n_pairs) > 0
    assert decisions.apart.min() < 0.5
    assert decisions.apart.max() > 0.5
    # The first decision is about all points: cut in two, most pairs of both parts are of two clusters.
    assert decisions.n_pairs[0] <= 60 * 60
    assert decisions.apart[0] > 0.5
    alone, *_ = revised(x, np.zeros_like(labels), never, 20, labels)
    assert alone.max() == 0  # kept, but the judge decides


def test_shipped_judge_tells_one_from_two() -> None:
    model = get_weights("amcp-2d").model
    learned = model.reviser.compiled()  # type: ignore[union-attr, operator]
    for sizes in ((300,), (150, 150), (200, 10), (100, 100, 100)):
        x, labels = clusters(sizes, apart=6.0, seed=3)
        for start in (labels, np.zeros_like(labels)):
            assert revised(x, start, learned, 20)[0].max() + 1 == len(sizes)
