"""Raw rows of a suite: one CSV, one row for each method, kind of data and data set.

While a run goes on its rows are added to ``NAME.partial.csv``, which may be torn at any byte; ``NAME.csv.gz``
is only ever written whole, and is the same for the same rows.
"""

import csv
import gzip
import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from benchmarks.suite import BenchmarkError
from benchmarks.summary import Row
from clusterwise._files import whole_or_nothing

COLUMNS = ("data", "method", "index", "status", "seconds", "cpu_seconds", "peak_memory_mb", "version")
Key = tuple[str, str, int]


def _key(row: Row) -> Key:
    return row["data"], row["method"], int(row["index"])


def csv_text(path: Path) -> str:
    """The text of a file of rows, compressed or not; empty if there is none."""
    content = path.read_bytes() if path.exists() else b""
    whole = gzip.decompress(content) if path.suffix == ".gz" and content else content
    return whole.decode(errors="replace")


class Store:
    """The rows of a suite in one directory, kept across runs; a later row replaces an earlier one."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self._columns = path, (*COLUMNS, *columns)
        self._partial = path.with_name(f"{path.name.removesuffix('.csv.gz')}.partial.csv")
        # In the order in which they came.
        self.rows = {_key(row): row for row in (*self._read(path), *self._read(self._partial))}

    def _read(self, path: Path) -> list[Row]:
        text = csv_text(path)
        lines = csv.reader(text[: text.rfind("\n") + 1].splitlines())  # no cell holds a line break
        header, rest = next(lines, list(COLUMNS)), list(lines)
        known = tuple(header[: len(COLUMNS)]) == COLUMNS and set(header) <= set(self._columns)
        if not known or any(len(line) != len(header) for line in rest):
            raise BenchmarkError(
                f"{path} holds other rows than this suite's: delete it or choose another --out."
            )
        missing = dict.fromkeys(self._columns, "")  # columns that a suite was given later
        return [missing | dict(zip(header, line, strict=True)) for line in rest]

    def _write(self, path: Path) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows.values())
        content = text.getvalue().encode()
        with whole_or_nothing(path) as temporary:
            temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)

    def drop(self, methods: Collection[str]) -> None:
        """Forget rows of some methods, on disk too: a killed run must not find old and new rows mixed."""
        self.rows = {key: row for key, row in self.rows.items() if row["method"] not in methods}
        if self.path.exists():
            self._write(self.path)

    def start(self) -> None:
        """Make the partial file whole again; from here on rows are added to it."""
        self._write(self._partial)

    def add(self, row: Mapping[str, object]) -> Row:
        """Keep a row, on disk before the next one is measured."""
        texts = {name: str(row.get(name, "")) for name in self._columns}
        self.rows[_key(texts)] = texts
        with self._partial.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(texts.values())
        return texts

    def finish(self, data: Sequence[str], methods: Sequence[str]) -> None:
        """Write the whole file in this order, other names last, and drop the partial one."""
        of_data, of_methods = ({name: i for i, name in enumerate(names)} for names in (data, methods))

        def place(key: Key) -> tuple[int, int, str, int]:
            return of_data.get(key[0], len(data)), of_methods.get(key[1], len(methods)), key[1], key[2]

        self.rows = {key: self.rows[key] for key in sorted(self.rows, key=place)}
        self._write(self.path)
        self._partial.unlink(missing_ok=True)
