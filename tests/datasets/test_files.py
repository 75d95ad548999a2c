"""Tables from every format, labels to every format, whole or not at all."""

from __future__ import annotations

import datetime
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clusterwise.datasets import read_table, write_labels
from clusterwise.exceptions import InvalidDataError, MissingDependencyError

VALUES = np.array([[1.0, 0.1], [2.0, -3e7], [4.0, 1 / 3]])


def save(path, values):
    frame = pd.DataFrame(values, columns=["a", "b"])
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy"])
def test_every_format_gives_the_same_table(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    save(path, VALUES)
    table = read_table(str(path))
    np.testing.assert_array_equal(table.values, VALUES)
    assert table.values.dtype == np.float64
    assert table.column_names == (("column 0", "column 1") if ending == ".npy" else ("a", "b"))
    np.testing.assert_array_equal(read_table(path, ["1", "0"]).values, VALUES[:, ::-1])


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".npy"])
def test_missing_and_empty_files(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    with pytest.raises(InvalidDataError, match="there is no file"):
        read_table(path)
    path.touch()
    with pytest.raises(InvalidDataError, match="is empty"):
        read_table(path)
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(InvalidDataError, match="there is no file"):
        read_table(tmp_path / f"folder{ending}")


@pytest.mark.parametrize("ending", [".parquet", ".npy"])
def test_truncated_and_foreign_files(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    save(path, np.random.default_rng(0).normal(size=(500, 2)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InvalidDataError, match="truncated"):
        read_table(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidDataError, match="truncated"):
        read_table(path)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.bool_])
def test_numbers_of_all_kinds(tmp_path, dtype):
    values = np.array([[0, 1], [1, 1]]).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    np.testing.assert_array_equal(read_table(tmp_path / "x.npy").values, values.astype(float))
    pd.DataFrame(values, columns=["a", "b"]).to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "x.parquet").values, values.astype(float))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(5.0), r"shape \(5,\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        (np.array([["a", "b"]]), "not numbers"),
        (np.zeros((2, 2), dtype=complex), "not numbers"),
        (np.zeros((0, 2)), "is empty"),
        (np.array([[{}, []]], dtype=object), "Python objects"),
    ],
)
def test_arrays_that_are_no_table(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InvalidDataError, match=message):
        read_table(tmp_path / "x.npy")


def test_archive_under_the_name_of_an_array(tmp_path):
    np.savez(tmp_path / "x.npz", a=VALUES)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    with pytest.raises(InvalidDataError, match="archive"):
        read_table(tmp_path / "x.npy")


def test_parquet_nulls_decimals_and_index(tmp_path):
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, None]}, index=[5, 6, 9]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet")
    assert table.column_names == ("a", "b")  # the index of a frame is not data
    np.testing.assert_array_equal(table.values, [[1, 1], [np.nan, 0], [3, np.nan]])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([None, "Oslo"]), r"column 'b' holds text \(row 1: 'Oslo'\); leave it out with --columns"),
        (pa.array(["Oslo", "Bergen"]).dictionary_encode(), "holds text"),
        (pa.array([datetime.date(2020, 1, 2)] * 2), r"holds date32\[day\] values \(row 0: '2020-01-02'\)"),
    ],
)
def test_parquet_columns_that_are_no_numbers(tmp_path, column, message):
    pq.write_table(pa.table({"a": [1, 2], "b": column}), tmp_path / "x.parquet")
    with pytest.raises(InvalidDataError, match=message):
        read_table(tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "x.parquet", ["a"]).values, [[1], [2]])


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    save(tmp_path / "x.parquet", VALUES)
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'clusterwise\[frames\]'"):
        read_table(tmp_path / "x.parquet")
    with pytest.raises(MissingDependencyError, match=r"pip install 'clusterwise\[frames\]'"):
        write_labels(tmp_path / "y.parquet", np.zeros(1, int), np.ones(1), np.zeros(1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.parquet"]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
def test_labels_come_back(tmp_path, ending):
    labels, sure, far = np.array([0, 1, 0]), np.array([1.0, 1 / 3, 0.5]), np.array([0.0, 1e-19, 1.0])
    write_labels(tmp_path / f"labels{ending}", labels, sure, far)
    table = read_table(tmp_path / f"labels{ending}")
    assert table.column_names == ("label", "probability", "outlier_score")
    np.testing.assert_array_equal(table.values, np.column_stack([labels, sure, far]))


def test_labels_as_array(tmp_path):
    write_labels(tmp_path / "labels.npy", np.array([0, 1, 0]), np.ones(3), np.zeros(3))
    loaded = np.load(tmp_path / "labels.npy")
    np.testing.assert_array_equal(loaded, [0, 1, 0])
    assert np.issubdtype(loaded.dtype, np.integer)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, ending):
    path = tmp_path / f"labels{ending}"
    path.write_text("old")
    with pytest.raises(ValueError):
        write_labels(path, np.zeros(3, int), np.ones(2), np.zeros(3))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
