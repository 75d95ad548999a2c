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
from benchmarks.suite import BenchmarkError, Case, Data, MissingDataError, Suite, suite_names

Rows = list[dict[str, str]]


def run(suite: Suite, out: Path, **options: Any) -> Rows:
    options = {"write": lambda line: None, "here": True} | options
    page = run_suite("planted", out, suite=suite, **options)
    with page.with_suffix(".csv").open(newline="") as file:
        return list(csv.DictReader(file))


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["planted.quick.csv", "planted.quick.md"]
    assert "[planted.quick.csv](planted.quick.csv)" in (tmp_path / "planted.quick.md").read_text()


def test_a_killed_run_goes_on_to_the_same_rows(planted: ModuleType, tmp_path: Path) -> None:
    suite = planted.suite("truthful", "halves")
    expected = without_costs(run(suite, tmp_path / "whole"))
    written = (tmp_path / "whole" / "planted.csv").read_bytes()
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


def test_methods_and_data_may_be_held_to_fewer_sets(planted: ModuleType, tmp_path: Path) -> None:
    suite = planted.suite("truthful", "halves", "renamed")
    few, many = suite.data
    held = replace(many, n_sets=3, methods=("truthful", "halves"))
    capped = [replace(m, max_sets=2) if m.name == "halves" else m for m in suite.methods]
    lines: list[str] = []
    rows = run(replace(suite, data=[few, held], methods=capped), tmp_path, write=lines.append)
    found = Counter(f"{row['data']}, {row['method']}" for row in rows)
    assert found == {
        "few, truthful": 6,
        "few, halves": 2,
        "few, renamed": 6,
        "many, truthful": 3,
        "many, halves": 2,
    }
    assert "9/9 data sets" in lines[-2]


def test_large_data_are_skipped_and_missing_data_left_out(planted: ModuleType, tmp_path: Path) -> None:
    def absent(index: int) -> Case:
        raise MissingDataError("fetch it first")

    suite = planted.suite("truthful", n_sets=1)
    small = replace(suite.methods[0], max_points=100)
    lines: list[str] = []
    data = [*suite.data, Data("absent", absent)]
    rows = run(replace(suite, data=data, methods=[small]), tmp_path, write=lines.append)
    assert [row["status"] for row in rows] == ["ok", "skipped: more than 100 rows"]
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


def test_the_estimate_leaves_the_start_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(runner.time, "monotonic", lambda: now)
    lines: list[str] = []
    shown = runner.Progress("name", 100, lines.append, interval=10.0)
    shown.step(1, measured=False)  # known from an earlier run
    now += 60.0
    shown.step(2, measured=True)  # the first one measured pays for the start
    for done in range(3, 13):
        now += 2.0
        shown.step(done, measured=True)
    now += 1.0
    shown.step(100, measured=True)
    assert lines == [
        "name: 2/100 data sets, 0:01:00 elapsed",
        "name: 7/100 data sets, 0:01:10 elapsed, about 0:03:06 left",
        "name: 12/100 data sets, 0:01:20 elapsed, about 0:02:56 left",
        "name: 100/100 data sets, 0:01:21 elapsed",
    ]
