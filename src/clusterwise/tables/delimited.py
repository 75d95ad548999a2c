"""Delimited text (csv, tsv) by pyarrow's reader; numbers written with commas or separators of thousands."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from clusterwise.exceptions import InvalidDataError
from clusterwise.tables.file_tables import import_or_say
from clusterwise.tables.text import (
    as_utf8,
    column_names_of,
    find_separator,
    first_rows,
    line_of_row,
    tidy_lines,
)

__all__ = ["read_delimited", "write_delimited"]

NULLS = [
    "",
    " ",
    "NA",
    "N/A",
    "n/a",
    "na",
    "nan",
    "NaN",
    "NAN",
    "null",
    "NULL",
    "Null",
    "none",
    "None",
    "NONE",
]
NULLS += ["?", "-", "#N/A", "#NA", "<NA>"]
# Ways to write numbers: signs between thousands, and the sign before decimals.
SPACES = "[ '\u00a0\u202f]"
STYLES = {
    "1,234.5": ("[,]", "[.]"),
    "1.234,5": ("[.]", "[,]"),
    "1 234,5": (SPACES, "[,]"),
    "1 234.5": (SPACES, "[.]"),
}
MONEY = "[$€£¥]"
IN_PARENTHESES = rf"^\s*\(\s*({MONEY}?)\s*([^()+-]*\d[^()+-]*)\)\s*$"
LONGEST_LINE = 1 << 28


def read_delimited(data: bytes, name: str, separator: str | None = None) -> Any:
    """Read text (bytes of a file) as a pyarrow table; the separator is found if it is not given."""
    arrow, reader = import_or_say("pyarrow", "csv files"), import_or_say("pyarrow.csv", "csv files")
    given = as_utf8(data, name)
    data = tidy_lines(given)
    skipped = max(0, given.count(b"\n") - data.count(b"\n"))
    text = data[: 4 * LONGEST_LINE].decode("utf-8", errors="ignore")
    if separator is None:
        separator = find_separator(text)
    if separator == " ":
        text = re.sub(r"(?m)^[ \t]+|[ \t]+$", "", data.decode("utf-8"))
        text = re.sub(r"[ \t]+", "\t", text)
        data, separator = text.encode("utf-8"), "\t"
    rows = first_rows(text, separator)
    if not rows:
        raise InvalidDataError(f"{name} is empty; it must hold at least one row of numbers.")
    names, headed = column_names_of(rows)
    if headed and len(rows) == 1:
        raise InvalidDataError(
            f"{name} holds a header and no rows; it must hold at least one row of numbers."
        )
    wrong: list[Any] = []

    def note(row: Any) -> str:
        wrong.append(row)
        return "skip"

    read = reader.ReadOptions(
        use_threads=False,
        column_names=names,
        skip_rows_after_names=1 if headed else 0,
        block_size=min(LONGEST_LINE, max(1 << 20, len(data))),
    )
    parse = reader.ParseOptions(
        delimiter=separator, newlines_in_values=True, invalid_row_handler=note, ignore_empty_lines=True
    )
    convert = reader.ConvertOptions(
        null_values=NULLS, strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    try:
        table = reader.read_csv(arrow.BufferReader(data), read, parse, convert)
    except arrow.ArrowInvalid as error:
        raise InvalidDataError(
            f"{name} is not valid csv ({_first_line(error)}); save it again as csv."
        ) from error
    if wrong:
        first = wrong[0]
        line = line_of_row(text, separator, first.expected_columns) + skipped
        remedy = "give every line the same number"
        if first.expected_columns == 1 and first.actual_columns > 1:
            remedy = "delete what stands above the names of the columns"
        elif text.count('"') % 2:
            remedy = "close or delete the quotation mark that is left open"
        count = f"{first.actual_columns} cell{'s' * (first.actual_columns != 1)}"
        raise InvalidDataError(
            f"line {line} of {name} has {count} where the first has {first.expected_columns}; {remedy}."
        )
    columns = [_numbers_if_written_so(column, separator) for column in table.columns]
    return arrow.table(columns, names=names)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:200]


def _numbers_if_written_so(column: Any, separator: str) -> Any:
    """A column of strings as numbers, if all of them are numbers in one way of writing."""
    arrow, compute = import_or_say("pyarrow", "csv files"), import_or_say("pyarrow.compute", "csv files")
    if not arrow.types.is_string(column.type):
        return column
    # (1,234) is how accountants write -1,234
    signed = compute.replace_substring_regex(column, IN_PARENTHESES, r"-\1\2")
    present = signed.drop_null()
    if len(present) == 0:
        return column
    # 1,234 alone may be either; where the semicolon separates cells, the comma is for decimals.
    order = ["1.234,5", "1,234.5"] if separator == ";" else ["1,234.5", "1.234,5"]
    for style in [*order, "1 234,5", "1 234.5"]:
        thousands, decimal = STYLES[style]
        digits = rf"(\d{{1,3}}({thousands}\d{{3}})+|\d*)({decimal}\d*)?([eE][+-]?\d+)?"
        pattern = rf"^\s*{MONEY}?\s*[+-]?\s*{MONEY}?{digits}\s*({MONEY}|%)?\s*$"
        has_digit = compute.match_substring_regex(present, r"\d")
        fits = compute.and_(compute.match_substring_regex(present, pattern), has_digit)
        if compute.all(fits).as_py():
            plain = compute.replace_substring_regex(signed, rf"{MONEY}|%|\s", "")
            plain = compute.replace_substring_regex(plain, thousands, "")
            plain = compute.replace_substring_regex(plain, decimal, ".")
            return compute.utf8_ltrim(plain, "+").cast(arrow.float64())
    return column


def write_delimited(path: Path, table: Any, separator: str = ",") -> None:
    """Write a pyarrow table as text; floats keep every digit."""
    writer = import_or_say("pyarrow.csv", "csv files")
    header = io.StringIO()  # pyarrow would put every name in quotes
    csv.writer(header, delimiter=separator, lineterminator="\n").writerow(table.column_names)
    with path.open("wb") as file:
        file.write(header.getvalue().encode("utf-8"))
        writer.write_csv(table, file, writer.WriteOptions(include_header=False, delimiter=separator))
