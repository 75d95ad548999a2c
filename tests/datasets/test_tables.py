"""Formats by ending, and the choice of columns."""

from __future__ import annotations

import pytest

from clusterwise.datasets.tables import choose_columns, format_of
from clusterwise.exceptions import InvalidDataError


def test_format_comes_from_the_ending():
    assert [format_of(f"a.b{ending}") for ending in (".csv", ".TSV", ".parquet", ".npy")] == [
        "csv",
        "tsv",
        "parquet",
        "npy",
    ]


@pytest.mark.parametrize("name", ["data.xlsx", "data", "data.csv.gz"])
def test_unknown_ending_lists_what_works(name):
    with pytest.raises(InvalidDataError, match=r"\.csv, \.tsv, \.parquet, \.npy"):
        format_of(name)


def test_columns_by_name_before_number():
    names = ["a", "2", "c"]
    assert choose_columns(names, None) == [0, 1, 2]
    assert choose_columns(names, ["c", "a"]) == [2, 0]
    assert choose_columns(names, ["0", "2"]) == [0, 1]  # there is a column called 2


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["d"], "there is no column 'd'; the file has 'a', 'b', 'b'"),
        (["3"], "there is no column '3'"),
        (["-1"], "there is no column '-1'"),
        (["b"], "2 columns are called 'b'"),
        (["a", "0"], "twice"),
        ([], "no column was chosen"),
    ],
)
def test_bad_choices(wanted, message):
    with pytest.raises(InvalidDataError, match=message):
        choose_columns(["a", "b", "b"], wanted)
