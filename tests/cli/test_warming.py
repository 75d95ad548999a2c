"""Compiling before anyone waits for it, and beside the first command."""

import contextlib
import gc
import os
import subprocess
import sys
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core.sigutils import normalize_signature
from typer.testing import CliRunner

import clusterwise
from clusterwise import cli
from clusterwise.cli import warming
from clusterwise.cli.app import app
from clusterwise.cli.versions import VERSIONS
from clusterwise.estimators import ESTIMATORS

CUSTOMERS = Path(__file__).parents[2] / "examples" / "customers.csv"


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
    monkeypatch.setattr(warming, "_n_cores", lambda: cores)
    with pytest.raises(ZeroDivisionError), warming.compiling_beside():
        assert gc.isenabled() == compiled
        raise ZeroDivisionError
    assert gc.isenabled()
    assert len(Recorder.started) == expected
    for command in Recorder.started:  # what it would run exists
        subprocess_code = command[-1].partition(";")[0]
        exec(subprocess_code, {})


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["cluster", "no.csv"], 1), (["cluster", "--help"], 0), (["models"], 0)]
)
def test_only_a_command_that_fits_gets_help(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: int
) -> None:
    Recorder.started = []
    monkeypatch.setattr(subprocess, "Popen", Recorder)
    monkeypatch.setattr(warming, "_is_compiled", lambda: False)
    monkeypatch.setattr(warming, "_n_cores", lambda: 2)
    monkeypatch.setattr(sys, "argv", ["clusterwise", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    assert len(Recorder.started) == expected


def test_the_first_command_uses_what_is_listed_and_it_is_found_on_disk(tmp_path: Path) -> None:
    arguments = ["cluster", str(CUSTOMERS), "--out", str(tmp_path / "labels.csv")]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    for module, function, types in VERSIONS:
        dispatcher = getattr(import_module(f"clusterwise.{module}"), function)
        assert normalize_signature(types)[0] in dispatcher.signatures, (module, function)
    assert warming._is_compiled()


def test_all_methods_with_compiled_loops_are_warmed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[str] = []

    class Pool(contextlib.nullcontext[Any]):
        def submit(self, fit: Any, name: str, options: dict[str, Any], points: np.ndarray) -> Future[None]:
            getattr(clusterwise, name)(random_state=0, **options)._validate_params()
            fitted.append(name)
            done: Future[None] = Future()
            done.set_result(None)
            return done

    monkeypatch.setattr(warming, "_tables", lambda: [np.zeros((3, 2))] * 3)
    monkeypatch.setattr(warming, "ProcessPoolExecutor", lambda *_: Pool(Pool()))
    warming.warm_up()
    assert fitted == []
    warming.warm_up(everything=True)
    assert {*fitted, "Clusterer"} == ESTIMATORS.keys() - {"DeepDPM"}  # which has no loops of its own


@pytest.mark.slow
def test_nothing_is_left_to_compile_after_the_other_process(tmp_path: Path) -> None:
    code = (
        "from typer.testing import CliRunner\n"
        "from clusterwise.cli import warming\n"
        "assert not warming._is_compiled()\n"
        "warming.compile_backwards()\n"
        "assert warming._is_compiled()\n"
        "from numba.core import event\n"
        "from clusterwise.cli.app import app\n"
        "with event.install_recorder('numba:compile') as compiled:\n"
        f"    CliRunner().invoke(app, ['cluster', {str(CUSTOMERS)!r}])\n"
        "names = [e.data['dispatcher'].__qualname__ for _, e in compiled.buffer if e.is_start]\n"
        "assert not names, names\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=tmp_path)
