"""Progress lines."""

from __future__ import annotations

import pytest

from benchmarks import progress


def test_the_estimate_leaves_the_start_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    lines: list[str] = []
    shown = progress.Progress("name", 100, lines.append, interval=10.0)
    shown.step(1, measured=False)  # known from an earlier run
    now += 60.0
    shown.step(2, measured=True)  # the first one measured pays for the start
    for done in range(3, 13):
        now += 2.0
        shown.step(done, measured=True)
    now += 1.0
    shown.step(100, measured=True)
    assert lines == [
        "name: 2/100 data sets, 1 min 00 s elapsed",
        "name: 7/100 data sets, 1 min 10 s elapsed, about 3 min 06 s left",
        "name: 12/100 data sets, 1 min 20 s elapsed, about 2 min 56 s left",
        "name: 100/100 data sets, 1 min 21 s elapsed",
    ]
