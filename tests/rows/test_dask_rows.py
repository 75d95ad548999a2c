from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError, FeatureCountError, InvalidDataError
from clusterwise.rows import ArraySource, as_source
from clusterwise.rows.arrow import parquet_parts

dask = pytest.importorskip("dask")
arrays = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")
bags = pytest.importorskip("dask.bag")
pandas = pytest.importorskip("pandas")


def mixture(n: int = 4000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(3, size=(n, 1)) * np.array([10.0, -10.0]) + rng.normal(size=(n, 2))


@pytest.mark.parametrize("name", ["GaussianSearch", "AMCP", "Clusterer"])
def test_labels_are_lazy_and_those_of_one_machine(name: str) -> None:
    X = mixture(11_000)
    local = getattr(cw, name)(random_state=0).fit(as_source(X, always=True))
    spread = getattr(cw, name)(random_state=0).fit(arrays.from_array(X, chunks=(2700, 1)))
    assert isinstance(spread.labels_, arrays.Array) and spread.labels_.shape == (11_000,)
    np.testing.assert_array_equal(spread.labels_.compute(), local.labels_)
    assert spread.membership_.shape == (11_000, spread.n_clusters_)
    np.testing.assert_allclose(spread.membership_.compute(), local.membership_, atol=1e-12)
    np.testing.assert_allclose(spread.proportions_, local.proportions_)
    new = arrays.from_array(X[:100], chunks=(30, 2))
    np.testing.assert_array_equal(spread.predict(new).compute(), local.predict(X[:100]))
    np.testing.assert_array_equal(spread.predict(X[:100]), local.predict(X[:100]))


def test_deep_dpm_labels_what_it_was_not_fitted_to() -> None:
    X = mixture(900)
    estimator = cw.DeepDPM(random_state=0, max_epochs=30).fit(X)
    spread = estimator.predict(arrays.from_array(X, chunks=(400, 2)))
    assert isinstance(spread, arrays.Array)
    np.testing.assert_array_equal(spread.compute(), estimator.predict(X))


def test_partitions_of_unknown_length() -> None:
    X = mixture()
    frame = frames.from_pandas(pandas.DataFrame(X, columns=["a", "b"]), npartitions=3)
    some = frame[frame["a"] > 0]
    expected = X[X[:, 0] > 0]
    for data in (some, some.to_dask_array()):
        estimator = cw.GaussianSearch(random_state=0).fit(data)
        local = cw.GaussianSearch(random_state=0).fit(as_source(expected, always=True))
        np.testing.assert_array_equal(estimator.labels_.compute(), local.labels_)
        assert np.isnan(estimator.predict(some.to_dask_array()).shape[0])  # nothing was computed
    assert list(cw.GaussianSearch().fit(some).feature_names_in_) == ["a", "b"]


@pytest.mark.parametrize("options", [{"blocksize": None}, {"split_row_groups": True}])
@pytest.mark.parametrize("name", ["GaussianSearch", "Clusterer"])
def test_parquet_files_are_read_by_the_tasks(name: str, options: dict, tmp_path: Any) -> None:
    X = mixture(5000).astype(np.float32)
    for number, part in enumerate(np.array_split(X, 3)):
        frame = pandas.DataFrame(part, columns=["a", "b"])
        frame.to_parquet(tmp_path / f"{number}.parquet", row_group_size=700)
    table = frames.read_parquet(tmp_path, **options)
    files = parquet_parts(table, list(table.to_delayed()))
    assert files is not None and sum(map(len, files)) == 5000
    local = getattr(cw, name)(random_state=0).fit(str(tmp_path))
    spread = getattr(cw, name)(random_state=0).fit(table)
    np.testing.assert_array_equal(spread.labels_.compute(), local.labels_)
    # What is more than reading is left to dask.
    for other in (table + 1, table[table["a"] > 0], frames.read_parquet(tmp_path, filters=[("a", ">", 0)])):
        assert parquet_parts(other, list(other.to_delayed())) is None
    some = table[["b"]]
    (first, *_) = parquet_parts(some, list(some.to_delayed()))
    assert next(first.batches()).data.column_names == ["b"]


def test_nan_in_a_parquet_file_is_named_with_its_partition(tmp_path: Any) -> None:
    X = mixture(600)
    X[450, 1] = np.nan
    for number, part in enumerate(np.array_split(X, 2)):
        pandas.DataFrame(part, columns=["a", "b"]).to_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(InvalidDataError, match="partition 1 contains NaN at row 150 column 'b'"):
        cw.GaussianSearch().fit(frames.read_parquet(tmp_path, blocksize=None))


def with_part(parts: list[Any]) -> Any:
    blocks = [arrays.from_delayed(dask.delayed(part), part.shape, dtype=float) for part in parts]
    return arrays.concatenate(blocks)


def test_a_bad_partition_is_named() -> None:
    X = mixture(300)
    gaps = X[100:200].copy()
    gaps[7, 1] = np.nan
    with pytest.raises(InvalidDataError, match="partition 1 contains NaN at row 7 column 1"):
        cw.GaussianSearch().fit(with_part([X[:100], gaps, X[200:]]))
    text = X[:100].astype(str)
    with pytest.raises(InvalidDataError, match="partition 0 holds"):
        cw.GaussianSearch().fit(with_part([text, X[100:200]]))
    pieces = [dask.delayed(pandas.DataFrame(X, columns=names)) for names in (["a", "b"], ["a", "c"])]
    meta = pandas.DataFrame({"a": [0.0], "b": [0.0]})
    with pytest.raises(FeatureCountError, match="partition 1 lacks column 'b'"):
        cw.GaussianSearch().fit(frames.from_delayed(pieces, meta=meta, verify_meta=False))


@pytest.mark.parametrize("name", ["GaussianSearch", "Clusterer"])
def test_a_partition_of_another_kind_is_named(name: str) -> None:
    X = mixture(600)
    whole = frames.from_pandas(pandas.DataFrame(X, columns=["a", "b"]), npartitions=3)

    def changed(part: pandas.DataFrame, kind: str, partition_info: dict | None = None) -> pandas.DataFrame:
        if partition_info is None or partition_info["number"] != 1:
            return part
        return part.assign(b="word") if kind == "words" else part.rename(columns={"b": "z"})

    for kind, message in (("words", "column 'b' of partition 1 holds"), ("columns", "partition 1 cannot be")):
        strange = whole.map_partitions(changed, kind, meta=whole._meta)
        with pytest.raises(InvalidDataError, match=message):
            getattr(cw, name)().fit(strange)


def test_inputs_that_are_no_tables() -> None:
    with pytest.raises(InvalidDataError, match="3 dimensions"):
        cw.GaussianSearch().fit(arrays.zeros((3, 3, 3)))


def test_bags_of_data_sets() -> None:
    sets = [mixture(60, seed) for seed in range(4)]
    estimator = cw.GaussianSearch(random_state=0)
    spread = estimator.fit_predict_many(bags.from_sequence(sets, npartitions=2))
    assert isinstance(spread, bags.Bag)
    for found, expected in zip(
        spread.compute(scheduler="threads"), estimator.fit_predict_many(sets), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_chains_over_partitions_are_those_of_one_machine() -> None:
    X = mixture(900)
    settings = {"n_warm_up": 12, "n_draws": 8, "random_state": 0}
    with pytest.warns(UserWarning):  # few draws
        local = cw.DPMixture(**settings).fit(ArraySource(X, [400, 500]))
        spread = cw.DPMixture(**settings).fit(arrays.from_array(X, chunks=((400, 500), (2,))))
    assert local.n_clusters_ >= 3
    np.testing.assert_array_equal(spread.labels_.compute(), local.labels_)
    np.testing.assert_array_equal(spread.trace_["log_joint"], local.trace_["log_joint"])
    assert local.sample_partitions(4).labels.shape == (4, 900)
    with pytest.raises(ClusterwiseError, match="gibbs"):
        cw.DPMixture(sampler="gibbs").fit(ArraySource(X))
