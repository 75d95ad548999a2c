"""From the bytes of a text file to UTF-8, its separator, and whether its first row names the columns."""

from __future__ import annotations

import csv
import io
import itertools
import re
import warnings
from collections.abc import Sequence

from clusterwise._names import distinct_names
from clusterwise.exceptions import GuessedEncodingWarning, InvalidDataError

__all__ = ["as_utf8", "column_names_of", "find_separator", "first_rows", "line_of_row", "tidy_lines"]

SEPARATORS = (",", ";", "\t", "|")
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-"})
NUMBER = re.compile(r"[+-]?(\d[\d.,' ]*|\.\d+)([eE][+-]?\d+)?$|[+-]?(inf|infinity)$", re.I)
CHARACTERS_TO_SNIFF = 2_000_000
LINES_TO_SNIFF = 50
BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def as_utf8(data: bytes, name: str) -> bytes:
    """Return text in UTF-8 without a byte order mark; text in Latin-1 or Windows-1252 is found, and said."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            if encoding == "utf-8-sig":
                return data[len(mark) :]
            try:
                return data.decode(encoding).encode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidDataError(f"{name} is damaged UTF-16 text; save it as UTF-8.") from error
    head = data[:1000]
    if head.count(0) > len(head) // 4:  # Latin letters in UTF-16: every second byte is zero
        encoding = "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" not in text:
            return text.encode("utf-8")
    if b"\0" in data:
        raise InvalidDataError(
            f"{name} is not text; its name should say what it is, such as .parquet or .npy."
        )
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text, encoding = _single_bytes(data)
        warnings.warn(GuessedEncodingWarning(file=name, line=line, encoding=encoding), stacklevel=2)
        return text.encode("utf-8")
    return data


def _single_bytes(data: bytes) -> tuple[str, str]:
    """Text of one byte for each letter, and the name of its encoding.

    Windows has letters, the sign of the euro among them, where Latin-1 has signs that no table holds.
    """
    plain = data.decode("latin-1")
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return plain, "Latin-1"
    return (plain, "Latin-1") if text == plain else (text, "Windows-1252")


def tidy_lines(data: bytes) -> bytes:
    """UTF-8 text with \\n or \\r\\n at its ends of lines, without what may stand above the table.

    That is blank lines, comments, and the line ``sep=;`` by which Excel is told the separator.
    """
    if b"\n" not in data:
        data = data.replace(b"\r", b"\n")
    data = re.sub(rb"\A(?:[ \t]*\r?\n)+", b"", data)  # pyarrow would count them as a header
    data = re.sub(rb'(?i)\A"?sep=[^\r\n]"?,*[ \t]*\r?\n', b"", data)
    while data.startswith(b"#"):
        line, _, rest = data.partition(b"\n")
        # numpy.savetxt writes the names of columns like that
        if rest and not rest.startswith(b"#") and _are_alike(line[1:], rest.partition(b"\n")[0]):
            return line[1:].lstrip() + b"\n" + rest
        data = rest
    return data


def _are_alike(line: bytes, other: bytes) -> bool:
    """Whether the separator that cuts one line most often cuts both into equally many cells, at least two."""
    line, other = line.strip(), other.strip()
    separator = max((*(s.encode() for s in SEPARATORS), b" "), key=other.count)
    return line.count(separator) == other.count(separator) > 0


def _without_quoted(text: str) -> str:
    """The text with quoted cells replaced by a word: they may hold separators and line ends."""
    return re.sub(r'"(?:[^"]|"")*"', "q", text)


def find_separator(text: str) -> str:
    """Return the separator that cuts the first lines into equally many cells, at least two if any does.

    A space stands for any number of them, between numbers only.
    """
    lines = [line for line in _without_quoted(text[:CHARACTERS_TO_SNIFF]).splitlines() if line.strip()]
    lines = lines[:LINES_TO_SNIFF]
    if len(text) > CHARACTERS_TO_SNIFF and len(lines) > 1:
        lines = lines[:-1]  # cut off in the middle, perhaps
    counts = {separator: [line.count(separator) for line in lines] for separator in SEPARATORS}
    regular = {s: n[0] for s, n in counts.items() if n and n[0] > 0 and len(set(n)) == 1}
    # In a file with decimal commas both may be regular; semicolons and tabs are never part of a number.
    for separator in (";", "\t"):
        if separator in regular:
            return separator
    if not regular and _are_columns_of_numbers(lines):
        return " "
    # If none is regular the file is ragged: the most frequent separator lets the error say where.
    candidates = regular or {s: sum(n) for s, n in counts.items()}
    return max(candidates, key=lambda separator: candidates[separator])


def _are_columns_of_numbers(lines: Sequence[str]) -> bool:
    """Whether lines, but for the first, are equally many numbers with spaces between them, at least two."""
    rows = [line.split() for line in lines]
    widths = {len(row) for row in rows}
    return (
        len(widths) == 1
        and widths != {1}
        and all(_is_number(cell) for row in rows[1:] or rows for cell in row)
    )


def first_rows(text: str, separator: str, count: int = 2) -> list[list[str]]:
    """Return the cells of the first rows that hold something."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    rows = (row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(map(str.strip, row)))
    return [row for row, _ in zip(rows, range(count), strict=False)]


def line_of_row(text: str, separator: str, width: int) -> int:
    """Line, counted from 1, in which the first row with another number of cells than ``width`` ends."""
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    for row in reader:
        if row and len(row) != width:
            break
    return reader.line_num


def _is_number(cell: str) -> bool:
    return NUMBER.match(cell.strip()) is not None


def _names_columns(first: Sequence[str], second: Sequence[str] | None) -> bool:
    """Tell whether the first row names the columns.

    It does if none of its cells is a number, if one is text above a number, or if its cells count on from
    one to the next, as years or numbers of columns do, and those of the second row do not.
    """
    cells = [cell.strip() for cell in first]
    present = [cell for cell in cells if cell.lower() not in MISSING]
    if not present:
        return second is not None and any(cell.strip() for cell in second)
    if not any(_is_number(cell) for cell in present):
        return True
    below = [cell.strip() for cell in second or ()]
    if any(
        cell.lower() not in MISSING and not _is_number(cell) and _is_number(under)
        for cell, under in zip(cells, below, strict=False)
    ):
        return True
    return _counts_on(cells) and second is not None and not _counts_on(below)


def _counts_on(cells: Sequence[str]) -> bool:
    cells = cells[1:] if cells and cells[0] == "" else cells  # an index without a name
    if len(cells) < 2 or not all(cell.isdecimal() for cell in cells):
        return False
    return all(int(after) - int(before) == 1 for before, after in itertools.pairwise(cells))


def column_names_of(rows: Sequence[Sequence[str]]) -> tuple[list[str], bool]:
    """Names of the columns, no two the same, and whether the first row holds them."""
    headed = _names_columns(rows[0], rows[1] if len(rows) > 1 else None)
    names = [cell.strip() if headed else "" for cell in rows[0]]
    return distinct_names(names), headed
