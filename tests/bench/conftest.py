"""The planted methods, registered for the time of a test."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from clusterwise.bench import registry
from clusterwise.bench.process import InThisProcess


class Here(InThisProcess):
    """A method process that is none: real ones have tests of their own, and take seconds to start."""

    threads: list[int | None] = []  # what was asked for  # noqa: RUF012

    def __init__(self, method: registry.Method, threads: int | None = 1) -> None:
        super().__init__(method)
        Here.threads.append(threads)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *details: object) -> None:
        pass


@pytest.fixture
def here() -> type[Here]:
    """The class, to be put in the place of ``MethodProcess``."""
    Here.threads.clear()
    return Here


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module ``planted``, importable here and in the processes of the judge."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module = importlib.import_module("planted")
    registry.discover()
    for name, method in module.METHODS.items():
        monkeypatch.setitem(registry.METHODS, name, method)
    module.calls.clear()
    return module
