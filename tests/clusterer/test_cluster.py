"""The chosen partition is the answer, and everything that is said is said of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.affine import fit_scaling
from clusterwise.clusterer.cluster import OUT_OF_RANGE_MARGIN, _warnings
from clusterwise.clusterer.context import context_of
from clusterwise.clusterer.graph import neighbour_graph
from clusterwise.exceptions import LowConfidenceWarning, UnusualTableWarning
from clusterwise.partition import canonical_labels
from clusterwise.rows.sorted_rows import sort_rows


def tables() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    overlapping = rng.standard_normal((400, 2)) + 2.2 * rng.standard_normal((6, 2))[rng.integers(6, size=400)]
    wide = rng.standard_normal((200, 30)) + 1.5 * rng.standard_normal((4, 30))[rng.integers(4, size=200)]
    return [make_moons(300, noise=0.15, random_state=1)[0], overlapping, wide, np.round(overlapping)]


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.ClusterwiseWarning")
@pytest.mark.parametrize("number", range(4))
def test_judged_rows_have_the_labels_that_were_chosen(number: int) -> None:
    X = tables()[number]
    est = cw.Clusterer(random_state=0).fit(X)
    chosen = est._chosen
    rows = est._rows.order[chosen.context.judged]
    np.testing.assert_array_equal(
        canonical_labels(est.labels_[np.sort(rows)]), canonical_labels(chosen.candidates[0][np.argsort(rows)])
    )
    np.testing.assert_array_equal(est.predict(X), est.labels_)
    np.testing.assert_array_equal(est.predict(X[::-1]), est.labels_[::-1])
    assert est.n_clusters_ == chosen.candidates[0].max() + 1
    np.testing.assert_array_equal(est.labels_at(est.n_clusters_), est.labels_)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.ClusterwiseWarning")
def test_other_rows_go_with_those_that_were_judged() -> None:
    X, y = make_moons(3000, noise=0.06, random_state=0)
    est = cw.Clusterer(max_context=400, random_state=0).fit(X)
    assert len(est._chosen.context.judged) == 400
    assert adjusted_rand_score(y, est.labels_) > 0.95
    np.testing.assert_array_equal(est.predict(X), est.labels_)


@pytest.mark.parametrize(
    ("times", "warns"),
    [(0.99, False), (0.99 * OUT_OF_RANGE_MARGIN, False), (1.01 * OUT_OF_RANGE_MARGIN, True)],
)
def test_a_table_may_be_somewhat_more_unusual_than_the_training_tables(times: float, warns: bool) -> None:
    one = np.zeros(9, dtype=np.int64)
    chosen: Any = SimpleNamespace(candidates=(one,), expected_ari=np.ones(1), out_of_range=0.2 * times)
    warnings = _warnings(chosen, max_out_of_range=0.2)
    assert [type(warning) for warning in warnings] == [UnusualTableWarning] * warns
    assert all(warning.fraction == 0.2 * times for warning in warnings)
    assert 1 < OUT_OF_RANGE_MARGIN < 3


@pytest.mark.parametrize(("expected_ari", "warns"), [(0.01, True), (0.49, True), (0.51, False), (1.0, False)])
def test_an_answer_that_is_hardly_better_than_chance_brings_a_warning(
    expected_ari: float, warns: bool
) -> None:
    labels = np.arange(9) % 3
    chosen: Any = SimpleNamespace(
        candidates=(labels,), expected_ari=np.array([expected_ari]), out_of_range=0.0
    )
    warnings = _warnings(chosen, max_out_of_range=0.2)
    assert [type(warning) for warning in warnings] == [LowConfidenceWarning] * warns
    assert all((warning.n_clusters, warning.expected_ari) == (3, expected_ari) for warning in warnings)


def test_small_groups_far_from_all_other_rows_are_kept_apart() -> None:
    rng = np.random.default_rng(2)
    labels = np.r_[
        rng.integers(0, 2, 20_000), np.full(40, 2), np.full(1, 3)
    ]  # two clusters, a group, one row
    centres = np.array([[0.0, 0], [9, 0], [4, 30], [-40, 0]])
    points = centres[labels] + rng.standard_normal((len(labels), 2)) * np.where(labels > 1, 0.3, 1)[:, None]
    rows = sort_rows(points, fit_scaling)
    context = context_of(rows, None, 0)
    truth = labels[rows.order[context.judged]]
    np.testing.assert_array_equal(context.of_groups, truth == 2)
    graph = neighbour_graph(context.points)
    for given in (np.zeros(len(truth), dtype=int), truth % 2, truth):
        found = context.keep_groups_apart(given, graph.neighbours)
        assert set(found[truth == 2]).isdisjoint(found[truth != 2])
        assert len(set(found[truth == 2])) == 1
        np.testing.assert_array_equal(
            canonical_labels(found[truth != 2]), canonical_labels(given[truth != 2])
        )
    divided = np.where(truth == 2, 5 + np.arange(len(truth)) % 2, 0)  # a group that is divided stays so
    np.testing.assert_array_equal(
        canonical_labels(context.keep_groups_apart(divided, graph.neighbours)), canonical_labels(divided)
    )
