"""Delimited text: separators, headers, ways to write numbers, encodings, and what is wrong in a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clusterwise.exceptions import FileFormatWarning, InvalidDataError
from clusterwise.tables.delimited import read_delimited, write_delimited
from clusterwise.tables.text import as_utf8, column_names_of, find_separator

TABLES = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 8), st.integers(1, 4)), elements=st.floats(allow_nan=False)
)


def read(text: str) -> dict[str, list]:
    return read_delimited(text.encode("utf-8"), "data.csv").to_pydict()


@given(TABLES, st.sampled_from([",", ";", "\t"]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_round_trip_keeps_every_bit(values, separator, headed, newline):
    rows = [separator.join(repr(float(v)) for v in row) for row in values]
    names = [f"x{j}" for j in range(values.shape[1])]
    text = newline.join([separator.join(names)] * headed + rows) + newline
    table = read_delimited(text.encode(), "data.csv")
    np.testing.assert_array_equal(np.column_stack(table.columns).astype(float), values)
    assert table.column_names == (names if headed else [f"column {j}" for j in range(len(names))])


def test_writing_and_reading_agree(tmp_path):
    table = pa.table({"a": [1, 2], "b": [0.1, 1 / 3], 'say "x", y': ["one\ntwo", 'a "quote"']})
    write_delimited(tmp_path / "x.csv", table)
    assert (tmp_path / "x.csv").read_text().startswith('a,b,"say ""x"", y"\n1,0.1,')
    assert read_delimited((tmp_path / "x.csv").read_bytes(), "x.csv").to_pydict() == table.to_pydict()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a;b\n1,5;2\n-0,25;3\n", [1.5, -0.25]),
        ("a;b\n1.234,5;2\n2.000.000,75;3\n", [1234.5, 2000000.75]),
        ('a,b\n"1,234.5",2\n"12",3\n', [1234.5, 12.0]),
        ("a;b\n1 234,5;2\n7,25;3\n", [1234.5, 7.25]),
        ("a\tb\n1'234.5\t2\n7\t3\n", [1234.5, 7.0]),
        ("a;b\n1,5e3;2\n+2,0;3\n", [1500.0, 2.0]),
        ("a;b\n1,234;2\n5,678;3\n", [1.234, 5.678]),  # between semicolons commas are for decimals
        ('a,b\n"1,234",2\n"5,678",3\n', [1234.0, 5678.0]),
        ("a,b\n1,2\nNA,3\n", [1, None]),
        ("a,b\n1,2\n?,3\n", [1, None]),
        ("a|b\n1|2\n3|4\n", [1, 3]),
        ('a,b\n"$1,234.50",2\n-$3,3\n', [1234.5, -3.0]),
        ("a;b\n12,5 €;2\n7 €;3\n", [12.5, 7.0]),
        ('a,b\n"(1,234.50)",2\n7,3\n', [-1234.5, 7.0]),
        ("a;b\n(€ 12,5);2\n- 7,5;3\n", [-12.5, -7.5]),
        ("a,b\n12.5%,2\n7 %,3\n", [12.5, 7.0]),
        ("a b\n1.5 2\n3.5 4\n", [1.5, 3.5]),
        ("  a    b\n 1.5   2\n13.5  14\n", [1.5, 13.5]),
        ("# a b\n1.5 2\n3.5 4\n", [1.5, 3.5]),  # as numpy.savetxt writes names
        ("# exported on Monday\n# by hand\na,b\n1,2\n3,4\n", [1, 3]),
        ("a,b\r1,2\r3,4\r", [1, 3]),
    ],
)
def test_ways_to_write_numbers(text, numbers):
    assert read(text)["a"] == numbers


@pytest.mark.parametrize("text", ["a,b\n12_34,1\n5,2\n", "a,b\nOslo,1\n5,2\n", 'a,b\n"1,2,3",1\n5,2\n'])
def test_words_stay_words(text):
    assert all(isinstance(cell, str) for cell in read(text)["a"])


def test_dates_and_booleans_are_recognized():
    table = read_delimited(b"d,f\n2020-01-05,true\n2021-02-03,False\n", "x.csv")
    assert pa.types.is_date(table.schema.field("d").type)
    assert table.column("f").to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("rows", "names", "headed"),
    [
        ([["a", "b"], ["1", "2"]], ["a", "b"], True),
        ([["1", "2"], ["3", "4"]], ["column 0", "column 1"], False),
        ([["x", "1"], ["y", "2"]], ["column 0", "column 1"], False),
        ([["name", "2020"], ["y", "2"]], ["column 0", "column 1"], False),
        ([["", "0", "1"], ["0", "5.5", "1.5"]], ["column 0", "0", "1"], True),  # written by pandas
        ([["2019", "2020", "2021"], ["1.5", "7", "3"]], ["2019", "2020", "2021"], True),
        ([["1", "2", "3"], ["2", "3", "4"]], ["column 0", "column 1", "column 2"], False),
        ([["a", "a", "a (2)"], ["1", "2", "3"]], ["a", "a (2)", "a (2) (2)"], True),
    ],
)
def test_headers(rows, names, headed):
    assert column_names_of(rows) == (names, headed)


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ('"x;y",b\n"p;q",2\n', ","),
        ("a\n1\n2\n", ","),
        ('note,b\n"line 1\nline, 2",3\n', ","),
    ],
)
def test_separators(text, separator):
    assert find_separator(text) == separator


def test_quoted_newlines_and_separators_are_part_of_their_cell():
    assert read('a,b\n"one\ntwo, three",5\nfour,6\n') == {"a": ["one\ntwo, three", "four"], "b": [5, 6]}


def test_blank_lines_do_not_count():
    assert read("\n\r\n  \na,b\n\n1,2\n\n3,4\n") == {"a": [1, 3], "b": [2, 4]}


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "\nSEP=;\n"])
def test_the_line_that_tells_excel_the_separator_does_not_count(line):
    table = read_delimited((line + "a;b\n1,5;2\n3;4\n").encode(), "x.csv")
    assert table.to_pydict() == {"a": [1.5, 3.0], "b": [2, 4]}


def test_a_column_may_begin_like_that_line():
    assert read_delimited(b"sep=width,b\n1,2\n3,4\n", "x.csv").column_names == ["sep=width", "b"]


def test_ten_thousand_columns():
    values = np.random.default_rng(0).normal(size=(3, 10_000))
    text = "\n".join([",".join(f"gene{j}" for j in range(10_000)), *(",".join(map(str, r)) for r in values)])
    table = read_delimited(text.encode(), "wide.csv")
    np.testing.assert_array_equal(np.column_stack(table.columns).astype(float), values)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings(encoding):
    text = "Größe;b\n1,5;2\n2,5;3\n"
    assert as_utf8(text.encode(encoding), "x.csv").decode() == text


def test_the_sign_of_the_euro_as_windows_writes_it():
    with pytest.warns(FileFormatWarning, match="read as Windows-1252"):
        table = read_delimited("Größe;b\n1.234,5 €;2\n3,5 €;4\n".encode("cp1252"), "x.csv")
    assert table.column("Größe").to_pylist() == [1234.5, 3.5]


def test_latin_1_is_said():
    with pytest.warns(FileFormatWarning, match=r"x\.csv is not UTF-8 \(line 1\) and is read as Latin-1"):
        table = read_delimited("Größe,b\n1,2\n3,4\n".encode("latin-1"), "x.csv")
    assert table.column_names == ["Größe", "b"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"a,b\n1,2\n3\n5,6\n",
            "line 3 of x.csv has 1 cell where the first has 2; give every line the same",
        ),
        (b"a,b\n1,2\n3,4,5\n", "line 3 of x.csv has 3 cells where the first has 2"),
        (b'\n\na,b\n\n"x\ny",2\n3,4,5\n', "line 7 of x.csv has 3 cells"),
        (
            b"Sales of May\n\na,b\n1,2\n",
            "line 3 of x.csv.*; delete what stands above the names of the columns",
        ),
        (b'a,b\n1,2\n"3,4\n5,6\n', "close or delete the quotation mark that is left open"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "holds a header and no rows"),
        (b"PAR1\x00\x15\x00\x00\x01", "is not text"),
    ],
)
def test_what_is_wrong_in_a_file(data, message):
    with pytest.raises(InvalidDataError, match=message):
        read_delimited(data, "x.csv")
