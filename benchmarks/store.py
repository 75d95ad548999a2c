"""Raw rows of a suite: one CSV, one row for each method, kind of data and data set.

While a run goes on its rows are added to ``NAME.partial.csv``, which may be torn at any byte; ``NAME.csv`` is
only ever written whole.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.suite import BenchmarkError
from clusterwise._files import whole_or_nothing

__all__ = ["COLUMNS", "Row", "Store"]

COLUMNS = ("data", "method", "index", "status", "seconds", "cpu_seconds", "peak_memory_mb", "version")

Row = dict[str, str]
Key = tuple[str, str, int]


def _text(lines: Iterable[Iterable[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


class Store:
    """The rows of a suite in one directory, kept across runs; a later row replaces an earlier one."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self._columns = path, (*COLUMNS, *columns)
        self._partial = path.with_suffix(".partial.csv")
        self._rows = {self._key(row): row for row in (*self._read(path), *self._read(self._partial))}

    @staticmethod
    def _key(row: Mapping[str, str]) -> Key:
        return row["data"], row["method"], int(row["index"])

    def _read(self, path: Path) -> list[Row]:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        lines = list(csv.reader(text[: text.rfind("\n") + 1].splitlines()))  # no cell holds a line break
        if not lines:
            return []
        header, *rest = lines
        known = tuple(header[: len(COLUMNS)]) == COLUMNS and set(header) <= set(self._columns)
        if not known or any(len(line) != len(header) for line in rest):
            message = f"{path} holds other rows than this suite's: delete it or choose another --out."
            raise BenchmarkError(message)
        missing = dict.fromkeys(self._columns, "")  # columns that a suite was given later
        return [missing | dict(zip(header, line, strict=True)) for line in rest]

    def _write(self, path: Path) -> None:
        with whole_or_nothing(path) as temporary:
            lines = ([row[name] for name in self._columns] for row in self._rows.values())
            temporary.write_text(_text([self._columns, *lines]), encoding="utf-8")

    def get(self, key: Key) -> Row | None:
        """The row with this key, if there is one."""
        return self._rows.get(key)

    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        return list(self._rows.values())

    def drop(self, methods: Iterable[str]) -> None:
        """Forget rows of some methods, on disk too: a killed run must not find old and new rows mixed."""
        self._rows = {key: row for key, row in self._rows.items() if row["method"] not in methods}
        if self.path.exists():
            self._write(self.path)

    def start(self) -> None:
        """Make the partial file whole again; from here on rows are added to it."""
        self._write(self._partial)

    def add(self, row: Mapping[str, object]) -> Row:
        """Keep a row, on disk before the next one is measured."""
        texts = {name: str(row.get(name, "")) for name in self._columns}
        self._rows[self._key(texts)] = texts
        with self._partial.open("a", encoding="utf-8", newline="") as file:
            file.write(_text([texts.values()]))
        return texts

    def finish(self, data: Sequence[str], methods: Sequence[str]) -> None:
        """Write the whole file in this order, other names last, and drop the partial one."""
        ranks = [{name: place for place, name in enumerate(names)} for names in (data, methods)]

        def place(key: Key) -> tuple[int, int, str, int]:
            return ranks[0].get(key[0], len(data)), ranks[1].get(key[1], len(methods)), key[1], key[2]

        self._rows = {key: self._rows[key] for key in sorted(self._rows, key=place)}
        self._write(self.path)
        self._partial.unlink(missing_ok=True)
