"""Delimited text: separators, headers, missing cells, and what is wrong in a file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clusterwise.datasets import delimited
from clusterwise.datasets.delimited import (
    find_separator,
    has_header,
    parse_cell,
    read_delimited,
    write_delimited,
)
from clusterwise.exceptions import InvalidDataError

TABLES = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.floats(allow_nan=False)
)


def write(tmp_path, text: str):
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode("utf-8"))
    return path


@given(TABLES, st.sampled_from([",", ";", "\t"]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_round_trip_keeps_every_bit(tmp_path_factory, values, separator, headed, newline):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    rows = [separator.join(repr(float(v)) for v in row) for row in values]
    names = [f"x{j}" for j in range(values.shape[1])]
    path.write_text(newline.join([separator.join(names)] * headed + rows) + newline, newline="")
    table = read_delimited(path)
    np.testing.assert_array_equal(table.values, values)
    assert table.n_rows == len(values)
    assert list(table.column_names) == (names if headed else [f"column {j}" for j in range(len(names))])


@pytest.mark.parametrize(
    ("cell", "number"),
    [("1.5", 1.5), (" -2e3 ", -2000.0), ("true", 1.0), ("False", 0.0), ("inf", np.inf), ("7", 7.0)],
)
def test_cells_with_numbers(cell, number):
    assert parse_cell(cell) == number


@pytest.mark.parametrize("cell", ["", "  ", "NA", "nan", "NULL", "None", "?"])
def test_cells_without_a_value_are_nan(cell):
    assert np.isnan(parse_cell(cell))


@pytest.mark.parametrize("cell", ["Oslo", "12_34", "1,5", "0x10", "1 2"])
def test_cells_with_text(cell):
    assert parse_cell(cell) is None


def test_separator_is_the_one_that_cuts_regularly():
    assert find_separator(["x;y\n", "1,5;2,5\n"]) == ";"
    assert find_separator(["a b\tc\n", "1\t2\n"]) == "\t"
    assert find_separator(['"a;b",c\n', "1,2\n"]) == ","
    assert find_separator(["1\n", "2\n"]) in delimited.SEPARATORS


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (["x", "y"], ["1", "2"], True),
        (["", "x"], ["0", "2"], True),  # pandas leaves the name of the index empty
        (["x", "y"], None, True),
        (["city", "2020"], ["Oslo", "3"], False),
        (["size", "2020"], ["4", "3"], True),
        (["1", "2"], ["3", "4"], False),
        (["Oslo", "1"], ["Bergen", "2"], False),
        (["", "1"], ["2", "3"], False),
    ],
)
def test_header(first, second, expected):
    assert has_header(first, second) is expected


def test_missing_cells_booleans_blank_lines_quotes_and_byte_order_mark(tmp_path):
    path = write(tmp_path, '\ufeff"a, b",c\n1,true\n\n"2",\n,FALSE\n')
    table = read_delimited(path)
    assert table.column_names == ("a, b", "c")
    np.testing.assert_array_equal(table.values, [[1, 1], [2, np.nan], [np.nan, 0]])


def test_text_column_is_named_with_its_first_row(tmp_path):
    path = write(tmp_path, "x,city\n1,\n2,3\n3,4\n4,Oslo\n5,Bergen\n")
    with pytest.raises(
        InvalidDataError, match=r"^column 'city' holds text \(row 3: 'Oslo'\); leave it out with"
    ):
        read_delimited(path)
    np.testing.assert_array_equal(read_delimited(path, ["x"]).values.ravel(), [1, 2, 3, 4, 5])


def test_rows_are_counted_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "ROWS_AT_ONCE", 7)
    numbers = "\n".join(str(i) for i in range(40))
    np.testing.assert_array_equal(read_delimited(write(tmp_path, numbers)).values.ravel(), np.arange(40))
    with pytest.raises(InvalidDataError, match=r"row 40: 'end'"):
        read_delimited(write(tmp_path, numbers + "\nend\n"))


def test_text_far_down_a_long_cell_is_shortened(tmp_path):
    with pytest.raises(InvalidDataError) as caught:
        read_delimited(write(tmp_path, "x\n1\n" + "a" * 500 + "\n"))
    assert len(str(caught.value)) < 150


def test_ragged_line_is_named(tmp_path):
    with pytest.raises(InvalidDataError, match=r"line 4 of .* has 3 cells where the first has 2"):
        read_delimited(write(tmp_path, "x,y\n1,2\n3,4\n5,6,7\n"))


@pytest.mark.parametrize("text", ["\n\n", "x,y\n"])
def test_nothing_to_read(tmp_path, text):
    with pytest.raises(InvalidDataError, match="must hold at least one row"):
        read_delimited(write(tmp_path, text))


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(b"x,y\n1,\xff\xfe\n")
    with pytest.raises(InvalidDataError, match="not UTF-8"):
        read_delimited(path)
    path.write_bytes(b'x\n"' + b"1" * 200_000 + b"\n")
    with pytest.raises(InvalidDataError, match="not valid csv"):
        read_delimited(path)


def test_written_numbers_are_read_back_exactly(tmp_path):
    columns = {"a": np.array([0, 1, 2]), "b": np.array([0.1, 1 / 3, 1e-300])}
    write_delimited(tmp_path / "x.csv", columns)
    table = read_delimited(tmp_path / "x.csv")
    assert table.column_names == ("a", "b")
    np.testing.assert_array_equal(table.values, np.column_stack(list(columns.values())))
