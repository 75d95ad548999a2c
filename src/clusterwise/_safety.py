"""Files from anybody: one sentence for whatever is wrong, limits, and text that is safe to repeat."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clusterwise.exceptions import ClusterwiseError, InvalidDataError

__all__ = [
    "modest_size",
    "one_sentence",
    "printable",
    "require_modest_names",
    "require_modest_size",
    "without_formulas",
]

# A file may become so many bytes in memory, or so many times its size, unless its source is trusted.
MAX_BYTES = 2**26
MAX_RATIO = 100
MAX_COLUMNS = 100_000
MAX_COLUMNS_SPARSE = 2**20
MAX_LETTERS = 1_000  # of the name of a column
# So many times the memory of the machine is not tried, whoever the file is from.
MAX_MEMORIES = 10
IF_TRUSTED = "if you trust its source, read it with --trusted, or trusted=True in Python"

# Signs that give orders to a terminal, or turn the direction of what follows; half letters.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
MAX_REASON = 120


def printable(text: str, keep: str = "") -> str:
    """Text for a terminal, in one line, or a page: signs that nobody sees are written as \\x1b or \\u202e."""
    return UNPRINTABLE.sub(lambda sign: sign[0] if sign[0] in keep else ascii(sign[0])[1:-1], text)


@contextlib.contextmanager
def one_sentence(
    name: object, what: str, remedy: str, error: type[ClusterwiseError] = InvalidDataError
) -> Iterator[None]:
    """Turn any error of a library that reads the file ``name``, meant to be ``what``, into one of ours."""
    try:
        yield
    except ClusterwiseError:
        raise
    except MemoryError as problem:
        raise error(f"{name} needs more memory than there is; read a part of it.") from problem
    except Exception as problem:
        if isinstance(problem, (FileNotFoundError, PermissionError, IsADirectoryError)):
            why = problem.strerror or str(problem).partition(":")[0]
            raise error(f"{name} cannot be read ({why}); check its name and who may read it.") from problem
        text = " ".join(str(problem).split()) or type(problem).__name__
        reason = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}..."
        raise error(f"{name} is truncated, damaged or no {what} ({reason}); {remedy}.") from problem


def modest_size(path: str | Path, trusted: bool = False) -> int:
    """How many bytes of memory a file may become."""
    if trusted:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**36
        return MAX_MEMORIES * memory
    return max(MAX_BYTES, MAX_RATIO * Path(path).stat().st_size)


def require_modest_size(path: str | Path, n_bytes: int, trusted: bool = False) -> None:
    """Raise an error if a file would become too large where it is unpacked to ``n_bytes``."""
    limit = modest_size(path, trusted)
    if n_bytes > limit:
        remedy = "read a part of it" if trusted else IF_TRUSTED
        raise InvalidDataError(f"{path} would become larger in memory than {limit / 1e6:,.0f} MB; {remedy}.")


def require_modest_names(name: object, labels: Any, trusted: bool = False) -> None:
    """Raise an error if a table has very many columns, or one with a very long name."""
    if trusted:
        return
    if len(labels) > MAX_COLUMNS:
        raise InvalidDataError(
            f"{name} has {len(labels):,} columns, more than {MAX_COLUMNS:,}; {IF_TRUSTED}."
        )
    for place, label in enumerate(labels):
        if len(label) > MAX_LETTERS:
            raise InvalidDataError(
                f"the name of column {place} of {name} has {len(label):,} letters, more than "
                f"{MAX_LETTERS:,}; shorten it, or {IF_TRUSTED}."
            )


# What a spreadsheet takes for a formula; numbers with a sign are none.
FORMULA = r"^[=+\-@\t\r]"
SIGNED_NUMBER = r"^[+-][\s\d.,'()$€£¥%]*(?:[eE][+-]?\d+)?$"


def without_formulas(table: Any) -> Any:
    """A pyarrow table with an apostrophe before names and cells that spreadsheets take for formulas."""
    import pyarrow
    import pyarrow.compute as compute

    def safe(values: Any) -> Any:
        texts = values.cast(pyarrow.string()) if pyarrow.types.is_dictionary(values.type) else values
        if not (pyarrow.types.is_string(texts.type) or pyarrow.types.is_large_string(texts.type)):
            return values
        is_formula = compute.and_not(
            compute.match_substring_regex(texts, FORMULA), compute.match_substring_regex(texts, SIGNED_NUMBER)
        )
        if not compute.any(is_formula).as_py():
            return values
        return compute.if_else(is_formula, compute.binary_join_element_wise("'", texts, ""), texts)

    names = safe(pyarrow.array(table.column_names, pyarrow.string())).to_pylist()
    return pyarrow.table([safe(column) for column in table.columns], names=names)
