"""The first five minutes: a table of customers as it is, and files and inputs that are hostile or plain."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import runpy
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import InvalidDataError

CUSTOMERS = runpy.run_path(str(Path(__file__).parent / "customers.py"))


# -- customers --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled() -> None:
    """Functions are compiled once for an installation, which takes longer than the rest."""
    cw.Clusterer(random_state=0).fit(CUSTOMERS["draw_customers"](100, n=200)[0])


@pytest.mark.parametrize("seed", [101, 102, 103])
def test_customers_with_the_default_command(run, folder, compiled, seed):
    frame, group = CUSTOMERS["draw_customers"](seed)
    frame.to_csv("customers.csv", index=False)
    started = time.process_time()
    result = run("cluster", "customers.csv")
    assert time.process_time() - started < 10
    assert result.exit_code == 0, result.output
    table = pd.read_csv("customers.labels.csv")
    np.testing.assert_array_equal(table["customer_id"], frame["customer_id"])
    assert table["label"].nunique() == 4
    assert adjusted_rand_score(group, table["label"]) >= 0.95
    for name in ("customer_id", "signup", "remark"):
        assert f"note: column '{name}' is set aside" in result.stderr


def test_units_do_not_matter(run, folder):
    frame, _ = CUSTOMERS["draw_customers"](104, n=500)
    labels = []
    for seed in (None, 1, 2):
        changed = frame.copy()
        if seed is not None:
            powers = 10.0 ** np.random.default_rng(seed).integers(-3, 5, len(CUSTOMERS["UNITS"]))
            changed[list(CUSTOMERS["UNITS"])] *= powers
        changed.to_parquet("customers.parquet")
        assert run("cluster", "customers.parquet", "--out", "labels.npy").exit_code == 0
        labels.append(np.load("labels.npy"))
    np.testing.assert_array_equal(labels[0], labels[1])
    np.testing.assert_array_equal(labels[0], labels[2])


# -- 25 files: labels, or one line with a remedy ---------------------------------------------------------

HEAPS = np.repeat([[0.0, 0.0], [9.0, 5.0]], 15, axis=0) + np.random.default_rng(0).normal(size=(30, 2))
LINES = "".join(f"{x:.4f},{y:.4f}\n" for x, y in HEAPS)


def zipped(files):
    """An archive of texts by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


GOOD = {
    "comma.csv": ("a,b\n" + LINES).encode(),
    "no_header.csv": LINES.encode(),
    "bom.csv": ("a,b\n" + LINES).encode("utf-8-sig"),
    "utf16.csv": ("a,b\n" + LINES).encode("utf-16"),
    "latin.csv": ("größe,b\n" + LINES).encode("latin-1"),
    "german.csv": ("a;b\n" + LINES.replace(",", ";").replace(".", ",")).encode(),
    "tabs.tsv": ("a\tb\n" + LINES.replace(",", "\t")).encode(),
    "windows.csv": ("a,b\n" + LINES).replace("\n", "\r\n").encode(),
    "packed.csv.gz": gzip.compress(("a,b\n" + LINES).encode()),
    "years.csv": ("2019,2020\n" + LINES).encode(),
    "packed.csv.bz2": bz2.compress(("a,b\n" + LINES).encode()),
    "packed.zip": zipped({"inner.csv": "a,b\n" + LINES}),
    "accounting.csv": (
        "a,b\n" + "".join(f"{x:.4f},{f'({-y:.4f})' if y < 0 else f'{y:.4f}'}\n" for x, y in HEAPS)
    ).encode(),
    "index.csv": (",a,b\n" + "".join(f"{i},{row}\n" for i, row in enumerate(LINES.split()))).encode(),
    "twice.csv": ("a,a\n" + LINES).encode(),
    "gaps.csv": ("a,b\n" + LINES + ",3\nNA,\n").encode(),
    "blank_lines.csv": ("\n\na,b\n" + LINES.replace("\n", "\n\n")).encode(),
    "thousands.csv": ("a;b\n" + "".join(f"1.{i:03d},5;{i}\n" for i in range(0, 900, 30))).encode(),
    "quoted.csv": ('"a, first","b\nsecond"\n' + LINES).encode(),
    "spaces.txt": LINES.replace(",", "   ").encode(),
    "comments.csv": ("# exported on Monday\n# by hand\na,b\n" + LINES).encode(),
    "title.csv": ("Sales of May\n\na,b\n" + LINES).encode(),
    "old_mac.csv": ("a,b\n" + LINES).replace("\n", "\r").encode(),
    "money.csv": ("a,b\n" + "".join(f"${x:.4f},{y:.4f} %\n" for x, y in HEAPS)).encode(),
    "dates.csv": (
        "day,a,b\n" + "".join(f"{i + 1:02d}.03.2024,{row}\n" for i, row in enumerate(LINES.split()))
    ).encode(),
    "wide.csv": "\n".join(
        [",".join(f"gene{i}" for i in range(1500)), *(",".join([f"{x:.4f},{y:.4f}"] * 750) for x, y in HEAPS)]
    ).encode(),
}
BAD = {
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"a,b\n", "holds a header and no rows"),
    "ragged.csv": (b"a,b\n1,2\n3,4,5\n", "line 3 of ragged.csv has 3 cells where the first has 2"),
    "ids.csv": (
        b"id,name\n" + b"".join(b"%d,n%d\n" % (i, i) for i in range(20)),
        "'id' numbers the rows, like an id",
    ),
    "open_quote.csv": (b'a,b\n1,2\n"3,4\n5,6\n', "close or delete the quotation mark"),
    "two.zip": (zipped({"a.csv": LINES, "b.csv": LINES}), "holds 2 files (a.csv, b.csv); pack the table"),
    "infinite.csv": (("a,b\n" + LINES + "inf,2\n").encode(), "infinity at row 30 column 'a'"),
    "page.html": (b"<html></html>", "ends in '.html'; use one of .csv"),
    "image.csv": (bytes(range(256)) * 20, "is not text"),
    "broken.parquet": (b"PAR1 and nothing else", "is truncated, damaged or no parquet file"),
    "broken.npy": (b"\x93NUMPY\x01\x00", "is truncated"),
    "text.json": (json.dumps({"a": [1, 2]}).encode(), "ends in '.json'; use one of .csv"),
}


def test_there_are_25_of_them():
    assert len(GOOD) + len(BAD) >= 25


# -- what is passed to an estimator in Python, beside files ------------------------------------------------

FRAME = pd.DataFrame(HEAPS, columns=["a", "b"])
INPUTS = {
    "numbers as names": pd.DataFrame(HEAPS),
    "two lines of header": pd.DataFrame(HEAPS, columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])),
    "dates": FRAME.assign(day=pd.date_range("2024-01-01", periods=30)),
    "words and an id": FRAME.assign(id=range(30), name=[f"name {i}" for i in range(30)]),
    "masked": np.ma.masked_array(HEAPS, np.arange(60).reshape(30, 2) == 7),
    "records": FRAME.to_records(index=False),
    "strings": [[f"{x:.3f}", f"{y:.3f}"] for x, y in HEAPS],
}
NO_TABLES = {
    "file": ("data.csv", "read it first"),
    "dict": ({"a": [1.0, 2.0]}, "make a data frame of it first"),
    "one column": (FRAME["a"], "Pass a DataFrame containing"),
    "ragged": ([[1.0, 2.0], [3.0]], "differ in length"),
    "twice the same name": (pd.DataFrame(HEAPS, columns=["a", "a"]), "rename or drop all but one"),
    "dates alone": (np.full((30, 2), "2024-01-01", dtype="datetime64[D]"), "name those to use with columns="),
    "nothing": (None, "X is None; pass an array"),
    "complex numbers": (HEAPS + 1j, "pass real and imaginary parts"),
    "three axes": (HEAPS[None], "rows of pixels"),
    "no rows": (HEAPS[:0], "0 sample"),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
def test_inputs_that_give_labels(name):
    labels = cw.Clusterer(random_state=0).fit_predict(INPUTS[name])
    assert adjusted_rand_score(np.repeat([0, 1], 15), labels) == 1


@pytest.mark.parametrize("name", NO_TABLES)
def test_inputs_that_give_one_sentence(name):
    X, message = NO_TABLES[name]
    with pytest.raises(InvalidDataError, match=message) as caught:
        cw.Clusterer().fit(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", GOOD)
def test_files_that_give_labels(run, folder, name):
    (folder / name).write_bytes(GOOD[name])
    result = run("cluster", name, "--out", "labels.csv", "--method", "gaussian-search")
    assert result.exit_code == 0, result.output
    labels = pd.read_csv("labels.csv")["label"]
    if name not in ("thousands.csv", "gaps.csv"):
        assert adjusted_rand_score(np.repeat([0, 1], 15), labels) == 1
    assert "Traceback" not in result.output


@pytest.mark.parametrize("name", BAD)
def test_files_that_give_one_line(run, folder, name):
    content, message = BAD[name]
    (folder / name).write_bytes(content)
    result = run("cluster", name)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert line.startswith("error: ")
    assert message in line
