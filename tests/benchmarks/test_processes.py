"""What a method's process is told; that failures in it become rows is tested with whole runs."""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np
import pytest

from benchmarks import processes
from benchmarks.processes import Processes, ThisProcess, limited_threads, measure, peak_memory_mb
from benchmarks.suite import Case, Method, Outcome, Run


def test_only_those_who_may_see_the_truth(planted: ModuleType) -> None:
    seen: list[bool] = []

    def build() -> Run:
        def run(shown: Case) -> Outcome:
            seen.append(bool(shown.references) and shown.oracle_labels is not None)
            return Outcome(np.zeros(len(shown.points), dtype=int))

        return run

    for sees_truth in (False, True):
        method = Method("spy", build, sees_truth=sees_truth)
        assert ThisProcess().run(method, planted.few(0), 1.0).status == "ok"
    assert seen == [False, True]


def test_a_method_that_cannot_travel_says_so_at_once(planted: ModuleType) -> None:
    running = Processes()
    method = Method("here only", lambda: lambda case: Outcome(case.references[0]))
    first = running.run(method, planted.few(0), 1.0)
    assert first.status.startswith("error: ") and "lambda" in first.status
    assert running.run(method, planted.few(1), 1.0) is first


def test_what_comes_after_the_partition_is_not_timed() -> None:
    case = Case(np.zeros((4, 2)))
    order: list[str] = []

    def density() -> float:
        order.append("density")
        return -3.0

    def more(true: Case) -> dict[str, int]:
        assert true is case
        order.append("more")
        return {"chains": 2}

    reply = measure(lambda shown: Outcome(np.arange(4), density, more), case)
    assert (reply.status, reply.log_likelihood, reply.more) == ("ok", -3.0, {"chains": 2})
    assert order == ["density", "more"]
    assert np.isnan(measure(lambda shown: Outcome(np.arange(4)), case).log_likelihood)
    assert measure(lambda shown: Outcome(np.arange(4), seconds=7.0), case).seconds == 7.0
    assert measure(lambda shown: Outcome(np.arange(4.0)), case).status.startswith("error: ValueError: labels")


def test_threads_are_the_same_for_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with limited_threads(3):
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "3"
    with limited_threads(None):
        assert "OMP_NUM_THREADS" not in os.environ
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_own_processes_and_the_wall_clock(planted: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh method has a process for each data set; one that does nothing is ended."""
    monkeypatch.setattr(processes, "PATIENCE", 1.0)
    running = Processes()
    try:
        for fresh in (True, False):
            method = Method(f"fresh {fresh}", planted.telling_its_process, fresh=fresh)
            replies = [running.run(method, Case(np.zeros((3, 2))), 60.0) for _ in range(2)]
            assert [reply.status for reply in replies] == ["ok", "ok"]
            assert (replies[0].more["pid"] != replies[1].more["pid"]) == fresh
        reply = running.run(Method("hanging", planted.hanging), Case(np.zeros((100, 2))), 1.0)
        assert (reply.status, reply.cpu_seconds) == ("timeout", 1.0)
    finally:
        running.close()


def test_memory_in_use_shows_in_the_peak() -> None:
    before = peak_memory_mb(reset=True)
    block = np.ones(25_000_000)  # 200 MB
    assert peak_memory_mb() - before > 100
    assert block[0] == 1.0
