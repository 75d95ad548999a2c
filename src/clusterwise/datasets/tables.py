"""The common part of all file formats: what a table is, which formats there are, choosing columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from clusterwise.exceptions import InvalidDataError

__all__ = ["Format", "Table", "choose_columns", "format_of", "text_column_error", "unnamed_columns"]

Format = Literal["csv", "tsv", "parquet", "npy"]

FORMATS: dict[str, Format] = {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".npy": "npy"}


@dataclass(frozen=True)
class Table:
    """Numbers from a file: ``values`` (n, d) float64, NaN where a cell was empty, and d column names."""

    values: np.ndarray
    column_names: tuple[str, ...]

    @property
    def n_rows(self) -> int:
        """Number of data rows; a header is not one of them."""
        return len(self.values)


def format_of(path: str | Path) -> Format:
    """Return the format that the ending of a file name stands for."""
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        shown = f"ends in {ending!r}" if ending else "has no ending"
        raise InvalidDataError(f"{path} {shown}; use one of {', '.join(FORMATS)}.")
    return FORMATS[ending]


def unnamed_columns(count: int) -> tuple[str, ...]:
    """Names for columns that have none in their file."""
    return tuple(f"column {index}" for index in range(count))


def choose_columns(names: Sequence[str], wanted: Sequence[str] | None) -> list[int]:
    """Return the places of the wanted columns, each given by its name or, failing that, counted from 0."""
    if wanted is None:
        return list(range(len(names)))
    places = []
    for name in wanted:
        matches = [place for place, known in enumerate(names) if known == name]
        if len(matches) > 1:
            raise InvalidDataError(
                f"{len(matches)} columns are called {name!r}; choose one by its number from 0."
            )
        if not matches and name.isdecimal() and int(name) < len(names):
            matches = [int(name)]
        if not matches:
            raise InvalidDataError(
                f"there is no column {name!r}; the file has {', '.join(map(repr, names))}."
            )
        if matches[0] in places:
            raise InvalidDataError(f"column {name!r} was asked for twice; name each column once.")
        places += matches
    if not places:
        raise InvalidDataError(
            "no column was chosen; name at least one, or leave the choice out to take all."
        )
    return places


def text_column_error(name: str, row: int, cell: str, kind: str = "text") -> InvalidDataError:
    """Return the error for a column that holds something else than numbers."""
    shown = cell if len(cell) <= 40 else cell[:37] + "..."
    return InvalidDataError(
        f"column {name!r} holds {kind} (row {row}: {shown!r}); leave it out with --columns."
    )
