"""Compiling before anyone waits for it, and beside the first command."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from clusterwise import GaussianSearch
from clusterwise.cli import warming


class Recorder:
    """Stands in for a process."""

    started: list[list[str]]

    def __init__(self, command: list[str], **_: Any) -> None:
        Recorder.started.append(command)
        self.killed = False

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.killed  # or the command would wait for it

    def kill(self) -> None:
        self.killed = True


@pytest.mark.parametrize(("compiled", "cores", "expected"), [(False, 2, 1), (True, 2, 0), (False, 1, 0)])
def test_another_process_helps_only_where_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch, compiled: bool, cores: int, expected: int
) -> None:
    Recorder.started = []
    monkeypatch.setattr(subprocess, "Popen", Recorder)
    monkeypatch.setattr(warming, "_is_compiled", lambda: compiled)
    monkeypatch.setattr(joblib, "cpu_count", lambda: cores)
    with pytest.raises(ZeroDivisionError), warming.compiling_beside():
        raise ZeroDivisionError
    assert len(Recorder.started) == expected
    for command in Recorder.started:  # what it would run exists
        subprocess_code = command[-1].partition(";")[0]
        exec(subprocess_code, {})


def test_compiled_loops_are_found_where_numba_keeps_them() -> None:
    GaussianSearch(random_state=0).fit(np.random.default_rng(0).normal(size=(40, 2)))
    assert warming._is_compiled()


@pytest.mark.slow
def test_the_other_process_leaves_the_search_and_communities_on_disk(tmp_path: Path) -> None:
    code = (
        "from clusterwise.cli import warming\n"
        "assert not warming._is_compiled()\n"
        "warming.compile_search()\n"
        "assert warming._is_compiled()\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    found = {path.name.partition("-")[0] for path in tmp_path.rglob("*.nbi")}
    assert {"em.expect", "shapes._project", "gaps._group", "communities._aggregate"} <= found
