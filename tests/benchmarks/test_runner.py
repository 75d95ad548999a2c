"""Whole runs on planted data sets: differences are seen, failures become rows, killed runs go on."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks import runner
from benchmarks.processes import Reply
from benchmarks.runner import run_suite
from benchmarks.store import csv_text
from benchmarks.suite import BenchmarkError, Case, Data, MissingDataError, Suite, suite_names

Rows = list[dict[str, str]]


def run(suite: Suite, out: Path, **options: Any) -> Rows:
    options = {"write": lambda line: None, "here": True} | options
    page = run_suite("planted", out, suite=suite, **options)
    return list(csv.DictReader(csv_text(page.with_suffix(".csv.gz")).splitlines()))


def without_costs(rows: Iterable[dict[str, str]]) -> Rows:
    """Rows without what differs from run to run."""
    costs = ("seconds", "cpu_seconds", "peak_memory_mb")
    return [{name: cell for name, cell in row.items() if name not in costs} for row in rows]


def values(rows: Rows, method: str, metric: str) -> list[float]:
    return [float(row[metric]) for row in rows if row["method"] == method]


def test_a_planted_difference_is_seen(planted: ModuleType, tmp_path: Path) -> None:
    rows = run(planted.suite("truthful", "renamed", "halves"), tmp_path, quick=True)
    assert len(rows) == 3 * 2 * 6  # methods, kinds of data, data sets
    for metric in ("ARI", "NMI (arithmetic)", "accuracy"):
        assert values(rows, "truthful", metric) == pytest.approx([1.0] * 12)
        assert values(rows, "renamed", metric) == pytest.approx([1.0] * 12)
        halves = values(rows, "halves", metric)  # right at two clusters and wrong at five
        assert min(halves) < 0.8
        assert max(halves) == pytest.approx(1.0)
    assert set(values(rows, "renamed", "log-likelihood")) == {-1.5}
    assert all(map(math.isnan, values(rows, "halves", "log-likelihood")))
    assert {row["status"] for row in rows} == {"ok"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["planted.quick.csv.gz", "planted.quick.md"]
    assert "[planted.quick.csv.gz](planted.quick.csv.gz)" in (tmp_path / "planted.quick.md").read_text()


def test_a_killed_run_goes_on_to_the_same_rows(planted: ModuleType, tmp_path: Path) -> None:
    suite = planted.suite("truthful", "halves")
    expected = without_costs(run(suite, tmp_path / "whole"))
    written = csv_text(tmp_path / "whole" / "planted.csv.gz").encode()
    for share in (0.0, 0.62, 0.999):
        directory = tmp_path / str(share)
        directory.mkdir()
        cut = int(share * len(written))
        (directory / "planted.partial.csv").write_bytes(written[:cut])
        planted.calls.clear()
        assert without_costs(run(suite, directory)) == expected
        assert len(planted.calls) == 24 - max(written[:cut].count(b"\n") - 1, 0)


def test_methods_are_measured_one_by_one_and_again(planted: ModuleType, tmp_path: Path) -> None:
    suite = planted.suite("truthful", "halves", data=("few",))
    first = run(suite, tmp_path, methods=["halves"], sets=2)
    assert [(row["method"], row["index"]) for row in first] == [("halves", "0"), ("halves", "1")]
    planted.calls.clear()
    second = run(suite, tmp_path)  # the rest
    assert [call for call in planted.calls if call[0] == "halves"] == [("halves", i) for i in range(2, 6)]
    assert [row for row in second if row["method"] == "halves"][:2] == first
    planted.calls.clear()
    run(suite, tmp_path, methods=["halves"], redo=True)
    assert planted.calls == [("halves", index) for index in range(6)]
    with pytest.raises(BenchmarkError, match=r"no method 'nobody'.*halves"):
        run(suite, tmp_path, methods=["nobody"])


def test_rows_of_other_code_are_replaced_one_by_one(
    planted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = planted.suite("truthful", "halves", data=("few",))
    run(suite, tmp_path)
    planted.calls.clear()
    run(suite, tmp_path, stale=True)
    assert not planted.calls
    monkeypatch.setattr(runner, "version_of", lambda method: f"new {method.name}")
    run(suite, tmp_path, stale=True, sets=2)  # as if it was interrupted
    rows = run(suite, tmp_path, stale=True)
    assert planted.calls == [(name, index) for index in range(6) for name in ("truthful", "halves")]
    assert {row["version"] for row in rows} == {"new truthful", "new halves"}


def test_some_methods_and_data_have_fewer_sets_and_missing_data_are_left_out(
    planted: ModuleType, tmp_path: Path
) -> None:
    def absent(index: int) -> Case:
        raise MissingDataError("fetch it first")

    suite = planted.suite("truthful", "halves", "renamed")
    few, many = suite.data
    data = [few, replace(many, n_sets=3, methods=("truthful", "halves")), Data("absent", absent)]
    truthful, halves, renamed = suite.methods
    methods = [truthful, replace(halves, max_sets=2), replace(renamed, max_points=50)]
    lines: list[str] = []
    rows = run(replace(suite, data=data, methods=methods), tmp_path, write=lines.append)
    found = Counter(f"{row['data']}, {row['method']}, {row['status']}" for row in rows)
    assert found == {
        "few, truthful, ok": 6, "few, halves, ok": 2, "few, renamed, skipped: more than 50 rows": 6,
        "many, truthful, ok": 3, "many, halves, ok": 2,
    }  # fmt: skip
    assert "planted: absent is left out: fetch it first" in lines
    with pytest.raises(BenchmarkError, match="Nothing was measured"):
        run(replace(suite, data=data[2:]), tmp_path / "other")


def test_crashes_and_time_outs_are_rows(planted: ModuleType, tmp_path: Path) -> None:
    suite = planted.suite("troubled", "halves", "unbuildable", data=("many",), time_limit=1.0)
    rows = run(suite, tmp_path, here=False)
    troubled = [row for row in rows if row["method"] == "troubled"]
    assert [row["status"] for row in troubled] == [
        "ok",
        "error: RuntimeError: planted crash",
        "error: ValueError: labels must be 150 integers; got shape (3,) of int64",
        "timeout",
        "ok",  # in a new process
        "error: the process ended with code 7",
    ]
    assert [row["ARI"] != "" for row in troubled] == [True, False, False, False, True, False]
    assert float(troubled[0]["peak_memory_mb"]) > 1
    assert float(troubled[3]["seconds"]) >= 0.9
    assert troubled[3]["cpu_seconds"] == "1"
    broken = {row["status"] for row in rows if row["method"] == "unbuildable"}
    assert broken == {"error: ImportError: planted: no such library"}
    assert [row["status"] for row in rows if row["method"] == "halves"] == ["ok"] * 6
    assert "troubled, many: 1 × timeout" in (tmp_path / "planted.md").read_text()


def test_a_hopeless_method_is_spared_the_rest(
    planted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class AlwaysLate:
        def run(self, method: object, case: Case, limit: float) -> Reply:
            asked.append(case.seed)
            return Reply("timeout", seconds=limit)

        def close(self) -> None:
            pass

    monkeypatch.setattr(runner, "ThisProcess", AlwaysLate)
    for n_sets in (3, 9, 9):  # killed within the streak, then twice to the end
        rows = run(planted.suite("halves", data=("many",), n_sets=n_sets), tmp_path)
    expected = ["timeout"] * 5 + ["skipped: too slow on the data sets before"] * 4
    assert [row["status"] for row in rows] == expected
    assert asked == [0, 1, 2, 3, 4]


def test_unknown_suites_list_what_exists(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no suite 'nothing'.*tables"):
        run_suite("nothing", tmp_path)
    assert "tables" in suite_names() and not list(tmp_path.iterdir())
