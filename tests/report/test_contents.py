"""What a report says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, confusion_matrix

from clusterwise.report import contents
from clusterwise.report.contents import compare_clusters, distinctive_columns
from clusterwise.tables.columns import Column, read_columns


@pytest.mark.parametrize(
    ("value", "spread", "shown"),
    [
        (0.0, None, "0"),
        (1234567.0, None, "1,234,567"),
        (-0.0123456, None, "-0.01235"),
        (431_903.27, 2000.0, "431,903"),
        (1000.00012, 0.001, "1,000.000120"),
        (-0.25, 0.0, "-0.2500"),
        (2.0, 50.0, "2.00"),
        (1e150, None, "1.000e+150"),
        (float("inf"), None, "inf"),
    ],
)
def test_numbers_have_the_digits_that_tell_something(value, spread, shown):
    assert contents.show_number(value, spread) == shown


def test_clusters_add_up(make_fitted):
    estimator, X = make_fitted(4)
    rows = contents.cluster_rows(estimator, read_columns(X).columns)
    assert sum(row.size for row in rows) == len(X)
    assert sum(row.share for row in rows) == pytest.approx(1)
    for row in rows:
        members = estimator.labels_ == row.label
        assert row.size == members.sum()
        assert float(row.typical[0]) == pytest.approx(X[members, 0].mean(), abs=0.006)
        assert row.confidence == pytest.approx(estimator.probabilities_[members].mean())
        assert row.n_uncertain == (estimator.probabilities_[members] < contents.CERTAIN).sum()


def test_uncertain_rows_are_the_least_certain_in_order(make_fitted):
    estimator, X = make_fitted(4)
    rows = contents.uncertain_rows(estimator, read_columns(X).columns, count=2)
    assert [row.row for row in rows] == np.argsort(estimator.probabilities_)[:2].tolist()
    for row in rows:
        best, second = np.sort(estimator.membership_[row.row])[::-1][:2]
        assert (row.probability, row.second_probability) == (best, second)
        assert row.label == estimator.labels_[row.row]
        assert estimator.membership_[row.row, row.second] == second


def test_certain_and_ordinary_rows_are_not_listed(make_fitted):
    estimator, X = make_fitted(1)
    assert contents.uncertain_rows(estimator, ()) == []
    estimator.outlier_scores_ = np.where(np.arange(len(X)) == 7, 0.9, 0.1)
    assert [row.row for row in contents.outlying_rows(estimator, ())] == [7]


def test_agreement():
    y = np.array(["b", "a", "a", "c", "b"])
    labels = np.array([0, 1, 1, 1, 0])
    agreement = contents.agreement_with(y, labels)
    assert agreement.classes == ("a", "b", "c")
    assert np.array_equal(agreement.counts, confusion_matrix([1, 0, 0, 2, 1], labels)[:, :2])
    assert agreement.ari == adjusted_rand_score(y, labels)
    assert agreement.accuracy == 0.8


def test_agreement_with_too_many_classes_has_no_table():
    agreement = contents.agreement_with(np.arange(100), np.zeros(100, int))
    assert agreement.counts is None
    assert len(agreement.classes) == 100


@pytest.fixture
def uneven(make_fitted):
    """Three clusters of 1, 29 and 60 rows, of an estimator that can draw partitions."""
    estimator, _ = make_fitted(3)
    estimator.labels_ = np.repeat([0, 1, 2], [1, 29, 60])
    estimator.probabilities_ = np.array([0.5, *[1.0] * 89])
    estimator.outlier_scores_ = np.array([0.9, 0.7, *[0.0] * 88])
    estimator.sample_partitions = None
    return estimator


def test_the_summary_says_what_the_figures_say(uneven):
    text = contents.summary(uneven, {3: 0.7, 4: 0.2, 5: 0.1})
    assert text.startswith(
        "The 90 rows fall into 3 clusters. The largest has 60 rows (67 %), and one is a single"
    )
    assert "likely: 3 has a probability of 0.70; next come 4 (0.20) and 5 (0.10)." in text
    assert text.endswith(
        "One label is uncertain (probability below 0.9), and 2 rows lie far from every cluster."
    )
    assert "nearly certain: 3 has a probability of 1.00." in contents.summary(uneven, {3: 1.0})
    assert "probability of" not in contents.summary(uneven, None)
    uneven.labels_ = np.repeat([0, 1, 2], 30)
    assert "3 clusters. Each has 30 rows." in contents.summary(uneven, None)
    uneven.labels_ = np.repeat([0, 1, 2], [20, 30, 40])
    assert "The largest has 40 rows (44 %), the smallest 20 (22 %)." in contents.summary(uneven, None)


def test_more_probable_numbers_are_called_so_and_suggested(uneven):
    posterior = {2: 0.35, 3: 0.17, 4: 0.33, 5: 0.15}
    said = "uncertain: 3 has a probability of 0.17; more probable are 2 (0.35) and 4 (0.33)."
    assert said in contents.summary(uneven, posterior)
    assert "0.10; more probable is 4 (0.90)." in contents.summary(uneven, {3: 0.1, 4: 0.9})
    assert contents.other_k(uneven, posterior) == 2
    assert contents.other_k(uneven, {3: 0.99, 2: 0.01}) == contents.other_k(uneven, None) == 4


def test_certainty_is_no_greater_than_the_method_allows(uneven):
    uneven.misfits_ = ["they are bent"]
    assert "nearly certain, given the assumptions" in contents.summary(uneven, {3: 1.0})
    del uneven.misfits_, uneven.sample_partitions
    assert "The number of clusters is stable: 3 has" in contents.summary(uneven, {3: 1.0})


def test_few_rows_are_no_ground_for_certainty(make_fitted):
    estimator, X = make_fitted(2)
    text = contents.summary(estimator.fit(X[20:40:2]), {2: 1.0})
    assert "With only 10 rows, take this with caution." in text
    assert "certain:" not in text


def test_the_summary_of_one_cluster(make_fitted):
    estimator, _ = make_fitted(1)
    assert contents.summary(estimator, None) == (
        "The 30 rows form one cluster: no division into several was better."
    )


def test_categories_are_described_by_the_most_frequent_one(make_fitted):
    estimator, _ = make_fitted(2)
    towns = np.array(["Oslo"] * 20 + ["Bergen"] * 10 + [None] * 30, dtype=object)
    first, second = contents.cluster_rows(estimator, [Column("town", "words", towns)])
    assert (first.typical, second.typical) == (("Oslo (67 %)",), ("–",))
    codes = np.array(["x" * 40] * 60, dtype=object)
    assert contents.cluster_rows(estimator, [Column("code", "words", codes)])[0].typical == (
        f"{'x' * 27}… (100 %)",
    )


def test_shown_columns_are_those_that_tell_most():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 9))
    X[:, [7, 4]] += 5 * labels[:, None]
    columns = read_columns(X).columns
    assert distinctive_columns(compare_clusters(columns, labels), 9, 2) == [4, 7]
    assert distinctive_columns(compare_clusters(columns, labels), 9, 20) == list(range(9))
    assert distinctive_columns(compare_clusters(columns, np.zeros(100, int)), 9, 3) == [0, 1, 2]


def test_every_cluster_has_its_best_column_among_those_shown():
    labels = np.repeat([0, 1, 2], 40)
    X = np.random.default_rng(0).normal(size=(120, 8))
    X[:, :4] += 30 * (labels == 1)[:, None]  # tell one cluster from the others, very clearly
    X[:, 6] += 4 * (labels == 0)
    found = compare_clusters(read_columns(X).columns, labels)
    assert 6 in distinctive_columns(found, 8, 3)


def test_a_column_is_looked_at_once_however_many_clusters_there_are(monkeypatch):
    seen = []

    def counted(values):
        seen.append(len(values))
        return spread_of(values)

    spread_of = contents.spread_of
    monkeypatch.setattr(contents, "spread_of", counted)
    rng = np.random.default_rng(0)
    columns = [Column(f"c{j}", "number", rng.normal(size=600)) for j in range(3)]
    for n_clusters in (2, 30):
        seen.clear()
        compare_clusters(columns, np.arange(600) % n_clusters)
        assert seen == [600] * 3


def test_medians_and_histograms_of_clusters_and_of_the_others():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 301)
    values = rng.normal(size=301) + labels
    found = compare_clusters([Column("a", "number", values)], labels)
    for label, (difference,) in enumerate(found):
        inside, outside = values[labels == label], values[labels != label]
        spread = contents.spread_of(values)
        assert difference.size == pytest.approx(abs(np.median(inside) - np.median(outside)) / spread)
        edges = np.linspace(*np.quantile(values, [0.01, 0.99]), contents.N_BINS + 1)
        clipped = [np.clip(one, edges[0], edges[-1]) for one in (inside, outside)]
        heights = np.array([np.histogram(one, edges)[0] / len(one) for one in clipped])
        np.testing.assert_allclose(np.array(difference.bars).T, contents.HEIGHT * heights / heights.max())
