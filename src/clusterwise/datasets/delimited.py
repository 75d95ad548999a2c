"""Delimited text (csv, tsv): find the separator and the header, then read numbers block by block."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from clusterwise.datasets.tables import Table, choose_columns, text_column_error, unnamed_columns
from clusterwise.exceptions import InvalidDataError

__all__ = ["find_separator", "has_header", "parse_cell", "read_delimited", "write_delimited"]

SEPARATORS = (",", ";", "\t")
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
TRUTH = {"true": 1.0, "false": 0.0}
LINES_TO_SNIFF = 50
ROWS_AT_ONCE = 50_000  # keeps the strings of a large file from being in memory all at once


def parse_cell(cell: str) -> float | None:
    """Return the number in a cell, NaN for a missing one, None for text."""
    cell = cell.strip()
    word = cell.lower()
    if word in MISSING:
        return float("nan")
    if word in TRUTH:
        return TRUTH[word]
    if "_" in cell:  # Python reads 12_34 as a number; in a file it is a name
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def find_separator(lines: Sequence[str]) -> str:
    """Return the separator that cuts the lines into equally many cells, at least two if any does."""
    by_separator = {s: [len(row) for row in csv.reader(lines, delimiter=s) if row] for s in SEPARATORS}
    regular = {s: w[0] for s, w in by_separator.items() if w and w[0] > 1 and len(set(w)) == 1}
    # If none is regular the file is ragged: the most frequent separator lets the error say where.
    candidates = regular or {s: sum(w) for s, w in by_separator.items()}
    return max(candidates, key=lambda separator: candidates[separator])


def has_header(first: Sequence[str], second: Sequence[str] | None) -> bool:
    """Tell whether the first row names the columns.

    It does if none of its cells is a number, or if one is text above a number.
    """
    numbers = [parse_cell(cell) for cell in first]
    is_text = [number is None for number in numbers]
    if not any(is_text):
        return False
    if all(number is None or np.isnan(number) for number in numbers):
        return True
    below = [parse_cell(cell) for cell in second or ()]
    return any(text and number is not None for text, number in zip(is_text, below, strict=False))


def _numbers(cells: Sequence[str], name: str, first_row: int) -> np.ndarray:
    """Convert the cells (m,) of one column; the fast path is for columns without missing values."""
    if "_" not in "".join(cells):
        try:
            return np.array(cells, dtype=np.float64)
        except ValueError:
            pass
    numbers = [parse_cell(cell) for cell in cells]
    for row, (number, cell) in enumerate(zip(numbers, cells, strict=True), start=first_row):
        if number is None:
            raise text_column_error(name, row, cell.strip())
    return np.array(numbers, dtype=np.float64)


def _rows(path: Path, text: Iterator[str], separator: str) -> Iterator[list[str]]:
    """Yield the rows that hold something; a row of another length than the first is an error."""
    reader = csv.reader(text, delimiter=separator)
    width = None
    for row in reader:
        if not row:
            continue
        if width is None:
            width = len(row)
        if len(row) != width:
            raise InvalidDataError(
                f"line {reader.line_num} of {path} has {len(row)} cells where the first has {width}; "
                "give every line the same number."
            )
        yield row


def _read(path: Path, columns: Sequence[str] | None, separator: str | None) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as file:
        start = list(itertools.islice(file, LINES_TO_SNIFF))
        if separator is None:
            separator = find_separator(start)
        rows = _rows(path, itertools.chain(start, file), separator)
        top = list(itertools.islice(rows, 2))
        if not top:
            raise InvalidDataError(f"{path} is empty; it must hold at least one row of numbers.")
        headed = has_header(top[0], top[1] if len(top) > 1 else None)
        names = unnamed_columns(len(top[0]))
        if headed:
            names = tuple(name.strip() or spare for name, spare in zip(top[0], names, strict=True))
        places = choose_columns(names, columns)
        data = itertools.chain(top[1:] if headed else top, rows)
        blocks: list[np.ndarray] = []
        n_rows = 0
        while block := list(itertools.islice(data, ROWS_AT_ONCE)):
            cells = list(zip(*block, strict=True))
            blocks.append(np.column_stack([_numbers(cells[p], names[p], n_rows) for p in places]))
            n_rows += len(block)
    if not blocks:
        raise InvalidDataError(
            f"{path} holds a header and no rows; it must hold at least one row of numbers."
        )
    return Table(np.concatenate(blocks), tuple(names[p] for p in places))


def read_delimited(path: Path, columns: Sequence[str] | None = None, separator: str | None = None) -> Table:
    """Read delimited text; the separator is found among comma, semicolon and tab if it is not given."""
    try:
        return _read(path, columns, separator)
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"{path} is not UTF-8 text; save it as UTF-8 csv.") from error
    except csv.Error as error:
        raise InvalidDataError(f"{path} is not valid csv ({error}); save it again as csv.") from error


def write_delimited(path: Path, columns: dict[str, np.ndarray], separator: str = ",") -> None:
    """Write columns (n,) of numbers under their names; floats keep every digit."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))
    path.write_text(buffer.getvalue(), encoding="utf-8")
