"""Tables from every format, results to every format, whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse

from clusterwise.exceptions import FileFormatWarning, InvalidDataError, MissingDependencyError
from clusterwise.tables.file_tables import format_of, output_format_of
from clusterwise.tables.files import read_table, write_table

VALUES = np.array([[1.0, 0.1], [2.0, -3e7], [4.0, 1 / 3]])
ENDINGS = [".csv", ".tsv", ".parquet", ".arrow", ".npy", ".npz", ".xlsx", ".h5ad"]


def save(path, values):
    frame = pd.DataFrame(values, columns=["a", "b"])
    if path.suffix == ".npy":
        np.save(path, values)
    elif path.suffix == ".npz":
        np.savez(path, X=values, y=np.zeros(len(values)))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".arrow":
        pyarrow.feather.write_feather(pa.table(frame), path)
    elif path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    elif path.suffix == ".h5ad":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file["obsm/X_pca"] = values
            file["obsm/X_umap"] = values[:, ::-1]
            file["X"] = np.zeros((len(values), 7))
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")


def numbers(table):
    return np.column_stack([np.asarray(column, dtype=float) for column in table.columns])


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_gives_the_same_table(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    save(path, VALUES)
    table = read_table(str(path))
    np.testing.assert_array_equal(numbers(table), VALUES)
    names = {".npy": ["column 0", "column 1"], ".npz": ["column 0", "column 1"], ".h5ad": ["pca0", "pca1"]}
    assert table.column_names == names.get(ending, ["a", "b"])


@pytest.mark.parametrize("ending", ENDINGS)
def test_missing_empty_and_foreign_files(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    with pytest.raises(InvalidDataError, match="there is no file"):
        read_table(path)
    path.touch()
    with pytest.raises(InvalidDataError, match="is empty"):
        read_table(path)
    (tmp_path / f"folder{ending}").mkdir()
    with pytest.raises(InvalidDataError, match="there is no file"):
        read_table(tmp_path / f"folder{ending}")
    if ending not in (".csv", ".tsv"):
        path.write_text("a,b\n1,2\n")
        with pytest.raises(InvalidDataError, match=r"truncated|damaged"):
            read_table(path)
        save(path, np.random.default_rng(0).normal(size=(500, 2)))
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(InvalidDataError, match=r"truncated|damaged"):
            read_table(path)


def packed(data: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(data)
    if ending == ".bz2":
        return bz2.compress(data)
    if ending == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("data.csv", data)
    return buffer.getvalue()


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst", ".zip"])
def test_compressed_text(tmp_path, ending):
    path = tmp_path / f"data.csv{ending}"
    path.write_bytes(packed(b"a;b\n1,5;2\n2,5;3\n", ending))
    assert read_table(path).to_pydict() == {"a": [1.5, 2.5], "b": [2, 3]}
    path.write_bytes(b"a;b\n1,5;2\n")
    with pytest.raises(InvalidDataError, match="truncated or not"):
        read_table(path)
    with pytest.raises(InvalidDataError, match="compressed; unpack it first"):
        format_of(f"data.npy{ending}")


def test_archives_of_several_files_are_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.csv", "1,2\n")
        archive.writestr("b.csv", "1,2\n")
    with pytest.raises(InvalidDataError, match=r"holds 2 files \(a\.csv, b\.csv"):
        read_table(tmp_path / "x.zip")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n3,4\n")))
    assert read_table("-").to_pydict() == {"a": [1, 3], "b": [2, 4]}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InvalidDataError, match="standard input is empty"):
        read_table("-")


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


def test_a_sparse_matrix_stays_sparse(tmp_path):
    matrix = scipy.sparse.random(20, 30, 0.1, random_state=0)
    scipy.sparse.save_npz(tmp_path / "words.npz", matrix)
    found = read_table(tmp_path / "words.npz")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())
    scipy.sparse.save_npz(tmp_path / "words.npz", scipy.sparse.csr_matrix((0, 3)))
    with pytest.raises(InvalidDataError, match="empty"):
        read_table(tmp_path / "words.npz")


def test_archives_of_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", table=VALUES, labels=np.zeros(3))
    np.testing.assert_array_equal(numbers(read_table(tmp_path / "x.npz")), VALUES)
    np.savez(tmp_path / "x.npz", p=VALUES, q=VALUES)
    with pytest.raises(InvalidDataError, match=r"holds 2 tables \(p, q\); call the one to use X"):
        read_table(tmp_path / "x.npz")


def test_parquet_index_is_not_data(tmp_path):
    frame = pd.DataFrame(
        {"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, None]}, index=[5, 6, 9]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").to_pydict() == {"a": [1, None, 3], "b": [True, False, None]}


def test_workbooks_with_gaps_words_and_mixed_cells(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"a": [1.5, None, 2.0], "b": ["x", "y", None], "c": [1, "two", 3.0]})
    frame.to_excel(tmp_path / "x.xlsx", index=False)
    expected = {"a": [1.5, None, 2.0], "b": ["x", "y", None], "c": ["1", "two", "3"]}
    assert read_table(tmp_path / "x.xlsx").to_pydict() == expected


def test_workbooks_with_several_sheets(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "x.xlsx") as book:
        for sheet in ("May", "June"):
            pd.DataFrame({sheet: [1.5, 2.5]}).to_excel(book, sheet_name=sheet, index=False)
    with pytest.warns(FileFormatWarning, match="2 sheets, and the first, 'May', is read"):
        assert read_table(tmp_path / "x.xlsx").to_pydict() == {"May": [1.5, 2.5]}


def test_annotated_matrices(tmp_path):
    h5py = pytest.importorskip("h5py")
    matrix = scipy.sparse.random_array((6, 9), density=0.4, rng=np.random.default_rng(0), format="csr")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        group = file.create_group("X")
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(matrix, part)
        group.attrs["shape"] = matrix.shape
        group.attrs["encoding-type"] = "csr_matrix"
    assert (read_table(tmp_path / "x.h5ad") != matrix).nnz == 0
    with h5py.File(tmp_path / "x.h5ad", "a") as file:
        file["obsm/X_umap"] = np.ones((6, 2))
        file["obs/index"] = np.array([f"cell{i}".encode() for i in range(6)])
        file["obs"].attrs["_index"] = "index"
    assert read_table(tmp_path / "x.h5ad").column_names == ["cell", "umap0", "umap1"]


@pytest.mark.parametrize(
    ("ending", "package", "extra"),
    [("csv", "pyarrow", "frames"), ("xlsx", "openpyxl", "excel"), ("h5ad", "h5py", "h5ad")],
)
def test_missing_packages_are_named(tmp_path, monkeypatch, ending, package, extra):
    path = tmp_path / f"x.{ending}"
    path.write_text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingDependencyError, match=rf"need {package}.*pip install 'clusterwise\[{extra}\]'"
    ):
        read_table(path)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow"])
def test_results_come_back(tmp_path, ending):
    table = pa.table({"id": ["a", "b"], "label": [0, 1], "confidence": [1 / 3, 1e-19]})
    write_table(tmp_path / f"labels{ending}", table)
    assert read_table(tmp_path / f"labels{ending}").to_pydict() == table.to_pydict()


def test_labels_as_array(tmp_path):
    write_table(tmp_path / "labels.npy", pa.table({"row": [0, 1], "label": [5, 7]}))
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), [5, 7])


def test_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "labels.npy"
    path.write_text("old")
    with pytest.raises(KeyError):
        write_table(path, pa.table({"a": [1]}))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_endings():
    assert format_of("A.CSV") == "csv"
    with pytest.raises(InvalidDataError, match=r"ends in '\.doc'; use one of \.csv"):
        format_of("a.doc")
    with pytest.raises(InvalidDataError, match="has no ending"):
        format_of("a")
    with pytest.raises(InvalidDataError, match=r"written to one of \.csv, \.tsv, \.parquet, \.arrow, \.npy"):
        output_format_of("a.xlsx")
