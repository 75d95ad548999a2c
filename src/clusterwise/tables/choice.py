"""Which columns take part, and why others do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from clusterwise.exceptions import UnknownColumnError
from clusterwise.tables.cells import parse_numbers
from clusterwise.tables.columns import Column, TableColumns

__all__ = ["choose", "sentences"]

# A column without values in more than this share of the rows says more about who filled it in.
MAX_MISSING = 0.6
# Words with more different values than this, or than this share of the rows, are names or texts.
MAX_LEVELS = 50
MAX_LEVELS_SHARE = 0.25
FEW_LEVELS = 12  # this many are a category however few the rows are
# Nearly every row has a value of its own.
UNIQUE = 0.95
# What to do with words among numbers; they would not become numbers by taking part.
EMPTY = "to use these, empty the cells"
OTHER = "holds neither numbers nor words"
# Below this many rows nothing can be said from how often values occur.
MIN_ROWS = 10
ID_NAME = re.compile(r"(^|[\W_])(id|ids|uuid|guid|key|index|idx|rownames?|unnamed: \d+|nr|no)$", re.I)
CAMEL_ID_NAME = re.compile(r"[a-z](Id|ID|Key|Uuid|UUID)$")


def _looks_like_id(column: Column, named: bool) -> bool:
    values = column.values[~column.missing]
    if not named or len(values) < MIN_ROWS:
        return False
    if not np.array_equal(values, np.round(values)):
        return False
    distinct = np.unique(values)
    if len(distinct) < UNIQUE * len(values):
        return False
    is_range = len(distinct) == len(values) and distinct[-1] - distinct[0] == len(distinct) - 1
    called_so = column.name.strip() == "" or ID_NAME.search(column.name) or CAMEL_ID_NAME.search(column.name)
    return is_range or bool(called_so)


def _reason(column: Column, named: bool) -> str | None:
    """Why a column does not take part unless asked for; None if it does."""
    missing = column.missing
    present = column.values[~missing]
    if column.kind == "other":
        return OTHER
    if len(present) == 0:
        return "is empty"
    if missing.mean() > MAX_MISSING:
        return f"is empty in {100 * missing.mean():.0f} % of the rows"
    if column.kind == "date":
        return "holds dates"
    if column.kind == "number":
        if present.min() == present.max():
            return "has the same value in every row"
        return "numbers the rows, like an id" if _looks_like_id(column, named) else None
    n_levels = len(set(present))
    if n_levels == 1:
        return "has the same value in every row"
    if column.declared or n_levels <= FEW_LEVELS:
        if len(present) >= MIN_ROWS and n_levels > UNIQUE * len(present):
            return "has a different value in nearly every row, like an id"
        return None
    if n_levels > UNIQUE * len(present):
        n_words = float(np.mean([len(value.split()) for value in present]))
        return (
            "holds free text" if n_words >= 2.5 else "has a different value in nearly every row, like an id"
        )
    if n_levels > MAX_LEVELS or n_levels > MAX_LEVELS_SHARE * len(present):
        others = [value for value in present if parse_numbers([value]) is None]
        if len(others) < len(present) / 2:
            return f"has {n_levels:,} different words, most of them numbers; {EMPTY} like {others[0][:40]!r}"
        return f"has {n_levels:,} different words"
    return None


def _places(table: TableColumns, wanted: Iterable[str], parameter: str) -> list[int]:
    """Places of columns by their names, or counted from 0."""
    names = [column.name for column in table.columns]
    place_of = {str(place): place for place in range(len(names))} | {
        name: place for place, name in reversed(list(enumerate(names)))
    }
    for name in map(str, wanted):
        if name not in place_of:
            raise UnknownColumnError(parameter=parameter, column=name, known=names)
    return [place_of[name] for name in map(str, wanted)]


def choose(
    table: TableColumns,
    columns: Sequence[str] | None,
    drop: Collection[str],
    include: Collection[str],
) -> tuple[list[int], dict[str, str]]:
    """Places of the columns that take part, and for each other one by its name why it does not.

    ``columns`` are all that may take part, and do whatever they look like; ``include`` only adds to
    those that take part by themselves.
    """
    allowed = list(range(len(table.columns))) if columns is None else _places(table, columns, "columns")
    selected = set(allowed) - set(_places(table, sorted(drop), "drop"))
    forced = selected & {*_places(table, sorted(include), "include"), *([] if columns is None else allowed)}
    used: set[int] = set()
    aside: dict[str, str] = {}
    for place, column in enumerate(table.columns):
        reason = _reason(column, table.named) if place in selected else "was not selected"
        if reason is None or (place in forced and not _is_final(column, reason)):
            used.add(place)
        else:
            aside[column.name] = reason
    return [place for place in allowed if place in used], aside  # in the order in which they were asked for


def _is_final(column: Column, reason: str) -> bool:
    """Whether no wish makes a column take part."""
    return column.kind == "other" or reason == "is empty" or "same value" in reason


def sentences(
    aside: dict[str, str], include: Callable[[str], str] | None = "include=[{!r}]".format
) -> list[str]:
    """One line for each column that was set aside, with the way to ``include`` it where there is one."""
    lines = []
    for name, reason in aside.items():
        if reason == "was not selected":
            continue
        fixed = reason in ("is empty", OTHER) or "same value" in reason or EMPTY in reason
        how = "" if fixed or include is None else f"; use it with {include(name)}"
        lines.append(f"column {name!r} is set aside: it {reason}{how}.")
    return lines
