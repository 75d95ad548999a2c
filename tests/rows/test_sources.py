from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterwise.exceptions import FeatureCountError, InvalidDataError
from clusterwise.fitting.source_fit import survey
from clusterwise.rows import ArraySource, Batch, RowSource, as_source
from clusterwise.rows.arrow import open_parquet
from clusterwise.rows.batches import NumberReader, random_keys

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def numbers(n: int = 3000, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def read_all(source: RowSource) -> np.ndarray:
    return np.concatenate(list(source.map(NumberReader(source.n_features, source.names))))


@pytest.mark.parametrize("size", [300, 4000, 10**6])
def test_batches_hold_all_rows_in_order(
    write_parts: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("clusterwise.rows.source.NUMBERS_AT_ONCE", size)
    X = numbers()
    folder = open_parquet(write_parts(X[:1000], X[1000:1800], X[1800:]))
    assert folder.n_rows == 3000 and folder.names == ("a", "b", "c")
    for source in (folder, ArraySource(X)):
        np.testing.assert_array_equal(read_all(source), X)
        starts = list(source.map(lambda batch: (batch.start, len(batch))))
        assert [start for start, _ in starts] == np.cumsum([0, *[n for _, n in starts]])[:-1].tolist()


def test_the_sample_does_not_depend_on_how_rows_are_cut(
    write_parts: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = numbers()
    whole = survey(ArraySource(X), None, 200, 5, lambda *_: None)
    monkeypatch.setattr("clusterwise.rows.source.NUMBERS_AT_ONCE", 900)
    parts = survey(open_parquet(write_parts(X[:100], X[100:])), None, 200, 5, lambda *_: None)
    assert len(whole) == 200
    np.testing.assert_array_equal(whole.rows, parts.rows)
    np.testing.assert_array_equal(whole.data, np.column_stack([c.to_numpy() for c in parts.data.columns]))
    other = survey(ArraySource(X), None, 200, 6, lambda *_: None)
    assert not np.array_equal(whole.rows, other.rows)


def test_keys_are_uniform_and_independent_between_seeds() -> None:
    rows = np.arange(100_000)
    one, other = (random_keys(rows, seed) / 2**64 for seed in (0, 1))
    error = 4 / np.sqrt(len(rows))  # four standard errors of a correlation, more for the mean
    for values in (one, other):
        assert abs(values.mean() - 0.5) < error
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < error
    assert abs(np.corrcoef(one, other)[0, 1]) < error


def test_what_is_a_source(tmp_path: Path, write_parts: Callable[..., Path]) -> None:
    X = numbers(400_000)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert isinstance(as_source(mapped), ArraySource)
    assert as_source(mapped[:100]) is None  # as the array in memory
    for inputs in (X, X.tolist()[:3], "nothing", None, pyarrow.table({"a": [1.0]})):
        assert as_source(inputs) is None
    folder = write_parts(X[:10])
    for opened in (folder, str(folder), folder / "part-0.parquet", open_parquet(folder).dataset):
        source = as_source(opened)
        assert source is not None and source.n_rows == 10


def first_error(source: RowSource) -> str:
    with pytest.raises(InvalidDataError) as caught:
        read_all(source)
    return str(caught.value)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_errors_name_the_file_the_row_and_the_column(
    write_parts: Callable[..., Path], value: float, word: str
) -> None:
    X = numbers(50)
    X[37, 1] = value
    message = first_error(open_parquet(write_parts(X[:30], X[30:])))
    assert "part-1.parquet" in message and word in message and "row 7 column 'b'" in message


def test_text_in_a_column_is_named(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"a": [1.0], "b": ["x"]}), tmp_path / "t.parquet")
    assert "column 'b' of" in first_error(open_parquet(tmp_path / "t.parquet"))


def test_a_file_with_other_columns_is_named(write_parts: Callable[..., Path]) -> None:
    folder = write_parts(numbers(10), numbers(10, 2))
    assert "part-1.parquet has no column 'c'" in first_error(open_parquet(folder))


def test_files_that_are_none(tmp_path: Path, write_parts: Callable[..., Path]) -> None:
    folder = write_parts(numbers(10))
    (folder / "part-9.parquet").write_bytes((folder / "part-0.parquet").read_bytes()[:200])
    with pytest.raises(InvalidDataError, match=r"part-9\.parquet"):
        read_all(open_parquet(folder))
    empty = tmp_path / "empty"
    empty.mkdir()
    for path, words in ((empty, "holds no"), (tmp_path / "none.parquet", "there is no file")):
        with pytest.raises(InvalidDataError, match=words):
            open_parquet(path)


@pytest.mark.parametrize(
    "data", [np.ones((2, 4)), np.array([["a", "b", "c"]]), np.ones(3)], ids=["width", "text", "shape"]
)
def test_batches_of_another_kind_are_named(data: Any) -> None:
    with pytest.raises((FeatureCountError, InvalidDataError), match="partition 7"):
        NumberReader(3)(Batch(data, 0, "partition 7", 0))


def test_a_row_group_of_a_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterwise.rows.source.NUMBERS_AT_ONCE", 2**15)
    X = np.random.default_rng(0).normal(size=(200_000, 4))
    columns = {f"x{place}": column for place, column in enumerate(X.T)}
    path = tmp_path / "one.parquet"
    parquet.write_table(pyarrow.table(columns), path, use_dictionary=False, data_page_size=2**14)
    assert parquet.ParquetFile(path).num_row_groups == 1
    pool = pyarrow.default_memory_pool()
    before, most, done = pool.bytes_allocated(), 0, 0
    for batch in open_parquet(path).batches():
        most = max(most, pool.bytes_allocated() - before)
        done += len(batch)
    assert done == len(X)
    assert most < X.nbytes / 4


def test_files_whose_types_differ_from_the_first_are_read_as_its(tmp_path: Path) -> None:
    for number, kind in enumerate((np.float64, np.float32)):
        table = pyarrow.table({"a": np.arange(5, dtype=kind), "b": np.ones(5, dtype=kind)})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    found = read_all(open_parquet(tmp_path))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[:, 0], np.tile(np.arange(5.0), 2))
