"""The meaning of cells as people write them: missing values, numbers with signs of money, dates, headers.

Whoever has read a table (pyarrow, pandas, openpyxl): what its cells mean is found here, by the same rules.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = [
    "MISSING_WORDS",
    "Header",
    "distinct_names",
    "find_header",
    "is_missing",
    "parse_dates",
    "parse_numbers",
]

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "#na", "<na>"})
# Words in a column of numbers ("unknown", "> 90") count as missing if they are no more than this share of it.
MAX_STRAY = 0.05
MAX_DIGITS = 20  # of numbers of columns

# -- missing values and numbers ---------------------------------------------------------------------

# Signs between thousands, and the sign before decimals; the first that fits all cells of a column counts.
STYLES = {
    "1,234.5": (",", "."),
    "1.234,5": (".", ","),
    "1 234,5": (" '\u00a0\u202f", ","),
    "1 234.5": (" '\u00a0\u202f", "."),
}
PLAIN = "1,234.5"
SPACES = "[ \t\u00a0\u202f]*"
MONEY = "[$€£¥]?"


def _pattern(thousands: str, decimal: str) -> str:
    digits = rf"(?:\d{{1,3}}(?:[{thousands}]\d{{3}})+|\d*)(?:[{decimal}]\d*)?(?:[eE][+-]?\d+)?"
    number = rf"{MONEY}{digits}{SPACES}(?:{MONEY}|%)"
    # (1,234) is how accountants write -1,234
    signed = rf"[(]{SPACES}{MONEY}{SPACES}{number}{SPACES}[)]|{MONEY}{SPACES}[+-]?{SPACES}{number}"
    return rf"(?=.*\d){SPACES}(?:{signed}){SPACES}"


def _signs(thousands: str, decimal: str) -> dict[int, str | None]:
    """A translation table from numbers that are written so to those of Python."""
    left_out = dict.fromkeys(f"{thousands} \t\u00a0\u202f$€£¥%)")
    return str.maketrans({**left_out, "(": "-", decimal: "."})


PATTERNS = {style: re.compile(_pattern(*signs)) for style, signs in STYLES.items()}
COLUMNS = {style: re.compile(rf"(?>{_pattern(*signs)}(?:\n|\Z))*+") for style, signs in STYLES.items()}
SIGNS = {style: _signs(*signs) for style, signs in STYLES.items()}


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing, or a word for it."""
    if cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING_WORDS):
        return True
    return type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _in_style(word: str, style: str) -> float:
    """The number that a word is in a style; NaN if it is none."""
    if style == PLAIN and "_" not in word:  # Python reads 12_34 as a number; in a table it is a name
        with contextlib.suppress(ValueError):
            return float(word)
    return float(word.translate(SIGNS[style])) if PATTERNS[style].fullmatch(word) else np.nan


def parse_numbers(words: Sequence[str], style: str | None = None) -> tuple[np.ndarray, str] | None:
    """Numbers (n,) of words in one style, which is returned, too; NaN for a few words that are no numbers.

    None if more than a few are not. A ``style`` that is given is the only one.
    """
    styles = STYLES if style is None else (style,)
    text = "\n".join(words)
    for name in styles if text.count("\n") == len(words) - 1 else ():  # many words at once: twice as quick
        if COLUMNS[name].fullmatch(text):
            return np.array([float(word) for word in text.translate(SIGNS[name]).split("\n")]), name
    best: tuple[np.ndarray, str] | None = None
    n_allowed = int(MAX_STRAY * len(words))
    for name in styles:
        numbers, n_stray = np.full(len(words), np.nan), 0
        for place, word in enumerate(words):
            numbers[place] = number = _in_style(word, name)
            n_stray += number != number
            if n_stray > n_allowed:
                break
        else:
            best, n_allowed = (numbers, name), n_stray - 1
        if n_allowed < 0:
            break
    return best


# -- dates ------------------------------------------------------------------------------------------

TIME = r"(?:[T ,]+(\d{1,2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?)?Z?$"
YEAR_FIRST = re.compile(r"(\d{4})([-/.])(\d{1,2})[-/.](\d{1,2})" + TIME)
YEAR_LAST = re.compile(r"(\d{1,2})([-/.])(\d{1,2})[-/.](\d{4})" + TIME)
SECONDS_PER_DAY = 86_400


def parse_dates(words: Sequence[str]) -> np.ndarray | None:
    """Days since 1970 of words (n,) that are all dates written in one way, else None.

    2024-03-01, 2024/3/1 12:00, 01.03.2024 or 3/1/2024: where the year comes last, the number above 12 is the
    day; if there is none, the day comes before a dot or a dash, and after a slash.
    """
    if not words:
        return None
    first = words[0].strip()
    pattern = YEAR_FIRST if YEAR_FIRST.match(first) else YEAR_LAST if YEAR_LAST.match(first) else None
    if pattern is None:
        return None
    found = [pattern.match(word.strip()) for word in words]
    matches = [match for match in found if match is not None]
    if len(matches) < len(words):
        return None
    parts = np.array([[int(match[i] or 0) for i in (1, 3, 4, 5, 6, 7)] for match in matches])
    if pattern is YEAR_LAST:
        front, middle = parts[:, 0], parts[:, 1]
        month_first = middle.max() > 12 or (front.max() <= 12 and matches[0][2] == "/")
        parts[:, :3] = parts[:, [2, 0, 1] if month_first else [2, 1, 0]]
    try:
        stamps = ["{:04}-{:02}-{:02}T{:02}:{:02}:{:02}".format(*row) for row in parts.tolist()]
        return np.array(stamps, dtype="datetime64[s]").astype(np.float64) / SECONDS_PER_DAY
    except ValueError:  # the 31st of February
        return None


# -- names of columns, and the titles above them ------------------------------------------------------


@dataclass(frozen=True)
class Header:
    """Where a table begins, and what its columns are called."""

    n_above: int  # rows of titles above the names, or above the first row if that holds values
    names: list[str]  # distinct
    is_row: bool  # whether a row holds the names


def distinct_names(labels: Iterable[Any]) -> list[str]:
    """Names of columns as strings; "a" becomes "a (2)" where it is taken, and nothing "column 3"."""
    names: list[str] = []
    taken: set[str] = set()
    counts: dict[str, int] = {}  # of each name, so that many of the same take no longer than others
    for place, label in enumerate(labels):
        parts = label if isinstance(label, tuple) else (label,)  # several lines of header in pandas
        base = ", ".join(str(part) for part in parts) or f"column {place}"
        name, count = base, counts.get(base, 1)
        while name in taken:
            count += 1
            name = f"{base} ({count})"
        counts[base] = count
        taken.add(name)
        names.append(name)
    return names


def find_header(rows: Sequence[Sequence[Any]]) -> Header:
    """The header among the first rows of a table, whoever has read them; titles may stand above it.

    Titles have fewer cells with anything in them than the rows below; the first of these must name the
    columns, or there are no titles.
    """
    counts = [sum(not is_missing(cell) for cell in row) for row in rows]
    start = next((place for place, count in enumerate(counts) if count > max(counts) / 2), 0)
    titles = [row for row, count in zip(rows[:start], counts, strict=False) if count]
    if any(is_missing(row[0]) or _is_number(row[0]) for row in titles):
        start = 0
    for above in (start, 0):
        below = next((row for row, n in zip(rows[above + 1 :], counts[above + 1 :], strict=True) if n), None)
        is_row = _names_columns(rows[above], below)
        if is_row and below is not None:
            break
    cells = ("" if cell is None or cell != cell or not is_row else str(cell).strip() for cell in rows[above])
    return Header(above, distinct_names(cells), is_row)


def _names_columns(first: Sequence[Any], second: Sequence[Any] | None) -> bool:
    """Whether the first of two rows names the columns.

    It does if none of its cells is a number, if one is text above a number, or if its cells count on from
    one to the next, as years or numbers of columns do, and those of the second row do not.
    """
    present = [cell for cell in first if not is_missing(cell)]
    if not present:
        return second is not None
    if not any(map(_is_number, present)):
        return True
    below = [] if second is None else list(second)
    for cell, under in zip(first, below, strict=False):
        if not is_missing(cell) and not _is_number(cell) and _is_number(under):
            return True
    return _counts_on(first) and second is not None and not _counts_on(below)


def _is_number(cell: Any) -> bool:
    return any(not np.isnan(_in_style(str(cell), style)) for style in STYLES)


def _counts_on(row: Sequence[Any]) -> bool:
    cells = ["" if cell is None else str(cell).strip() for cell in row]
    cells = cells[1:] if cells and cells[0] == "" else cells  # an index without a name
    if len(cells) < 2 or not all(cell.isdecimal() and len(cell) < MAX_DIGITS for cell in cells):
        return False
    return all(int(after) - int(before) == 1 for before, after in itertools.pairwise(cells))
