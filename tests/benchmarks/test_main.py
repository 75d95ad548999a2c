"""The command: options reach the runner, errors are one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.suite import BenchmarkError, suite_names


def test_options_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    monkeypatch.setattr(command, "run_suite", lambda *args, **options: calls.append((args, options)))
    words = ["mog", "--quick", "--out", "here", "--methods", "GMM + BIC; oracle", "--redo", "--sets", "3"]
    assert command.main(words) == command.main(["mog"]) == 0
    (name, out, quick, methods, _), options = calls[0]
    assert (name, out, quick, methods) == ("mog", Path("here"), True, ["GMM + BIC", "oracle"])
    assert options == {"redo": True, "stale": False, "here": False, "sets": 3}
    assert calls[1][0][1].parts[-2:] == ("benchmarks", "results")
    assert calls[1][0][3] is None


def test_several_suites_or_all_of_them_go_on_after_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_suite(name: str, *args: Any, **options: Any) -> None:
        ran.append(name)
        if name == "mog":
            raise BenchmarkError("no data")

    monkeypatch.setattr(command, "run_suite", run_suite)
    assert command.main(["mog", "crp"]) == 1
    assert capsys.readouterr().err == "error: no data\n"
    command.main(["all"])
    assert ran == ["mog", "crp", *suite_names()]
