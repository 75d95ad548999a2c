from __future__ import annotations

import numpy as np
import pytest

from clusterwise.rows import worker_memory
from clusterwise.rows.worker_memory import memory_kept


@pytest.mark.parametrize("setting", [None, "65536", "strange"])
def test_a_setting_of_dask_is_undone_within_a_task_only(setting, monkeypatch):
    calls = []

    class Library:
        def mallopt(self, number: int, value: int) -> None:
            calls.append((number, value))

        def malloc_trim(self, pad: int) -> None:
            calls.append(("trim", pad))

    monkeypatch.setattr(worker_memory, "_library", Library)
    monkeypatch.delenv(worker_memory.SETTING, raising=False)
    if setting is not None:
        monkeypatch.setenv(worker_memory.SETTING, setting)
    with pytest.raises(ZeroDivisionError), memory_kept():
        within = dict(calls)
        raise ZeroDivisionError
    if setting == "65536":
        assert within[worker_memory.TRIM_THRESHOLD] > 2**20
        assert dict(calls)[worker_memory.TRIM_THRESHOLD] == 65536 and calls[-1] == ("trim", 0)
    else:
        assert calls == []


def test_the_library_at_hand_takes_it(monkeypatch):
    monkeypatch.setenv(worker_memory.SETTING, "65536")
    with memory_kept():
        total = np.ones(10**6).sum()
    assert total == 10**6
