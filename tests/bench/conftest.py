"""The planted methods, registered for the time of a test."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from clusterwise.bench import registry


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
