"""Progress is printed now and then, and only if it is asked for."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import clusterwise as cw
from clusterwise import _threads as progress
from clusterwise.exceptions import InvalidDataError


def test_steps_are_named_while_they_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 0.01)
    with progress.progress_of("DPMixture", 1) as report:
        report("chain 1 of 2, step", 40, 160)
        deadline = time.perf_counter() + 10
        printed = ""
        while "chain" not in printed and time.perf_counter() < deadline:
            time.sleep(0.02)
            printed += capsys.readouterr().out
    assert "DPMixture [#####...............] chain 1 of 2, step 40 of 160, 0 s\n" in printed
    capsys.readouterr()
    with progress.progress_of("DPMixture", 0) as report:
        report("chain 1 of 2, step", 40, 160)
        time.sleep(0.05)
    assert capsys.readouterr().out == ""


def test_a_callback_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    said: list[tuple[str, int, int]] = []
    with progress.redirected(lambda *one: said.append(one)):
        cw.GaussianSearch().fit(np.random.default_rng(0).normal(size=(30, 2)))
    assert said == [("searching", 0, 1)]
    assert capsys.readouterr().out == ""


def test_a_fit_that_fails_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidDataError):
        cw.GaussianSearch(verbose=1).fit([[np.nan, 1.0]])
    assert set(threading.enumerate()) <= before  # threads of other tests may end meanwhile
