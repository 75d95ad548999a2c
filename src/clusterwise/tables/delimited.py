"""The table of a delimited text, such as csv, as a pyarrow table.

pyarrow reads. What is ours is to find out how a text was written: its encoding, its separator, and in which
line the table begins. What its cells mean is found out later, as for data frames: see ``columns``.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterwise._extras import import_extra
from clusterwise._safety import one_sentence, require_modest_names
from clusterwise.exceptions import GuessedEncodingWarning, InvalidDataError
from clusterwise.tables.cells import MISSING_WORDS, Header, distinct_names, find_header, parse_numbers

__all__ = ["LINES_TO_SNIFF", "NO_ROWS", "find_layout", "read_text"]

NO_ROWS = "it must hold at least one row of numbers"
SEPARATORS = (",", ";", "\t", "|")
LINES_TO_SNIFF = 50
MAX_BLOCK = 1 << 28  # bytes that pyarrow guesses the types of columns from
NULLS = sorted({form for word in MISSING_WORDS for form in (word, word.upper(), word.title())} | {" ", "NaN"})


@dataclass(frozen=True)
class Layout:
    """The way in which a text was written."""

    separator: str
    header: Header  # its rows are lines
    decimal: str


def read_text(data: bytes, name: str, separator: str | None = None, trusted: bool = False) -> Any:
    """A pyarrow table of delimited text (bytes of a file); the separator is found if it is not given."""
    arrow, reader = import_extra("pyarrow", "csv files"), import_extra("pyarrow.csv", "csv files")
    data = _as_utf8(data, name)
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    # A carriage return alone ends a line, too: here as for pyarrow.
    lines = list(itertools.islice(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), LINES_TO_SNIFF))
    layout = find_layout(lines, name, separator)
    require_modest_names(name, layout.header.names, trusted)
    data = data[len("".join(lines[: layout.header.n_above]).encode("utf-8")) :]
    separator = layout.separator
    if separator == " ":  # any number of them
        data = re.sub(rb"[ \t]+", b"\t", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", data))
        separator = "\t"
    wrong: list[Any] = []

    def skip(row: Any) -> str:
        wrong.append(row)
        return "skip"

    read = reader.ReadOptions(
        use_threads=False,
        column_names=layout.header.names,
        skip_rows_after_names=int(layout.header.is_row),
        block_size=min(MAX_BLOCK, max(1 << 20, len(data))),
    )
    parse = reader.ParseOptions(
        delimiter=separator,
        newlines_in_values=True,
        invalid_row_handler=skip,
    )
    convert = reader.ConvertOptions(
        check_utf8=False, null_values=NULLS, strings_can_be_null=True, decimal_point=layout.decimal
    )
    with one_sentence(name, "valid csv", "save it again as csv"):
        table = reader.read_csv(arrow.BufferReader(data), read, parse, convert)
    if wrong:
        raise _ragged(data.decode("utf-8"), name, separator, layout.header.n_above, wrong[0])
    if table.num_rows == 0:
        raise InvalidDataError(f"{name} holds a header and no rows; {NO_ROWS}.")
    return table


def _ragged(text: str, name: str, separator: str, n_above: int, row: Any) -> InvalidDataError:
    """The error for a row with another number of cells than there are columns."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    next((cells for cells in rows if cells and len(cells) != row.expected_columns), None)
    remedy = "give every line the same number"
    if row.expected_columns == 1 and row.actual_columns > 1:
        remedy = "delete what stands above the names of the columns"
    elif text.count('"') % 2:
        remedy = "close or delete the quotation mark that is left open"
    count = f"{row.actual_columns} cell{'s' * (row.actual_columns != 1)}"
    return InvalidDataError(
        f"line {rows.line_num + n_above} of {name} has {count} where the first has {row.expected_columns}; "
        f"{remedy}."
    )


def _as_utf8(data: bytes, name: str) -> bytes:
    """Text in UTF-8 without a byte order mark; one byte for each letter is found, and a warning says so."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return data.decode("utf-16").encode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidDataError(f"{name} is damaged UTF-16 text; save it as UTF-8.") from error
    if 4 * data[:1000].count(0) > len(data[:1000]):  # Latin letters in UTF-16: every second byte is zero
        is_little = data[1:1000:2].count(0) > data[:1000:2].count(0)
        text = data.decode("utf-16-le" if is_little else "utf-16-be", errors="replace")
        if not {"\0", "\ufffd"} & set(text):
            return text.encode("utf-8")
    if b"\0" in data:
        raise InvalidDataError(
            f"{name} is not text; its name should say what it is, such as .parquet or .npy."
        )
    try:
        data.decode("utf-8")
        return data.removeprefix(b"\xef\xbb\xbf")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Windows has letters, the sign of the euro among them, where Latin-1 has signs that no table holds.
    text, encoding = data.decode("latin-1"), "Latin-1"
    if any("\x80" <= sign < "\xa0" for sign in set(text)):
        with contextlib.suppress(UnicodeDecodeError):
            text, encoding = data.decode("cp1252"), "Windows-1252"
    warnings.warn(GuessedEncodingWarning(file=name, line=line, encoding=encoding), stacklevel=2)
    return text.encode("utf-8")


def find_layout(lines: Sequence[str], name: str = "the text", separator: str | None = None) -> Layout:
    """The layout of a text, from its first lines.

    Above a table may stand blank lines, comments, titles, and the line ``sep=;`` by which Excel is told the
    separator. numpy.savetxt writes the names of columns in a comment.
    """
    start = 0
    while start < len(lines) and re.match(r'(?i)\s*$|#|"?sep=[^\r\n]"?,*\s*$', lines[start]):
        start += 1
    if start == len(lines):
        raise InvalidDataError(f"{name} is empty; {NO_ROWS}.")
    separator = separator or _find_separator(lines[start:])
    rows = _rows_of(lines[start:], separator)
    header = find_header(rows)
    header = Header(start + header.n_above, header.names, header.is_row)
    if start and lines[start - 1].startswith("#"):
        comment = _rows_of([lines[start - 1].lstrip("# ")], separator)[0]
        if len(comment) == len(rows[0]) > 1:
            header = Header(start, distinct_names(comment), False)
    cells = [cell.strip() for row in rows for cell in row]
    commas = sum(re.fullmatch(r"[+-]?\d*,\d+", cell) is not None for cell in cells)
    points = sum(re.fullmatch(r"[+-]?\d*[.]\d+", cell) is not None for cell in cells)
    return Layout(separator, header, "," if commas > points and separator != "," else ".")


def _rows_of(lines: Sequence[str], separator: str) -> list[list[str]]:
    if separator == " ":
        return [line.split() for line in lines]
    csv.field_size_limit(sys.maxsize)
    return list(csv.reader(lines, delimiter=separator))


def _find_separator(lines: Sequence[str]) -> str:
    """The separator that cuts most lines into equally many cells; a space for columns of numbers.

    In a file with decimal commas both may do so; semicolons and tabs are never part of a number.
    """
    text = re.sub(r'"(?:[^"]|"")*"', "q", "".join(lines))  # quoted cells may hold separators and line ends
    lines = [line for line in text.splitlines() if line.strip()]
    regular: dict[str, tuple[int, int]] = {}
    for separator in SEPARATORS:
        count, n_lines = Counter(line.count(separator) for line in lines).most_common(1)[0]
        regular[separator] = (n_lines if count else 0, count)
        if separator in ";\t" and regular[separator][0] > 0.8 * len(lines):
            return separator
    best = max(SEPARATORS, key=lambda separator: regular[separator])
    rows = [line.split() for line in lines]
    is_even = len({len(row) for row in rows}) == 1 < len(rows[0])
    if regular[best][0] == len(lines) or not is_even:
        return best
    cells = [cell for row in rows[1:] or rows for cell in row]
    return " " if all(parse_numbers([cell]) is not None for cell in cells) else best
