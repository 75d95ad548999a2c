"""Formulas of the documentation as MathML; needs the extra `docs`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs the extra docs")
FILE = Path(__file__).parents[2] / "docs" / "mathml.py"


def test_formulas_as_mathml() -> None:
    specification = importlib.util.spec_from_file_location("mathml", FILE)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)

    def made(formula: str) -> str:
        return "".join(line.strip() for line in module._mathml(formula, block=False).splitlines())

    # An index stands beside an accented letter, a function is followed by a space or a bracket.
    accented = made(r"\tilde r_{i}")
    assert '<msub><mover><mi>r</mi><mo stretchy="false">~</mo></mover><mi>i</mi></msub>' in accented
    assert "munderover" not in accented
    assert "mspace" in made(r"\log x") and "mspace" not in made(r"\cos(x)")
    with pytest.raises(ValueError, match="nosuchcommand"):
        made(r"\nosuchcommand x")
