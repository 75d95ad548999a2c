"""The script that writes the golden files, as a module."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def make_golden(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``make_golden.py`` beside this file."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("make_golden")
