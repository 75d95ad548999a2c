"""The study of busy cores with planted estimators: conditions, medians, resumption; no time is asserted."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clusterwise
from clusterwise.bench.process import InThisProcess
from clusterwise.bench.registry import Case, Outcome
from clusterwise.bench.studies import busy
from clusterwise.bench.studies.busy import BUSY, QUIET, Contender
from clusterwise.bench.table import significant

asked: list[int] = []


def planted() -> Callable[[Case], Outcome]:
    def run(case: Case) -> Outcome:
        asked.append(case.seed)
        return Outcome(np.zeros(len(case.points), dtype=np.int64))

    return run


def failing() -> Callable[[Case], Outcome]:
    raise RuntimeError("planted")


def draw(index: int) -> Case:
    return Case(np.zeros((5, 2)), index, None)


@pytest.fixture(autouse=True)
def _few(here: type[InThisProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "MethodProcess", here)
    monkeypatch.setattr(busy, "REPEATS", 3)
    monkeypatch.setattr(busy, "n_threads", lambda: 2)
    asked.clear()


def test_both_conditions_are_measured_once(tmp_path: Path, here: type[InThisProcess]) -> None:
    contenders = {"planted": Contender(planted, draw, "zeros")}
    page = busy.run(tmp_path, True, str, contenders)
    assert (asked, here.threads) == ([0, 0], [1, None])
    busy.run(tmp_path, False, str, contenders)
    assert asked == [0, 0, 1, 2, 1, 2]
    with (tmp_path / "busy.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["condition"], row["index"]) for row in rows) == sorted(
        (condition, index) for condition in (QUIET, BUSY) for index in "012"
    )
    quiet, loud = (
        np.median([float(row["seconds"]) for row in rows if row["condition"] == condition])
        for condition in (QUIET, BUSY)
    )
    assert f"| {significant(loud / quiet, 2)} |" in page.read_text().replace("  ", "")
    busy.run(tmp_path, False, str, contenders)
    assert len(asked) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["busy.csv", "busy.md"]


def test_failures_are_on_the_page_and_tried_again(tmp_path: Path) -> None:
    page = busy.run(tmp_path, True, str, {"broken": Contender(failing, draw, "zeros")})
    assert "broken, one thread, quiet: error: RuntimeError: planted" in page.read_text()
    busy.run(tmp_path, True, str, {"broken": Contender(planted, draw, "zeros")})
    assert asked == [0, 0]


def test_a_core_is_busy_only_inside() -> None:
    started = []
    original = busy.subprocess.Popen

    class Recorded(original):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)
            started.append(self)

    busy.subprocess.Popen = Recorded
    try:
        with busy.busy_cores(1):
            assert [process.poll() for process in started] == [None]
        assert started[0].poll() is not None
        with pytest.raises(ZeroDivisionError), busy.busy_cores(1):
            1 / 0  # noqa: B018
        assert all(process.poll() is not None for process in started)
    finally:
        busy.subprocess.Popen = original


@pytest.mark.parametrize("name", busy.CONTENDERS)
def test_every_contender_is_a_public_estimator(name: str) -> None:
    assert name in clusterwise.__all__
    assert busy.CONTENDERS[name].draw(0).truth is None


def test_all_public_estimators_are_there() -> None:
    public = {name for name in clusterwise.__all__ if hasattr(getattr(clusterwise, name), "fit_predict")}
    assert public == set(busy.CONTENDERS)
