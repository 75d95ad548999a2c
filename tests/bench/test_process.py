"""What a method's process is told, without starting one: starting is tested with whole runs."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from clusterwise.bench import Case, Method, Outcome
from clusterwise.bench.memory import peak_memory_mb, reset_peak_memory
from clusterwise.bench.process import InThisProcess, MethodProcess, thread_environment
from clusterwise.bench.worker import measure


def test_only_references_see_the_truth(planted: ModuleType) -> None:
    case = planted.draw("few", 0)
    seen: list[bool] = []

    def build():  # type: ignore[no-untyped-def]
        def run(shown: Case) -> Outcome:
            seen.append(shown.truth is not None)
            return Outcome(np.zeros(len(shown.points), dtype=int))

        return run

    for sees_truth in (False, True):
        assert InThisProcess(Method("spy", build, sees_truth=sees_truth)).run(case, 1.0).status == "ok"
    assert seen == [False, True]


def test_a_method_that_cannot_travel_says_so_at_once(planted: ModuleType) -> None:
    with MethodProcess(Method("here only", lambda: None)) as process:  # type: ignore[arg-type, return-value]
        first = process.run(planted.draw("few", 0), 1.0)
        assert first.status.startswith("error: ")
        assert "lambda" in first.status
        assert process.run(planted.draw("few", 1), 1.0) is first


def test_the_density_is_neither_timed_nor_needed() -> None:
    case = Case(np.zeros((4, 2)), 0, None)
    order: list[str] = []

    def density() -> float:
        order.append("density")
        return -3.0

    reply = measure(lambda shown: Outcome(np.arange(len(shown.points)), density), case)
    assert (reply.status, reply.log_likelihood, order) == ("ok", -3.0, ["density"])
    assert measure(lambda shown: Outcome(np.arange(4)), case).log_likelihood is None
    assert measure(lambda shown: Outcome(np.arange(4.0)), case).status.startswith("error: ValueError: labels")


def test_threads_are_the_same_for_all_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("SOMETHING_ELSE", "kept")
    limited, free = thread_environment(3), thread_environment(None)
    assert {value for name, value in limited.items() if name.endswith("_THREADS")} == {"3"}
    assert limited["OMP_NUM_THREADS"] == "3"
    assert "OMP_NUM_THREADS" not in free
    assert limited["SOMETHING_ELSE"] == free["SOMETHING_ELSE"] == "kept"


def test_memory_in_use_shows_in_the_peak() -> None:
    reset_peak_memory()
    before = peak_memory_mb()
    block = np.ones(25_000_000)  # 200 MB
    assert peak_memory_mb() - before > 100
    assert block[0] == 1.0
