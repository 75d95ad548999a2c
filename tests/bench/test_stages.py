"""Stages share out the time of a call, whatever calls what."""

from __future__ import annotations

import sys
import time
from types import CodeType

import pytest

from clusterwise.bench import stages
from clusterwise.bench.stages import OTHER, code_of, stage_seconds


def pause(seconds: float) -> None:
    time.sleep(seconds)


def outer() -> None:
    pause(0.02)
    inner()
    pause(0.02)
    with pytest.raises(RuntimeError):
        failing()
    list(yielding())


def inner() -> None:
    pause(0.04)
    outermost = sys._getframe(1).f_code.co_name
    assert outermost == "outer"


def failing() -> None:
    pause(0.01)
    raise RuntimeError("planted")


def yielding():
    for _ in range(3):
        pause(0.01)
        yield


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name under which this module can be imported."""
    monkeypatch.setitem(sys.modules, "planted_stages", sys.modules[__name__])
    return "planted_stages"


def test_times_are_exclusive_and_sum_to_the_whole(here: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of our own: every sleep moves it by exactly its length."""
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(stages.time, "perf_counter", lambda: now)
    parts = {
        "around": [f"{here}:outer"],
        "within": [f"{here}:inner", f"{here}:failing"],
        "bit by bit": [f"{here}:yielding"],
        "absent": [f"{here}:nothing", "no_such_module:f", f"{here}:outer.nothing"],
    }

    def run() -> None:
        pause(0.5)
        outer()
        outer()

    seconds = stage_seconds(run, parts)
    assert list(seconds) == [*parts, OTHER]
    expected = {"around": 0.08, "within": 0.1, "bit by bit": 0.06, "absent": 0.0, OTHER: 0.5}
    assert seconds == pytest.approx(expected)


def test_the_profiler_before_is_back_even_after_an_error() -> None:
    before = sys.getprofile()
    with pytest.raises(ZeroDivisionError):
        stage_seconds(lambda: 1 / 0, {})
    assert sys.getprofile() is before


def test_decorated_methods_are_found() -> None:
    code = code_of("clusterwise.models.dac:DAC.infer")
    assert isinstance(code, CodeType)
    assert code.co_name == "infer"
