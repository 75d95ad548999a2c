"""Raw results on disk: one tidy CSV, compressed, one row per method, data set, seed and metric.

While a run goes on its rows are added to ``NAME.partial.csv``, which may be torn at any byte;
``NAME.csv.gz`` is only ever written whole. A result counts when all its rows are there, so that
what a killed run left half-written is measured again.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterwise._files import whole_or_nothing
from clusterwise.bench.registry import BenchmarkError

__all__ = ["COLUMNS", "Key", "Result", "Results"]

COLUMNS = (
    "method", "data_set", "seed", "metric", "value", "seconds", "peak_memory_mb", "status", "versions",
)  # fmt: skip

Key = tuple[str, str, int]  # method, data set, seed


@dataclass(frozen=True)
class Result:
    """One method on one data set. The values are NaN where a metric does not apply or the method failed."""

    values: dict[str, float]  # by metric
    seconds: float
    peak_memory_mb: float
    status: str  # "ok", "timeout", "error: ..." or "skipped: ..."
    versions: str

    @property
    def is_final(self) -> bool:
        """Whether another try would be a waste: an error may be mended, a time-out was paid for."""
        return self.status in ("ok", "timeout")


def _text(rows: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _rows(key: Key, result: Result) -> list[tuple[object, ...]]:
    tail = (repr(result.seconds), repr(result.peak_memory_mb), result.status, result.versions)
    return [(*key, metric, repr(value), *tail) for metric, value in result.values.items()]


def _contents(path: Path) -> str:
    packed = path.read_bytes()
    if path.suffix == ".gz":
        try:
            packed = gzip.decompress(packed)
        except (OSError, EOFError, zlib.error):
            return "no compressed file\n"  # which is no results file either
    return packed.decode("utf-8", errors="replace")


def _read(path: Path, metrics: Sequence[str]) -> dict[Key, Result]:
    if not path.exists():
        return {}
    text = _contents(path)
    whole_lines = text[: text.rfind("\n") + 1]  # no field holds a line break: the rest is torn
    lines = csv.reader(whole_lines.splitlines())
    header = next(lines, None)
    if header != list(COLUMNS) and not (header is None and _text([COLUMNS]).startswith(text)):
        raise BenchmarkError(f"{path} holds no benchmark results; choose another directory for --out.")
    results: dict[Key, Result] = {}
    for number, line in enumerate(lines, start=2):
        try:
            method, data_set, seed, metric, value, seconds, peak, status, versions = line
            key = (method, data_set, int(seed))
            known = results.get(key)
            if known is None or metric in known.values:  # a later result replaces an earlier one
                known = results[key] = Result({}, float(seconds), float(peak), status, versions)
            known.values[metric] = float(value)
        except (ValueError, csv.Error) as error:
            raise BenchmarkError(f"{path}, line {number} is damaged; delete the file.") from error
    return {key: result for key, result in results.items() if set(result.values) == set(metrics)}


class Results:
    """All results of one benchmark in one directory, kept across runs."""

    def __init__(self, directory: Path, name: str, metrics: Sequence[str]) -> None:
        self.path = directory / f"{name}.csv.gz"
        self._partial = directory / f"{name}.partial.csv"
        self._metrics = tuple(metrics)
        self._results = {**_read(self.path, metrics), **_read(self._partial, metrics)}

    def __iter__(self) -> Iterator[tuple[Key, Result]]:
        return iter(self._results.items())

    def get(self, key: Key) -> Result | None:
        """The result of one method on one data set, if there is one."""
        return self._results.get(key)

    def forget(self, methods: Iterable[str]) -> None:
        """Drop all results of these methods, so that they are measured again."""
        dropped = set(methods)
        self._results = {key: result for key, result in self._results.items() if key[0] not in dropped}
        if dropped:  # on disk too, or a killed run would find old and new results mixed
            self._write(self.path, self._results)
            self._partial.unlink(missing_ok=True)

    def start(self) -> None:
        """Make the partial file whole again; from here on results are added to it."""
        self._write(self._partial, self._results)

    def add(self, key: Key, result: Result) -> None:
        """Keep a result, on disk before the next one is measured."""
        self._results[key] = result
        with self._partial.open("a", encoding="utf-8", newline="") as file:
            file.write(_text(_rows(key, result)))

    def finish(self, order: Sequence[Key]) -> None:
        """Write the whole file, ``order`` first and what else is known after it, and drop the partial one."""
        rank = {key: position for position, key in enumerate(order)}
        keys = sorted(self._results, key=lambda key: rank.get(key, len(rank)))
        self._results = {key: self._results[key] for key in keys}
        self._write(self.path, self._results)
        self._partial.unlink(missing_ok=True)

    def _write(self, path: Path, results: dict[Key, Result]) -> None:
        rows = (_rows(key, result) for key, result in results.items())
        text = "".join([_text([COLUMNS]), *map(_text, rows)]).encode()
        with whole_or_nothing(path) as temporary:
            # Without the time of writing, so that the same results are the same file.
            temporary.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
