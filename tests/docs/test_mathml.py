"""Formulas of the documentation as MathML; needs the extra `docs`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs the extra docs")
FILE = Path(__file__).parents[2] / "docs" / "mathml.py"


@pytest.fixture(scope="module")
def mathml():
    specification = importlib.util.spec_from_file_location("mathml", FILE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def flat(text: str) -> str:
    return "".join(line.strip() for line in text.splitlines())


def test_an_index_stands_beside_an_accented_letter(mathml):
    made = flat(mathml._mathml(r"\tilde r_{i}", block=False))
    assert '<msub><mover><mi>r</mi><mo stretchy="false">~</mo></mover><mi>i</mi></msub>' in made
    assert "munderover" not in made


def test_a_function_is_followed_by_a_space_or_a_bracket(mathml):
    assert "mspace" in mathml._mathml(r"\log x", block=False)
    assert "mspace" not in mathml._mathml(r"\cos(x)", block=False)


def test_unknown_commands_do_not_pass_in_silence(mathml):
    with pytest.raises(ValueError, match="nosuchcommand"):
        mathml._mathml(r"\nosuchcommand x", block=True)
