from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError, FeatureCountError, InvalidDataError
from clusterwise.fitting.source_fit import find_groups
from clusterwise.rows import as_source, source

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def mixture(
    n: int, k: int = 4, d: int = 2, seed: int = 0, share: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Well-separated clusters; each is ``share`` as large as the one before."""
    rng = np.random.default_rng(seed)
    shares = share ** np.arange(k)
    labels = rng.choice(k, n, p=shares / shares.sum())
    centres = rng.permutation(np.stack(np.meshgrid(*[np.arange(4.0)] * d), axis=-1).reshape(-1, d))[:k] * 12
    return (centres[labels] + rng.normal(size=(n, d))).astype(np.float32), labels


def write(folder: Path, X: np.ndarray, n_files: int = 3) -> Path:
    folder.mkdir()
    for number, part in enumerate(np.array_split(X, n_files)):
        table = pyarrow.table({f"x{j}": column for j, column in enumerate(part.T)})
        parquet.write_table(table, folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("name", ["GaussianSearch", "AMCP", "Clusterer"])
def test_a_folder_of_files_is_clustered_like_an_array(name: str, tmp_path: Path) -> None:
    X, labels = mixture(12_000)
    folder = write(tmp_path / "x", X)
    estimator = getattr(cw, name)(random_state=0).fit(folder)
    assert estimator.n_clusters_ == 4
    assert adjusted_rand_score(labels, estimator.labels_) > 0.999
    assert list(estimator.labels_[np.sort(np.unique(estimator.labels_, return_index=True)[1])]) == [
        0,
        1,
        2,
        3,
    ]
    np.testing.assert_array_equal(estimator.labels_, estimator.predict(folder))
    np.testing.assert_array_equal(estimator.labels_, estimator.predict_proba(folder).argmax(axis=1))
    np.testing.assert_allclose(estimator.membership_.max(axis=1), estimator.probabilities_, rtol=1e-6)
    np.testing.assert_allclose(estimator.proportions_, np.bincount(estimator.labels_) / len(X), rtol=1e-12)
    batches = list(estimator.predict_batches(folder))
    np.testing.assert_array_equal(np.concatenate([one.labels for one in batches]), estimator.labels_)
    assert max(estimator.k_posterior_, key=lambda k: estimator.k_posterior_[k]) == 4
    assert estimator.outlier_scores_.shape == estimator.probabilities_.shape == (12_000,)
    assert estimator.sample_partitions(3).labels.shape == (3, len(estimator.sample_rows_))
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.labels_, estimator.labels_)


def test_labels_do_not_depend_on_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = mixture(25_000, k=5)
    one = cw.GaussianSearch(random_state=3).fit(as_source(X, always=True))
    monkeypatch.setattr(source, "NUMBERS_AT_ONCE", 2000)
    other = cw.GaussianSearch(random_state=3).fit(write(tmp_path / "x", X, 4))
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.sample_rows_, other.sample_rows_)
    np.testing.assert_array_equal(one.means_, other.means_)


def test_few_rows_give_what_the_array_gives() -> None:
    X, _ = mixture(2000)
    in_memory = cw.GaussianSearch(random_state=0).fit(X.astype(np.float64))
    source = cw.GaussianSearch(random_state=0).fit(as_source(X, always=True))
    np.testing.assert_array_equal(source.labels_, in_memory.labels_)
    np.testing.assert_allclose(source.means_, in_memory.means_, rtol=1e-12)
    # An estimator forgets the rows of the fit before.
    other = source.fit(X[:1000])
    assert len(other.labels_) == len(other.membership_) == 1000


@pytest.mark.parametrize("name", ["GaussianSearch", "Clusterer"])
def test_a_cluster_too_small_for_the_sample_is_found(name: str) -> None:
    X, labels = mixture(300_000)
    X[100_000:100_060] = X[0] * 0 + np.float32(80.0) + X[:60] % 1.0
    labels[100_000:100_060] = 4
    estimator = getattr(cw, name)(random_state=0).fit(as_source(X, always=True))
    assert estimator.n_clusters_ == 5
    assert adjusted_rand_score(labels, estimator.labels_) > 0.999
    small = estimator.labels_[100_000]
    assert estimator.proportions_[small] == pytest.approx(60 / 300_000, rel=0.05)
    # The rows that were chosen with more than their share do not raise the cluster's share in densities.
    assert estimator._found.density.proportions[small] == pytest.approx(60 / 300_000, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GaussianSearch", "AMCP", "Clusterer"])
def test_200_rows_among_5_million_are_found(name: str) -> None:
    X, labels = mixture(5_000_000, k=8)
    rows = np.random.default_rng(5).choice(len(X), 200, replace=False)
    X[rows] = np.array([60.0, 24.0]) + np.random.default_rng(6).normal(size=(200, 2))
    labels[rows] = 8
    estimator = getattr(cw, name)(random_state=0).fit(as_source(X, always=True))
    assert estimator.n_clusters_ == 9
    assert (estimator.labels_[rows] == estimator.labels_[rows[0]]).mean() > 0.99
    assert adjusted_rand_score(labels, estimator.labels_) > 0.999
    assert estimator.proportions_.min() == pytest.approx(200 / 5_000_000, rel=0.02)
    assert max(estimator.k_posterior_, key=lambda k: estimator.k_posterior_[k]) == 9


def test_words_and_gaps_of_tables_are_prepared(tmp_path: Path) -> None:
    X, labels = mixture(12_000)
    words = np.array(["red", "green"])[labels % 2]
    gaps = X[:, 0].astype(np.float64)
    gaps[::1000] = np.nan
    table = pyarrow.table({"id": np.arange(len(X)), "x": gaps, "y": X[:, 1], "colour": words})
    parquet.write_table(table, tmp_path / "t.parquet")
    estimator = cw.Clusterer(random_state=0).fit(tmp_path / "t.parquet")
    assert "id" not in estimator.preparation_.used_ and "colour" in estimator.preparation_.used_
    assert adjusted_rand_score(labels, estimator.labels_) > 0.9
    with pytest.raises(InvalidDataError, match=r"t\.parquet"):
        cw.GaussianSearch().fit(tmp_path / "t.parquet")


def test_wrong_columns_are_told(tmp_path: Path) -> None:
    X, _ = mixture(500)
    estimator = cw.AMCP(random_state=0).fit(write(tmp_path / "two", X))
    wide = write(tmp_path / "three", np.column_stack([X, X[:, :1]]))
    with pytest.raises(FeatureCountError, match="3 features"):
        estimator.predict(wide)
    with pytest.raises(FeatureCountError, match="3 features"):
        cw.AMCP().fit(wide)
    with pytest.raises(ClusterwiseError, match="NaN at row 3"):
        X[3, 0] = np.nan
        cw.GaussianSearch().fit(as_source(X, always=True))
    with pytest.raises(AttributeError, match="before fit"):
        _ = cw.GaussianSearch().labels_


def test_memmap_and_other_scores(tmp_path: Path) -> None:
    X, labels = mixture(500_000)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    estimator = cw.GaussianSearch(random_state=0).fit(mapped)
    assert adjusted_rand_score(labels[:10_000], estimator.predict(X[:10_000])) > 0.999
    np.testing.assert_array_equal(estimator.predict(X[:10_000]), estimator.labels_[:10_000])
    some = as_source(X[:1000], always=True)
    np.testing.assert_allclose(estimator.score_samples(some), estimator.score_samples(X[:1000]))
    np.testing.assert_allclose(estimator.score_outliers(some), estimator.score_outliers(X[:1000]), atol=1e-12)


def test_deep_dpm_predicts_what_it_cannot_be_fitted_to(tmp_path: Path) -> None:
    X, _ = mixture(400)
    folder = write(tmp_path / "x", X)
    with pytest.raises(ClusterwiseError, match="in memory"):
        cw.DeepDPM().fit(folder)
    estimator = cw.DeepDPM(random_state=0, max_epochs=80).fit(X)
    np.testing.assert_array_equal(estimator.predict(folder), estimator.labels_)


@pytest.mark.parametrize("d", [1, 2, 16])
def test_a_group_apart_is_found_among_scattered_rows(d: int) -> None:
    rng = np.random.default_rng(0)
    known = rng.normal(size=(2000, d))
    centre = np.zeros(d)
    centre[0] = 30.0
    group = rng.normal(size=(40, d)) + centre
    scattered = rng.normal(size=(20, d)) * 200
    features = np.concatenate([group, scattered])
    (found,) = find_groups(features, np.ones(60, dtype=bool), known)
    assert np.count_nonzero(found < 40) > 30 and np.count_nonzero(found >= 40) < 4


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_tail_of_a_cluster_is_no_group(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(3, size=(200_000, 1)) * rng.normal(size=(200_000, d))
    radius = np.linalg.norm(rows, axis=1)
    outlying = rows[np.argsort(radius)[-3000:]]
    far = np.linalg.norm(outlying, axis=1) > np.sort(radius)[-1000]
    assert find_groups(outlying, far, rows[:5000]) == []


def test_what_falls_apart_is_told_from_what_does_not() -> None:
    rng = np.random.default_rng(2)
    whole = rng.normal(size=(200, 8))
    parts = np.concatenate([whole[:80], whole[80:] + 8.0])
    nothing = np.empty((0, 8))
    assert len(find_groups(parts, np.ones(200, dtype=bool), nothing)) == 2
    assert len(find_groups(whole, np.ones(200, dtype=bool), nothing)) <= 1
    assert find_groups(whole[:5], np.ones(5, dtype=bool), nothing) == []
