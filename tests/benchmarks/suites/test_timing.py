"""Batches, stages, a busy core; no time is asserted."""

from __future__ import annotations

import contextlib
import subprocess

import numpy as np
import pytest

import clusterwise as cw
from benchmarks.suite import Case, Outcome
from benchmarks.suites import timing
from benchmarks.suites.timing import REST, STAGES, batched, by_stages, next_to_another_process

POPEN = subprocess.Popen


def test_a_batch_gives_the_labels_of_single_fits() -> None:
    run = batched("(200, 4)", 2)
    for index in (0, 1):
        case = timing.SPEED_SETS["(200, 4)"](index)
        outcome = run(case)
        expected = cw.AMCP(random_state=0).fit_predict(case.points)
        np.testing.assert_array_equal(outcome.labels, expected)
        assert outcome.seconds is not None


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_that_keeps_a_core_busy_ends_with_the_fit(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def popen(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(POPEN(command))
        return started[-1]

    def fit(case: Case) -> Outcome:
        assert started[0].poll() is None  # it runs meanwhile
        if fails:
            raise ValueError("no clusters")
        return Outcome(np.zeros(len(case.points), dtype=np.int64))

    monkeypatch.setattr(subprocess, "Popen", popen)
    run = next_to_another_process(lambda: fit)
    with pytest.raises(ValueError, match="no clusters") if fails else contextlib.nullcontext():
        assert run(Case(np.zeros((3, 2)))).seconds > 0
    assert started[0].poll() is not None


def test_stages_add_up_and_the_fit_is_the_same() -> None:
    points = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 100, axis=0)
    expected = cw.AMCP(random_state=0).fit_predict(points)
    outcome = by_stages("AMCP")(Case(points))
    np.testing.assert_array_equal(outcome.labels, expected)
    assert outcome.more is not None
    seconds = outcome.more(Case(points))
    assert list(seconds) == [*STAGES, REST]
    assert all(value > 0 for value in seconds.values())
    assert outcome.seconds == pytest.approx(sum(seconds.values()))
