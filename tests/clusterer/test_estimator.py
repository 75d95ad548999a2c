"""The estimator for any table: shapes, tables, layers, posterior; with the shipped judges."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import CapReachedWarning, ClusterwiseError, InvalidDataError


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 240)
    centres = rng.standard_normal((4, 5)) * 6
    return centres[labels] + rng.standard_normal((240, 5)), labels


@pytest.mark.parametrize("seed", range(3))
def test_bent_clusters(seed: int) -> None:
    for X, y in (
        make_moons(400, noise=0.06, random_state=seed),
        make_circles(400, noise=0.04, factor=0.5, random_state=seed),
    ):
        est = cw.Clusterer(random_state=0).fit(X)
        assert adjusted_rand_score(y, est.labels_) > 0.95
        np.testing.assert_array_equal(est.predict(X), est.labels_)


def test_the_judges_do_it() -> None:
    """With untrained judges the same candidates come to much worse."""
    nodes = cw.pretrained.untrained("node-judge")
    partitions = cw.pretrained.untrained("partition-judge")
    trained, control = [], []
    for seed in range(4):
        for X, y in (make_moons(300, noise=0.06, random_state=seed), _three(seed)):
            trained.append(adjusted_rand_score(y, cw.Clusterer().fit(X).labels_))
            untrained = cw.Clusterer(judges=(nodes, partitions)).fit(X)
            control.append(adjusted_rand_score(y, untrained.labels_))
    assert np.mean(trained) > 0.9
    assert np.mean(control) < np.mean(trained) - 0.2


def _three(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 300)
    return rng.standard_normal((300, 3)) + 6 * np.eye(3)[labels], labels


def test_what_is_stored(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    est = cw.Clusterer(random_state=0).fit(X)
    assert adjusted_rand_score(y, est.labels_) > 0.95
    assert est.n_clusters_ == 4
    assert max(est.k_posterior_, key=lambda k: est.k_posterior_[k]) == 4
    assert sum(est.k_posterior_.values()) == pytest.approx(1)
    assert 0 <= est.expected_ari_ <= 1
    np.testing.assert_allclose(est.membership_.sum(axis=1), 1)
    np.testing.assert_array_equal(est.membership_.argmax(axis=1), est.labels_)
    assert est.means_.shape == (4, 5) and est.covariances_.shape == (4, 5, 5)
    assert "node-judge" in est.weights_name_
    drawn = est.sample_partitions(20)
    assert drawn.k_posterior.keys() <= est.k_posterior_.keys()


@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 9])
def test_layers(blobs: tuple[np.ndarray, np.ndarray], k: int) -> None:
    est = cw.Clusterer(random_state=0).fit(blobs[0])
    labels = est.labels_at(k)
    assert len(set(labels)) == k
    if k == est.n_clusters_:
        assert adjusted_rand_score(labels, est.labels_) == pytest.approx(1)


def test_layers_merge_whole_clusters_and_split_without_crumbs() -> None:
    """Improbable numbers: for fewer clusters none is cut, for more it is not the small ones."""
    sizes, rng = [300, 150, 80, 40, 20], np.random.default_rng(0)
    y = np.repeat(np.arange(5), sizes)
    centres = np.array([[0, 0], [8, 0], [4, 8], [16, 6], [15, -5]])
    X = centres[y] + 0.8 * rng.standard_normal((590, 2))
    est = cw.Clusterer(random_state=0).fit(X)
    assert adjusted_rand_score(y, est.labels_) == 1
    for k in (2, 3):
        labels = est.labels_at(k)
        assert len(set(labels)) == k
        assert all(len(set(labels[y == cluster])) == 1 for cluster in range(5))
    labels = est.labels_at(8)
    assert len(set(labels)) == 8
    assert [len(set(labels[y == cluster])) for cluster in (3, 4)] == [1, 1]
    assert np.bincount(labels).min() == 20


def test_a_layer_that_cannot_be(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    est = cw.Clusterer().fit(blobs[0])
    for k in (0, 241, 2.5, "3", None):
        with pytest.raises(ClusterwiseError, match=f"a whole number from 1 to 240.*got {k!r}"):
            est.labels_at(k)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OutsidePriorWarning")
@pytest.mark.parametrize("n", [2, 5, 20, 80])
def test_more_layers_than_nodes_that_are_judged(n: int) -> None:
    """As many clusters as one asks for, not as many as some candidate happens to have."""
    X = np.random.default_rng(n).normal(size=(n, 3))
    X[::2] += 8
    est = cw.Clusterer(random_state=0).fit(X)
    for k in {1, 2, n // 4, n // 2} - {0}:
        assert len(set(est.labels_at(k))) == k
    copies = cw.Clusterer(random_state=0).fit(np.repeat(X[:2], 10, axis=0))
    assert [len(set(copies.labels_at(k))) for k in (1, 2, 3)] == [1, 2, 2]


def test_any_order_and_any_units(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = blobs
    rng = np.random.default_rng(3)
    order = rng.permutation(len(X))
    labels = cw.Clusterer(random_state=0).fit(X).labels_
    shuffled = cw.Clusterer(random_state=0).fit(X[order] * 10.0 ** rng.integers(-3, 4, 5)).labels_
    assert adjusted_rand_score(labels[order], shuffled) == pytest.approx(1)


def test_more_rows_than_the_context() -> None:
    """Which rows are judged depends on the seed alone; ``test_cluster`` shows that the others follow them."""
    X, _ = make_moons(3000, noise=0.06, random_state=0)
    est = cw.Clusterer(max_context=500, random_state=0).fit(X)
    np.testing.assert_array_equal(est.predict(X), est.labels_)
    again = cw.Clusterer(max_context=500, random_state=0).fit(X)
    np.testing.assert_array_equal(again.labels_, est.labels_)


def test_frames_with_words_gaps_and_ids() -> None:
    iris = load_iris()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(iris.data, columns=["a", "b", "c", "d"])
    frame.loc[rng.integers(0, 150, 10), "b"] = np.nan
    frame["id"] = range(150)
    frame["note"] = [f"flower number {i} of the garden, {rng.random():.5f}" for i in range(150)]
    est = cw.Clusterer(random_state=0).fit(frame)
    assert est.preparation_.used_ == ["a", "b", "c", "d"]
    assert adjusted_rand_score(iris.target, est.labels_) > 0.5
    np.testing.assert_array_equal(est.predict(frame), est.labels_)
    other = frame[frame.columns[::-1]].assign(later=1).drop(columns="note")
    np.testing.assert_array_equal(est.predict(other), est.labels_)
    with pytest.raises(InvalidDataError, match="X has no column 'c', which fit used"):
        est.predict(frame.drop(columns="c"))


def test_sparse_rows() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 150)
    counts = rng.poisson(np.where(np.repeat(np.eye(3), 40, axis=1)[labels] > 0, 1.5, 0.05))
    est = cw.Clusterer(random_state=0).fit(csr_matrix(counts.astype(float)))
    assert adjusted_rand_score(labels, est.labels_) > 0.9


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 12, 25])
def test_few_rows(n: int) -> None:
    est = cw.Clusterer().fit(np.random.default_rng(0).standard_normal((n, 3)))
    assert est.labels_.shape == (n,)
    assert sum(est.k_posterior_.values()) == pytest.approx(1)


def test_a_cap_is_said(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(CapReachedWarning, match="cap of 2"):
        est = cw.Clusterer(max_clusters=2).fit(blobs[0])
    assert est.n_clusters_ <= 2


def test_judges_come_in_pairs(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ClusterwiseError, match="pair"):
        cw.Clusterer(judges=("node-judge",)).fit(blobs[0])


def test_a_small_cluster_among_many_rows() -> None:
    rng = np.random.default_rng(0)
    labels = np.r_[rng.integers(0, 3, 50_000), np.full(60, 3)]
    centres = np.array([[0.0, 0, 0], [9, 0, 0], [0, 9, 0], [6, 6, 14]])
    X = centres[labels] + rng.standard_normal((50_060, 3)) * np.where(labels == 3, 0.4, 1.0)[:, None]
    est = cw.Clusterer(random_state=0).fit(X)
    found = est.labels_[labels == 3]
    assert len(set(found)) == 1
    assert (est.labels_ == found[0]).sum() < 100


@pytest.mark.parametrize("n, d", [(12_000, 3), (3_000, 20)])
def test_labels_do_not_depend_on_the_number_of_threads(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6, d))[rng.integers(0, 6, n)] * 3 + rng.standard_normal((n, d))
    one, two = (cw.Clusterer(n_jobs=n_jobs, random_state=0).fit(X) for n_jobs in (None, 2))
    np.testing.assert_array_equal(one.membership_, two.membership_)
    np.testing.assert_array_equal(one.outlier_scores_, two.outlier_scores_)
    assert one.k_posterior_ == two.k_posterior_


def test_processes_share_data_sets_and_say_which_one_they_warn_of() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((60, 2)) + 9 * rng.integers(0, 2, (60, 1)) for _ in range(3)]
    est = cw.GaussianSearch(random_state=0, max_clusters=1)
    for n_jobs in (1, 2):
        with pytest.warns(CapReachedWarning) as warned:
            found = est.fit_predict_many(sets, n_jobs=n_jobs)
        assert list(dict.fromkeys(one.message.name for one in warned)) == ["Xs[0]", "Xs[1]", "Xs[2]"]
        assert {one.filename for one in warned} == {__file__}
        assert [len(labels) for labels in found] == [60, 60, 60]
    expected = cw.Clusterer(random_state=0).fit_predict_many(sets)
    for labels, same in zip(
        cw.Clusterer(random_state=0).fit_predict_many(sets, n_jobs=2), expected, strict=True
    ):
        np.testing.assert_array_equal(labels, same)
