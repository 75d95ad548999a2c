"""Whole runs on planted data sets: differences are seen, failures become rows, killed runs go on."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from clusterwise.bench import BenchmarkError, benchmark_names, judge, register, run_benchmark
from clusterwise.bench.process import Worker
from clusterwise.bench.registry import BENCHMARKS, METHODS, Case, Method
from clusterwise.bench.worker import Reply


def quiet(line: str) -> None:
    """Swallow the progress."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path.with_suffix(".csv.gz"), "rt", newline="") as file:
        return list(csv.DictReader(file))


def without_costs(rows: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Rows without what differs from run to run."""
    return [{k: v for k, v in row.items() if k not in ("seconds", "peak_memory_mb")} for row in rows]


def values(rows: Iterable[dict[str, str]], method: str, metric: str) -> list[float]:
    return [float(row["value"]) for row in rows if row["method"] == method and row["metric"] == metric]


@pytest.fixture
def tiny(planted: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A benchmark of four methods that all work, and no time spent on pictures."""
    names = ("truthful", "renamed", "halves", "random labels")
    monkeypatch.setitem(BENCHMARKS, "planted", planted.benchmark(*names))
    monkeypatch.setattr(judge, "draw_picture", lambda benchmark, summaries, path: path.write_text("picture"))
    return planted


def test_the_judge_sees_a_planted_difference(tiny: ModuleType, tmp_path: Path) -> None:
    rows = rows_of(run_benchmark("planted", tmp_path, write=quiet, isolated=False))
    assert len(rows) == 4 * 2 * 6 * 6  # methods, settings, data sets, metrics
    for metric in ("ARI", "NMI (geometric)", "NMI (arithmetic)", "accuracy"):
        assert values(rows, "truthful", metric) == pytest.approx([1.0] * 12)
        assert values(rows, "renamed", metric) == pytest.approx([1.0] * 12)
        # Right at two clusters and wrong at five.
        halves = values(rows, "halves", metric)
        assert min(halves) < 0.8
        assert max(halves) == pytest.approx(1.0)
    floor = values(rows, "random labels", "ARI")
    error = math.sqrt(sum(value**2 for value in floor)) / len(floor)
    assert abs(sum(floor)) / len(floor) < 5 * error
    assert max(map(abs, floor)) < 0.2
    assert set(values(rows, "renamed", "log-likelihood")) == {-1.5}
    assert all(math.isnan(value) for value in values(rows, "halves", "log-likelihood"))
    assert {row["status"] for row in rows} == {"ok"}


def test_a_run_leaves_three_whole_files(
    planted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "planted", planted.benchmark("truthful", "halves", "random labels"))
    lines: list[str] = []
    page = run_benchmark(
        "planted", tmp_path / "new" / "place", quick=True, write=lines.append, isolated=False
    )
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "planted.csv.gz",
        "planted.md",
        "planted.png",
    ]
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "4/4 data sets" in lines[-2]
    assert str(page) in lines[-1]


def test_a_killed_run_goes_on_to_the_same_rows(tiny: ModuleType, tmp_path: Path) -> None:
    page = run_benchmark("planted", tmp_path / "whole", write=quiet, isolated=False)
    expected = without_costs(rows_of(page))
    written = gzip.decompress(page.with_suffix(".csv.gz").read_bytes())
    for share in (0.0, 0.3, 0.62, 0.999):
        directory = tmp_path / str(share)
        directory.mkdir()
        cut = int(share * len(written))
        (directory / "planted.partial.csv").write_bytes(written[:cut])
        tiny.calls.clear()
        rows = rows_of(run_benchmark("planted", directory, write=quiet, isolated=False))
        assert without_costs(rows) == expected
        whole_lines = max(written[:cut].count(b"\n") - 1, 0)
        remaining = expected[whole_lines // 6 * 6 :: 6]  # six metrics make a result
        counted = [(row["method"], int(row["seed"])) for row in remaining]
        assert tiny.calls == [pair for pair in counted if pair[0] in ("truthful", "halves")]


def test_a_quick_run_is_the_beginning_of_a_full_one(tiny: ModuleType, tmp_path: Path) -> None:
    quick = without_costs(
        rows_of(run_benchmark("planted", tmp_path, quick=True, write=quiet, isolated=False))
    )
    tiny.calls.clear()
    full = without_costs(rows_of(run_benchmark("planted", tmp_path, write=quiet, isolated=False)))
    assert {seed for _, seed in tiny.calls} == {2, 3, 4, 5}
    assert [row for row in full if int(row["seed"]) < 2] == quick
    tiny.calls.clear()
    run_benchmark("planted", tmp_path, write=quiet, isolated=False, redo=["halves"])
    assert tiny.calls == [("halves", seed) for seed in range(6) for _ in range(2)]


def test_chosen_methods_come_with_the_oracle_and_keep_the_others(tiny: ModuleType, tmp_path: Path) -> None:
    first = rows_of(
        run_benchmark("planted", tmp_path, quick=True, methods=["halves"], write=quiet, isolated=False)
    )
    assert {row["method"] for row in first} == {"truthful", "halves"}
    second = rows_of(
        run_benchmark("planted", tmp_path, quick=True, methods=["renamed"], write=quiet, isolated=False)
    )
    assert {row["method"] for row in second} == {"truthful", "halves", "renamed"}


def test_a_setting_may_get_fewer_data_sets(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "planted", replace(BENCHMARKS["planted"], fewer_sets={"many": 3}))
    lines: list[str] = []
    rows = rows_of(run_benchmark("planted", tmp_path, write=lines.append, isolated=False))
    seeds = {
        setting: {int(row["seed"]) for row in rows if row["data_set"] == setting}
        for setting in ("few", "many")
    }
    assert seeds == {"few": set(range(6)), "many": set(range(3))}
    assert "9/9 data sets" in lines[-2]


def test_slow_methods_get_fewer_data_sets_and_a_setting_may_leave_some_out(
    tiny: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capped = replace(BENCHMARKS["planted"], slow_methods={"halves": 2}, only={"many": ("truthful", "halves")})
    monkeypatch.setitem(BENCHMARKS, "planted", capped)
    page = run_benchmark("planted", tmp_path, write=quiet, isolated=False)
    measured = {(row["method"], row["data_set"], int(row["seed"])) for row in rows_of(page)}
    assert {key for key in measured if key[0] == "halves"} == {
        ("halves", setting, seed) for setting in ("few", "many") for seed in (0, 1)
    }
    assert {key[0] for key in measured if key[1] == "many"} == {"truthful", "halves"}
    assert len(measured) == 4 + 6 * 2 + 6 + 6  # halves, truthful, renamed and random labels in one setting
    overview = page.read_text().split("minus the oracle's, in every setting")[1].split("##")[0]
    cells = {line.split("|")[1].strip(): line.split("|")[2:4] for line in overview.strip().splitlines()}
    assert [cell.strip() for cell in cells["renamed"]] == ["0.0000 ± 0.0000", "–"]
    assert "truthful" not in cells


def test_unknown_names_list_what_exists(tiny: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"no benchmark 'nothing'.*mog"):
        run_benchmark("nothing", tmp_path, write=quiet)
    with pytest.raises(BenchmarkError, match=r"no method 'nobody'.*HDBSCAN"):
        run_benchmark("planted", tmp_path, methods=["nobody"], write=quiet)
    with pytest.raises(BenchmarkError, match="at least 1"):
        run_benchmark("planted", tmp_path, n_sets=0, write=quiet)
    with pytest.raises(BenchmarkError, match="registered twice"):
        register(METHODS["oracle"])
    assert "mog" in benchmark_names()


def test_crashes_and_time_outs_are_rows(
    planted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = planted.benchmark("troubled", "halves", "unbuildable", settings=("many",))
    monkeypatch.setitem(BENCHMARKS, "planted", chosen)
    page = run_benchmark("planted", tmp_path, write=quiet, time_limit=2.0)
    rows = [row for row in rows_of(page) if row["metric"] == "ARI"]
    troubled = [row for row in rows if row["method"] == "troubled"]
    assert [row["status"] for row in troubled] == [
        "ok",
        "error: RuntimeError: planted crash",
        "error: ValueError: labels must be 150 integers; got shape (3,) of int64",
        "timeout",
        "ok",  # in a new process
        "error: the process ended with code 7: planted last words",
    ]
    assert [math.isnan(float(row["value"])) for row in troubled] == [False, True, True, True, False, True]
    assert float(troubled[0]["peak_memory_mb"]) > 1
    assert float(troubled[3]["seconds"]) >= 2.0
    broken = [row for row in rows if row["method"] == "unbuildable"]
    assert {row["status"] for row in broken} == {"error: ImportError: planted: no such library"}
    assert [row["status"] for row in rows if row["method"] == "halves"] == ["ok"] * 6
    text = page.read_text()
    assert "2 of 6" in text
    assert "1 × timeout" in text


class AlwaysLate:
    """A method process that never answers in time, and counts how often it was asked."""

    asked = 0

    def __init__(self, method: Method, threads: int, worker: Worker) -> None:
        self.method = method

    def __enter__(self) -> AlwaysLate:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def run(self, case: Case, limit: float) -> Reply:
        AlwaysLate.asked += 1
        return Reply("timeout", seconds=limit)


def test_a_hopeless_method_is_spared_the_rest(
    planted: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "planted", planted.benchmark("halves", settings=("many",)))
    monkeypatch.setattr(judge, "MethodProcess", AlwaysLate)
    expected = ["timeout"] * 5 + ["skipped: 5 time-outs or crashes in a row"] * 4
    for n_sets in (3, 9, 9):  # killed within the streak, then twice to the end
        page = run_benchmark("planted", tmp_path, write=quiet, n_sets=n_sets)
    assert [row["status"] for row in rows_of(page) if row["metric"] == "ARI"] == expected
    assert AlwaysLate.asked == 5
