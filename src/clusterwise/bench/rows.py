"""Raw rows of a study: one CSV, written whole when a run ends.

While a run goes on its rows are added to ``NAME.partial.csv``, which may be torn at any byte.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from clusterwise._files import whole_or_nothing
from clusterwise.bench.registry import BenchmarkError

__all__ = ["RowFile", "write_csv"]

Row = dict[str, str]


def _line(cells: Iterable[object]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table whole or not at all."""
    with whole_or_nothing(path) as temporary:
        temporary.write_text("".join(map(_line, [columns, *rows])), encoding="utf-8")


class RowFile:
    """The rows of a file, found by their first ``n_keys`` columns; a later row replaces an earlier one.

    ``is_current`` says which rows still count; the others, and a torn last line, are gone after ``finish``.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], n_keys: int, is_current: Callable[[Row], bool]
    ) -> None:
        self.path, self._columns, self._n_keys = path, tuple(columns), n_keys
        self._partial = path.with_suffix(f".partial{path.suffix}")
        known = {self._key(row): row for row in (*self._read(path), *self._read(self._partial))}
        self._rows = {key: row for key, row in known.items() if is_current(row)}
        self.n_dropped = len(known) - len(self._rows)
        self._write(self._partial)

    def _key(self, row: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in self._columns[: self._n_keys])

    def _read(self, path: Path) -> list[Row]:
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = list(csv.reader(text[: text.rfind("\n") + 1].splitlines()))  # no cell holds a line break
        if not lines:
            return []
        if tuple(lines[0]) != self._columns or any(len(line) != len(self._columns) for line in lines):
            raise BenchmarkError(f"{path} holds something else; delete it or choose another --out.")
        return [dict(zip(self._columns, line, strict=True)) for line in lines[1:]]

    def _write(self, path: Path) -> None:
        write_csv(path, self._columns, ([row[name] for name in self._columns] for row in self.rows()))

    def __contains__(self, key: tuple[object, ...]) -> bool:
        return tuple(map(str, key)) in self._rows

    def get(self, key: tuple[object, ...]) -> Row | None:
        """The row with this key, if there is one."""
        return self._rows.get(tuple(map(str, key)))

    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        return list(self._rows.values())

    def add(self, row: Mapping[str, object]) -> None:
        """Keep a row, on disk before the next one is measured."""
        texts = {name: str(row[name]) for name in self._columns}
        self._rows[self._key(texts)] = texts
        with self._partial.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(texts.values()))

    def finish(self) -> list[Row]:
        """Write the whole file, drop the partial one and return all rows."""
        self._write(self.path)
        self._partial.unlink(missing_ok=True)
        return self.rows()
