"""Tables from every format, results to every format, whole or not at all; what is wrong in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clusterwise._files import require_table_format, write_tables
from clusterwise.exceptions import FileFormatWarning, InvalidDataError, MissingDependencyError
from clusterwise.tables.delimited import find_layout, read_text
from clusterwise.tables.readers import format_of, read_table

# -- text -------------------------------------------------------------------------------------------

VALUES = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=st.floats(allow_nan=False)
)


def read(text: str) -> dict[str, list]:
    return read_text(text.encode("utf-8"), "data.csv").to_pydict()


@given(VALUES, st.sampled_from([",", ";", "\t"]), st.booleans(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_round_trip_keeps_every_bit(values, separator, headed, newline):
    rows = [separator.join(repr(float(v)) for v in row) for row in values]
    names = [f"x{j}" for j in range(values.shape[1])]
    text = newline.join([separator.join(names)] * headed + rows) + newline
    table = read_text(text.encode(), "data.csv")
    np.testing.assert_array_equal(np.column_stack(table.columns).astype(float), values)
    assert table.column_names == (names if headed else [f"column {j}" for j in range(len(names))])


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a b\n1.5 2\n3.5 4\n", {"a": [1.5, 3.5], "b": [2, 4]}),
        ("  a    b\n 1.5   2\n13.5  14\n", {"a": [1.5, 13.5], "b": [2, 14]}),
        ("# a b\n1.5 2\n3.5 4\n", {"a": [1.5, 3.5], "b": [2, 4]}),  # as numpy.savetxt writes names
        ("# exported on Monday\n# by hand\na,b\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
        ("a;b\n1,5;2\n-0,25;3\n", {"a": [1.5, -0.25], "b": [2, 3]}),
        ('a,b\n"one\ntwo, three",5\nfour,6\n', {"a": ["one\ntwo, three", "four"], "b": [5, 6]}),
        ("\n\r\n  \na,b\n\n1,2\n\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
        ("sep=;\na;b\n1,5;2\n3;4\n", {"a": [1.5, 3.0], "b": [2, 4]}),
        ('"sep=;"\r\na;b\n1,5;2\n3;4\n', {"a": [1.5, 3.0], "b": [2, 4]}),
        ("\nSEP=;\na;b\n1,5;2\n3;4\n", {"a": [1.5, 3.0], "b": [2, 4]}),
        ("sep=width,b\n1,2\n3,4\n", {"sep=width": [1, 3], "b": [2, 4]}),
        ("a,a,a (2)\n1,2,3\n", {"a": [1], "a (2)": [2], "a (2) (2)": [3]}),
        ('a,"b\nsecond"\n1,2\n', {"a": [1], "b\nsecond": [2]}),
        ("Sales of May\n\na;b\n1,5;2\n3;4\n", {"a": [1.5, 3.0], "b": [2, 4]}),
        ("f,g\ntrue,NA\nFalse,x\n", {"f": [True, False], "g": [None, "x"]}),
    ],
)
def test_texts_as_people_have_them(text, table):
    assert read(text) == table


def test_dates_are_recognized():
    assert pa.types.is_date(read_text(b"d,f\n2020-01-05,1\n2021-02-03,2\n", "x.csv").schema.field("d").type)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ('"x;y",b\n"p;q",2\n', ","),
        ("a\n1\n2\n", ","),
        ('note,b\n"line 1\nline, 2",3\n', ","),
        ("Title\na;b\n1,5;2,5\n1,5;2,5\n1,5;2,5\n1,5;2,5\n", ";"),
    ],
)
def test_separators(text, separator):
    assert find_layout(text.splitlines(keepends=True)).separator == separator


def test_ten_thousand_columns():
    values = np.random.default_rng(0).normal(size=(3, 10_000))
    text = "\n".join([",".join(f"gene{j}" for j in range(10_000)), *(",".join(map(str, r)) for r in values)])
    np.testing.assert_array_equal(np.column_stack(read_text(text.encode(), "wide.csv").columns), values)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding):
    table = read_text("Größe;b\n1,5;2\n2,5;3\n".encode(encoding), "x.csv")
    assert table.to_pydict() == {"Größe": [1.5, 2.5], "b": [2, 3]}


@pytest.mark.parametrize(
    ("encoding", "euro", "name"), [("cp1252", "€", "Windows-1252"), ("latin-1", "$", "Latin-1")]
)
def test_one_byte_for_each_letter_is_said(encoding, euro, name):
    with pytest.warns(FileFormatWarning, match=rf"x\.csv is not UTF-8 \(line 1\) and is read as {name}"):
        table = read_text(f"Größe;b\n5 {euro};2\n3 {euro};4\n".encode(encoding), "x.csv")
    assert table.column("Größe").to_pylist() == [f"5 {euro}", f"3 {euro}"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"a,b\n1,2\n3\n5,6\n",
            "line 3 of x.csv has 1 cell where the first has 2; give every line the same",
        ),
        (b"a,b\n1,2\n3,4,5\n", "line 3 of x.csv has 3 cells where the first has 2"),
        (b'\n\na,b\n\n"x\ny",2\n3,4,5\n', "line 7 of x.csv has 3 cells"),
        (b"5\n\n1,2\n3,4\n", "line 3 of x.csv.*; delete what stands above the names of the columns"),
        (b'a,b\n1,2\n"3,4\n5,6\n', "close or delete the quotation mark that is left open"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "holds a header and no rows"),
        (b"PAR1\x00\x15\x00\x00\x01", "is not text"),
    ],
)
def test_what_is_wrong_in_a_text(data, message):
    with pytest.raises(InvalidDataError, match=message):
        read_text(data, "x.csv")


# -- files ------------------------------------------------------------------------------------------

NUMBERS = np.array([[1.0, 0.1], [2.0, -3e7], [4.0, 1 / 3]])
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
    save(path, NUMBERS)
    table = read_table(str(path))
    np.testing.assert_array_equal(numbers(table), NUMBERS)
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
        archive.writestr("__MACOSX/._data.csv", b"added by a system")
    return buffer.getvalue()


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".zst", ".zip"])
def test_compressed_text(tmp_path, ending):
    path = tmp_path / f"data.csv{ending}"
    path.write_bytes(packed(b"a;b\n1,5;2\n2,5;3\n", ending))
    assert read_table(path).to_pydict() == {"a": [1.5, 2.5], "b": [2, 3]}
    path.write_bytes(b"a;b\n1,5;2\n")
    with pytest.raises(InvalidDataError, match="truncated, damaged or no"):
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
    np.savez(tmp_path / "x.npz", table=NUMBERS, labels=np.zeros(3))
    np.testing.assert_array_equal(numbers(read_table(tmp_path / "x.npz")), NUMBERS)
    np.savez(tmp_path / "x.npz", p=NUMBERS, q=NUMBERS)
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
    with pd.ExcelWriter(tmp_path / "x.xlsx") as book:
        frame.to_excel(book, sheet_name="May", index=False)
        frame.to_excel(book, sheet_name="June", index=False)
    expected = {"a": [1.5, None, 2.0], "b": ["x", "y", None], "c": ["1", "two", "3"]}
    with pytest.warns(FileFormatWarning, match="2 sheets, and the first, 'May', is read"):
        assert read_table(tmp_path / "x.xlsx").to_pydict() == expected


def test_annotated_matrices(tmp_path):
    h5py = pytest.importorskip("h5py")
    matrix = scipy.sparse.csr_array(np.random.default_rng(0).poisson(0.5, (6, 9)).astype(float))
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


def test_endings():
    assert format_of("A.CSV") == "csv"
    with pytest.raises(InvalidDataError, match=r"ends in '\.doc'; use one of \.csv"):
        format_of("a.doc")
    with pytest.raises(InvalidDataError, match="has no ending"):
        format_of("a")
    with pytest.raises(InvalidDataError, match=r"written to one of \.csv, \.tsv, \.parquet, \.arrow, \.npy"):
        require_table_format(Path("a.xlsx"))


# -- results ----------------------------------------------------------------------------------------

RESULTS = pa.table(
    {"id": ["a", "b"], 'say "x", y': ["one\ntwo", 'a "q"'], "label": [0, 1], "p": [1 / 3, 1e-19]}
)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow"])
def test_results_come_back(tmp_path, ending):
    path = tmp_path / f"labels{ending}"
    write_tables(path, [RESULTS[:1], RESULTS[1:]], 2)
    assert read_table(path).to_pydict() == RESULTS.to_pydict()
    if ending == ".csv":
        assert path.read_text().startswith('id,"say ""x"", y",label,p\n"a","one\ntwo",0,0.33333333')


def test_labels_as_array(tmp_path):
    write_tables(tmp_path / "labels.npy", [RESULTS], 2)
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), [0, 1])


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "npy"])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(tmp_path, ending):
    def tables():
        yield RESULTS
        raise RuntimeError("no more")

    path = tmp_path / f"labels.{ending}"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no more"):
        write_tables(path, tables(), 4)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_members_of_an_archive_that_are_no_arrays_are_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", b"not an array")
    with pytest.raises(InvalidDataError, match="0 tables"):
        read_table(path)
