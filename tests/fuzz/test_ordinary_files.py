"""Files that are unusual and not hostile are read; hostile ones end in one sentence that names the file."""

from __future__ import annotations

import io
import json
import struct
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse
from typer.testing import CliRunner

import clusterwise as cw
from clusterwise._files import write_tables
from clusterwise._safety import MAX_LETTERS, printable
from clusterwise.cli.app import app
from clusterwise.exceptions import InvalidDataError, RecipeError, WeightsFileError
from clusterwise.papers.methods import make_model
from clusterwise.pretrained import get_weights, weights_path
from clusterwise.tables import TablePreparation, read_table
from clusterwise.training import read_recipe
from tests.fuzz.inputs import SECRET, good_files

NUMBERS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def refused(path: Path, match: str | None = None) -> None:
    """Reading ends in one sentence, which names the file."""
    with pytest.raises(InvalidDataError, match=match) as caught:
        read_table(path)
    sentence = str(caught.value)
    assert path.name in sentence and sentence.endswith(".") and "\n" not in sentence


# -- ordinary files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [">i4", ">f8", "<f2", ">u2", "f16"])
def test_arrays_of_other_machines(tmp_path, dtype):
    np.save(tmp_path / "x.npy", NUMBERS.astype(dtype))
    table = read_table(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.column_stack(table.columns).astype(float), NUMBERS)


def test_structured_arrays(tmp_path):
    structured = np.array(
        [tuple(row) for row in NUMBERS.repeat(9, axis=0)], dtype=[("a", ">f8"), ("b", "i4")]
    )
    np.save(tmp_path / "x.npy", structured)
    assert read_table(tmp_path / "x.npy").column_names == ["a", "b"]
    fitted = cw.Clusterer(random_state=0).fit(structured)
    assert list(fitted.preparation_.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(fitted.predict(structured), fitted.labels_)


def test_names_of_several_types():
    frame = pd.DataFrame(NUMBERS.repeat(9, axis=0), columns=["a", 1])
    for kind in (cw.Clusterer, cw.GaussianSearch):
        fitted = kind(random_state=0).fit(frame)
        assert list(fitted.feature_names_in_) == ["a", "1"]
        np.testing.assert_array_equal(fitted.predict(frame), fitted.labels_)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "Mars/Olympus"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_in_every_unit_and_zone(tmp_path, unit, zone):
    stamps = pa.array([86_400, None, 2 * 86_400], pa.timestamp("s")).cast(pa.timestamp(unit))
    nanoseconds = [1, None, 3] if unit == "ns" else [0, None, 0]  # which no coarser unit has
    stamps = pa.array(
        [
            None if n is None else n + s
            for n, s in zip(nanoseconds, stamps.cast(pa.int64()).to_pylist(), strict=True)
        ]
        if unit == "ns"
        else stamps.cast(pa.int64()).to_pylist()
    ).cast(pa.timestamp(unit, zone))
    path = tmp_path / ("x.arrow" if unit == "s" else "x.parquet")
    write = pyarrow.feather.write_feather if unit == "s" else pyarrow.parquet.write_table
    write(pa.table({"when": stamps, "x": [1.0, 2.0, 4.0]}), path)
    table = read_table(path)
    features = TablePreparation(include=["when"]).fit_transform(table)
    assert np.isfinite(features).all()
    write_tables(tmp_path / "out.csv", [table], 3)


def test_a_carriage_return_alone_ends_a_line(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\r3,4\n5,6\n")
    assert read_table(tmp_path / "x.csv").to_pydict() == {"a": [1, 3, 5], "b": [2, 4, 6]}


@pytest.mark.parametrize("name", ["a\rb", 'q"', "a\nb", "x,y", "=1+1", "-2+3", "@x"])
def test_names_of_columns_come_back(tmp_path, name):
    table = pa.table({name: [1.0, 2.5], "other": ["u", "v"]})
    write_tables(tmp_path / "x.csv", [table], 2, formulas=True)
    assert read_table(tmp_path / "x.csv").column_names == [name, "other"]
    assert list(pd.read_csv(tmp_path / "x.csv").columns) == [name, "other"]


def test_cells_that_a_spreadsheet_would_run(tmp_path):
    words = ["=1+1", "+49 171", "-12.5 €", "@SUM(A1)", "-2+3", "+cmd|' /C calc'!A0", "fine", None, "\t=1"]
    table = pa.table({"=name": words, "dictionary": pa.array(words).dictionary_encode(), "x": range(9)})
    write_tables(tmp_path / "x.csv", [table], 9)
    found = pd.read_csv(tmp_path / "x.csv")
    assert list(found.columns) == ["'=name", "dictionary", "x"]
    safe = ["'=1+1", "+49 171", "-12.5 €", "'@SUM(A1)", "'-2+3", "'+cmd|' /C calc'!A0", "fine", None, "'\t=1"]
    for column in ("'=name", "dictionary"):
        assert [None if cell != cell else cell for cell in found[column]] == safe
    write_tables(tmp_path / "x.csv", [table], 9, formulas=True)
    assert pd.read_csv(tmp_path / "x.csv")["=name"][0] == "=1+1"


def test_lists_cannot_be_written_as_text(tmp_path):
    with pytest.raises(InvalidDataError, match=r"x\.csv cannot hold column 'a'.*write \.parquet"):
        write_tables(tmp_path / "x.csv", [pa.table({"a": [[1], [2]]})], 2)


# -- limits -----------------------------------------------------------------------------------------


def test_many_columns_of_one_name_take_no_longer():
    started = time.process_time()
    names = read_table_of(
        b",".join([b"a"] * 20_000) + b"\n" + b",".join([b"1.5"] * 20_000) + b"\n"
    ).column_names
    assert time.process_time() - started < 10
    assert len(set(names)) == 20_000 and names[:3] == ["a", "a (2)", "a (3)"]


def read_table_of(data: bytes):
    from clusterwise.tables.delimited import read_text

    return read_text(data, "x.csv")


def test_long_names_and_many_columns_need_trust(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("5" * 5001 + ",b\n1,2\n3,4\n")
    refused(path, "5,001 letters")
    path.write_text("a" * (MAX_LETTERS + 1) + ",b\n1,2\n3,4\n")
    refused(path, "letters, more than 1,000; shorten it, or if you trust its source")
    assert read_table(path, trusted=True).num_columns == 2
    path.write_text(",".join(["a"] * 100_001) + "\n" + ",".join(["1"] * 100_001) + "\n")
    refused(path, "100,001 columns, more than 100,000")


def bomb_gz(path: Path) -> None:
    import gzip

    block = gzip.compress(b"1,2\n" * 250_000, mtime=0)
    path.write_bytes(block * 100)


def bomb_npz(path: Path) -> None:
    np.savez_compressed(path, X=np.zeros((10_000_000, 2)))


def bomb_h5ad(path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("obsm/X_pca", (10**8, 2), "f8", chunks=(1000, 2))


def bomb_xlsx(path: Path) -> None:
    row = b'<row><c t="n"><v>1</v></c></row>'
    sheet = b"<worksheet><sheetData>" + row * 2_000_000 + b"</sheetData></worksheet>"
    with zipfile.ZipFile(io.BytesIO(good_files()["data.xlsx"])) as good:
        members = {name: good.read(name) for name in good.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**members, "xl/worksheets/sheet1.xml": sheet}.items():
            archive.writestr(name, data)


def bomb_parquet(path: Path) -> None:
    same = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10**7, np.int32)), ["a"])
    pyarrow.parquet.write_table(pa.table({"a": same, "b": same}), path)


@pytest.mark.parametrize("make", [bomb_gz, bomb_npz, bomb_h5ad, bomb_xlsx, bomb_parquet])
def test_small_files_that_become_large_need_trust(tmp_path, make: Callable[[Path], None]):
    path = tmp_path / f"x.{make.__name__.removeprefix('bomb_')}"
    path = path.with_name("x.csv.gz") if make is bomb_gz else path
    make(path)
    started = time.process_time()
    refused(path, "if you trust its source, read it with --trusted, or trusted=True in Python")
    assert time.process_time() - started < 10


def test_a_header_of_a_row_too_many(tmp_path):
    np.save(tmp_path / "x.npy", NUMBERS)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data.replace(b"(3, 2)", b"(9**9,)").replace(b"3, 2)", b"10**12)"))
    refused(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(
        data.replace(b"'shape': (3, 2), }       ", b"'shape': (1000000000, 2),}"[:25])
    )
    refused(tmp_path / "x.npy")


# -- layouts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("value", [10**9, -1])
def test_indices_of_sparse_matrices(tmp_path, kind, value):
    matrix = scipy.sparse.random_array((20, 9), density=0.4, rng=np.random.default_rng(0), format=kind)
    path = tmp_path / "x.npz"
    scipy.sparse.save_npz(path, matrix)
    np.testing.assert_array_equal(read_table(path).toarray(), matrix.toarray())
    parts = dict(np.load(path))
    place = "col" if kind == "coo" else "indices"
    parts[place] = parts[place].copy()
    parts[place][3] = value
    np.savez(path, **parts)
    refused(path, "parts of its sparse matrix do not fit")
    del parts[place]
    np.savez(path, **parts)
    refused(path)


@pytest.mark.parametrize("how", ["external link", "external storage", "virtual", "soft link"])
def test_nothing_outside_of_an_annotated_file_is_read(tmp_path, monkeypatch, how):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    (tmp_path / SECRET).mkdir()
    with h5py.File(f"{SECRET}/x.h5", "w") as file:
        file["data"] = NUMBERS
    (tmp_path / SECRET / "x.bin").write_bytes(NUMBERS.tobytes())
    with h5py.File("x.h5ad", "w") as file:
        match how:
            case "external link":
                file["obsm/X_pca"] = h5py.ExternalLink(f"{SECRET}/x.h5", "/data")
            case "external storage":
                file.create_dataset("obsm/X_pca", (3, 2), "f8", external=[(f"{SECRET}/x.bin", 0, 48)])
            case "virtual":
                layout = h5py.VirtualLayout((3, 2), "f8")
                layout[:] = h5py.VirtualSource(f"{SECRET}/x.h5", "data", (3, 2))
                file.create_virtual_dataset("obsm/X_pca", layout)
            case _:
                file["outside"] = h5py.ExternalLink(f"{SECRET}/x.h5", "/data")
                file["obsm/X_pca"] = h5py.SoftLink("/outside")
    refused(tmp_path / "x.h5ad", "points elsewhere for it")


@pytest.mark.parametrize("metadata", [b"no json", b"[1]", b'{"index_columns": 5}', b"\xff"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_metadata_that_is_no_json(tmp_path, metadata, ending):
    table = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": metadata})
    write = pyarrow.parquet.write_table if ending == "parquet" else pyarrow.feather.write_feather
    write(table, tmp_path / f"x.{ending}")
    refused(tmp_path / f"x.{ending}")


# -- weights and recipes ----------------------------------------------------------------------------


def changed_weights(path: Path, change: Callable[[dict], object]) -> Path:
    """Shipped weights whose header says something else."""
    data = weights_path("amcp-2d").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    entries = {key: json.loads(value) for key, value in header["__metadata__"].items()}
    change(entries)
    header["__metadata__"] = {key: json.dumps(value) for key, value in entries.items()}
    encoded = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data[8 + length :])
    return path


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e["recipe"].pop("method"),
        lambda e: e["recipe"].update(method="\x1b[31m"),
        lambda e: e["recipe"]["model"].update(n_encoder_blocks=2_000_000),
        lambda e: e["recipe"]["model"].update(n_inducing=16_000_000),
        lambda e: e["recipe"]["model"].update(n_wavelengths=10**9),
        lambda e: e["recipe"]["model"].update(sinkhorn_iterations=10**9),
        lambda e: e["facts"].pop("largest_coordinate"),
        lambda e: e["facts"].update(largest_coordinate=None),
        lambda e: e["facts"].update(cut=[1]),
        lambda e: e.update(recipe=[1]),
    ],
    ids=[*"0123456789"],
)
def test_headers_of_weights(tmp_path, change):
    path = changed_weights(tmp_path / "x.safetensors", change)
    started = time.process_time()
    with pytest.raises(WeightsFileError, match=r"x\.safetensors does not fit"):
        get_weights(path)
    assert time.process_time() - started < 5


def test_recipes_that_are_none(tmp_path):
    for data in (b"a = " + b"[" * 50_000, b"\xff\xfe", b"name = 'a\0b'", b"= 3"):
        (tmp_path / "x.toml").write_bytes(data)
        with pytest.raises(RecipeError, match=r"x\.toml"):
            read_recipe(tmp_path / "x.toml")
    with pytest.raises(RecipeError, match="at most 10,000"):
        make_model("dac", {"n_encoder_blocks": 2_000_000})
    with pytest.raises(RecipeError, match="too large"):
        make_model("dac", {"n_encoder_blocks": 10_000})


# -- what is printed --------------------------------------------------------------------------------


def test_nothing_gives_orders_to_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "\x1b[31m\u202ered"
    (tmp_path / f"{name}.csv").write_text(f"{name},b\n1,2\n")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(f"{name}1.csv", "1,2\n")
        archive.writestr(f"{name}2.csv", "1,2\n")
    np.savez(tmp_path / "y.npz", **{name: NUMBERS, "other": NUMBERS})
    weights = changed_weights(tmp_path / f"{name}.safetensors", lambda e: e["recipe"].update(method=name))
    for arguments in (
        [f"{name}.csv"],
        ["x.zip"],
        ["y.npz"],
        [f"{name}.csv", "--weights", weights.name],
        [f"{name}.csv", "--columns", name],
    ):
        ended = CliRunner().invoke(app, ["cluster", *arguments])
        shown = ended.stdout + ended.stderr
        assert ended.exit_code in (0, 2) and "\x1b" not in shown and "\u202e" not in shown
        assert "Traceback" not in shown
    assert printable("a\x1b[2Jb\u202e\ud800\r\n") == "a\\x1b[2Jb\\u202e\\ud800\\r\\n"


def test_a_page_shows_no_signs_that_turn_it(tmp_path):
    pytest.importorskip("jinja2")
    from clusterwise.report import write_report

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["\u202eevil", "b"])
    write_report(
        cw.GaussianSearch(random_state=0).fit(frame), frame, tmp_path / "x.html", title="\u202etitle"
    )
    assert "\u202e" not in (tmp_path / "x.html").read_text()
