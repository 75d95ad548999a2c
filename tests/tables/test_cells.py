"""What cells mean: the same in a text, a workbook, and a data frame that somebody else has read."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import clusterwise as cw
from clusterwise.tables.cells import find_header, parse_dates, parse_numbers
from clusterwise.tables.columns import read_columns
from clusterwise.tables.readers import read_table, read_text

WRITTEN = [
    ("a;b\n1,5;2\n-0,25;3\n", [1.5, -0.25]),
    ("a;b\n1.234,5;2\n2.000.000,75;3\n", [1234.5, 2000000.75]),
    ('a,b\n"1,234.5",2\n"12",3\n', [1234.5, 12.0]),
    ("a;b\n1 234,5;2\n7,25;3\n", [1234.5, 7.25]),
    ("a\tb\n1'234.5\t2\n7\t3\n", [1234.5, 7.0]),
    ("a;b\n1,5e3;2\n+2,0;3\n", [1500.0, 2.0]),
    ('a,b\n"1,234",2\n"5,678",3\n', [1234.0, 5678.0]),
    ("a,b\n1,2\nNA,3\n", [1, None]),
    ("a,b\n1,2\n?,3\n", [1, None]),
    ("a|b\n1|2\n3|4\n", [1, 3]),
    ('a,b\n"$1,234.50",2\n-$3,3\n', [1234.5, -3.0]),
    ("a;b\n12,5 €;2\n7 €;3\n", [12.5, 7.0]),
    ('a,b\n"(1,234.50)",2\n7,3\n', [-1234.5, 7.0]),
    ("a;b\n(€ 12,5);2\n- 7,5;3\n", [-12.5, -7.5]),
    ("a,b\n12.5%,2\n7 %,3\n", [12.5, 7.0]),
    ("a,b\n$5,2\nn/a,3\n", [5.0, None]),
]


def column(table: object, name: str = "a") -> list[float | str | None]:
    (found,) = [each for each in read_columns(table).columns if each.name == name]
    return [None if gap else value for value, gap in zip(found.values, found.missing, strict=True)]


@pytest.mark.parametrize(("text", "numbers"), WRITTEN)
@pytest.mark.parametrize("reader", ["ours", "pandas", "polars", "Excel"])
def test_numbers_mean_the_same_whoever_has_read_them(text, numbers, reader, tmp_path):
    separator = next(sign for sign in "\t;|," if sign in text.splitlines()[0])
    frame = pd.read_csv(io.StringIO(text), sep=separator)
    if reader == "ours":
        table = read_text(text.encode(), "data.csv")
    elif reader == "pandas":
        table = frame
    elif reader == "polars":
        table = pytest.importorskip("polars").from_pandas(frame)
    else:
        pytest.importorskip("openpyxl")
        frame.to_excel(tmp_path / "x.xlsx", index=False)
        table = read_table(tmp_path / "x.xlsx")
    assert column(table) == numbers


def test_commas_between_semicolons_are_for_decimals():
    assert column(read_text(b"a;b\n1,234;2\n5,678;3\n", "x.csv")) == [1.234, 5.678]


@pytest.mark.parametrize("word", ["12_34", "Oslo", "1,2,3", "(5", "$", "5 $ 5", "1.2.3"])
def test_words_stay_words(word):
    assert column(pd.DataFrame({"a": [word, "5"]})) == [word, "5"]
    assert parse_numbers([word]) is None


def test_declared_categories_keep_their_names():
    frame = pd.DataFrame({"a": pd.Categorical(["none", "-", "1,5", None])})
    assert column(frame) == ["none", "-", "1,5", None]


def test_rows_to_come_are_read_in_the_style_of_fit():
    """1,234 alone is written in two ways; the rows of fit say which one it is."""
    rng = np.random.default_rng(0)
    words = [f"{x:.3f}".replace(".", ",") for x in rng.normal(3, 1, 200)]
    frame = pd.DataFrame({"a": [*words[:-1], "1,5"], "b": rng.normal(size=200)})
    preparation = cw.TablePreparation()
    features = preparation.fit_transform(frame)
    np.testing.assert_array_equal(preparation.transform(frame[:1]), features[:1])


def test_the_table_of_a_file_is_that_of_pandas(tmp_path):
    rng = np.random.default_rng(1)
    lines = [
        f'{i},"${1e4 * rng.random():,.2f}",{100 * rng.random():.1f}%,{rng.choice(["n/a", "1.5", "2.25"])}'
        for i in range(100)
    ]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["id,paid,share,grade", *lines]))
    of_file = cw.TablePreparation().fit_transform(read_table(path))
    np.testing.assert_array_equal(cw.TablePreparation().fit_transform(pd.read_csv(path)), of_file)
    assert of_file.shape == (100, 3)


# -- titles -----------------------------------------------------------------------------------------

TITLED = [["Sales of May", None, None], [None, None, None], ["day", "amount", "share"]]


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_titles_stand_above_a_table(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    rows = [*TITLED, *([i, 1.5 * i, f"{i} %"] for i in range(30))]
    if ending == "csv":
        pd.DataFrame(rows).to_csv(path, index=False, header=False)
        frame = pd.read_csv(path)
    else:
        pytest.importorskip("openpyxl")
        pd.DataFrame(rows).to_excel(path, index=False, header=False)
        frame = pd.read_excel(path)
    table = read_table(path)
    assert table.column_names == TITLED[2]
    assert table.num_rows == 30
    assert column(table, "share") == list(range(30))
    # Rows of a data frame keep their places; those of the titles are empty.
    above = len(frame) - 30
    assert column(frame, "share") == [None] * above + list(range(30))
    np.testing.assert_allclose(
        cw.TablePreparation(include=["day"]).fit_transform(frame)[above:],
        cw.TablePreparation(include=["day"]).fit_transform(table),
    )


@pytest.mark.parametrize(
    ("rows", "n"),
    [
        (TITLED + [["1", "2", "3"]], 2),
        ([["Report", None], ["a", "b"], ["1", "2"]], 1),
        ([["", "a"], ["0", "5"]], 0),  # an index without a name
        ([["name", ""], ["x", "1"], ["y", "2"]], 0),  # a column without a name
        ([["1", ""], ["a", "b"], ["3", "4"]], 0),
        ([["a", "b"], ["1", "2"]], 0),
        ([["a"], ["1"]], 0),
        ([["a", "b"]], 0),
    ],
)
def test_what_is_a_title(rows, n):
    assert find_header(rows).n_above == n


# -- headers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "headed"),
    [
        ([["a", "b"], ["1", "2"]], True),
        ([["1", "2"], ["3", "4"]], False),
        ([["x", "1"], ["y", "2"]], False),
        ([["name", "2020"], ["y", "2"]], False),
        ([["", "0", "1"], ["0", "5.5", "1.5"]], True),  # written by pandas
        ([["2019", "2020", "2021"], ["1.5", "7", "3"]], True),
        ([[2019, 2020], [1.5, 7]], True),  # in a workbook
        ([["1", "2", "3"], ["2", "3", "4"]], False),
        ([["price", "b"], ["$1,234", "2"]], True),
        ([["$1,234", "2"], ["$5", "4"]], False),
    ],
)
def test_headers(rows, headed):
    assert find_header(rows).is_row == headed


# -- dates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "first"),
    [
        (["2024-03-01", "2024-12-31"], 19783),
        (["2024/3/1 12:00", "2024/12/31 00:30:00"], 19783.5),
        (["01.03.2024", "31.12.2024"], 19783),
        (["3/1/2024", "12/31/2024"], 19783),
        (["1/3/2024", "31/12/2024"], 19783),
        (["3/1/2024", "4/1/2024"], 19783),  # either way: the month comes first before a slash
        (["31.02.2024", "01.03.2024"], None),
        (["13/13/2024", "01/03/2024"], None),
        (["2024-03-01", "soon"], None),
        (["2024", "2025"], None),
    ],
)
def test_ways_to_write_dates(words: list[str], first: float | None) -> None:
    days = parse_dates(words)
    assert days is None if first is None else days is not None and days[0] == first
