"""The planted methods, importable here and in the processes of the runner."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module ``planted``."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module = importlib.import_module("planted")
    module.calls.clear()
    return module
