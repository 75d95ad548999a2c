"""Mutants of a toy: which there are, and which its tests let live."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutants import callers_of, mirror_of, mutants_of, run

TOY = '''"""A toy: 1 + 1 in words is no code."""

def larger(a: int = 3, b: "int | str" = 4) -> int:
    """Return the larger one, plus 1."""
    if a < 0:
        raise ValueError(f"{a + 1}")
    return max(a, b) + 1

ü = [-1.5, not True]
'''
TESTS = """
from clusterwise.room.toy import larger

def test_larger():
    assert larger(2, 5) == 6
    assert larger(5, 2) == 6
"""


def changes(code: str) -> set[str]:
    source = code.encode()
    return {mutant.applied(source).decode() for mutant in mutants_of(source, "toy.py")}


def changed(old: str, new: str) -> str:
    assert TOY.count(old) == 1
    return TOY.replace(old, new)


def test_every_mutation_of_a_toy() -> None:
    assert changes(TOY) == {
        changed("a: int = 3", "a: int = (4)"),
        changed("= 4)", "= (5))"),
        changed("if a < 0:", "if (not a < 0):"),
        changed("if a < 0:", "if (a > 0):"),
        changed("a < 0:", "a < (1):"),
        changed("return max(a, b) + 1", "return (-(max(a, b) + 1))"),
        changed("max(a, b) + 1", "(max(a, b) - 1)"),
        changed("max(a, b) +", "(min)(a, b) +"),
        changed("max(a, b) + 1", "max(a, b) + (2)"),
        changed("-1.5", "(1.5)"),
        changed("1.5", "(3.0)"),
        changed("not True", "(True)"),
        changed("True]", "(False)]"),
    }


def test_mutations_of_operators_and_names() -> None:
    for code, mutant in {
        "a and b": "(a or b)",
        "a is None": "(a is not None)",
        "a.argmin(b)": "(a.argmax)(b)",
        "a * b": "(a / b)",
        "a**b": "(a * b)",
        "c if a else b": "c if (not a) else b",
    }.items():
        assert changes(code) == {mutant}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the toy, which nothing tests below 0."""
    for path, text in {
        "src/clusterwise/__init__.py": "",
        "src/clusterwise/room/__init__.py": "",
        "src/clusterwise/room/toy.py": TOY,
        "src/clusterwise/room/user.py": "from clusterwise.room.toy import larger\n",
        "src/clusterwise/far.py": "from clusterwise.room import user\n",
        "tests/room/test_toy.py": TESTS,
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def test_survivors_are_those_that_nothing_tests(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take half a second each time
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    text = run(["src/clusterwise/room/toy.py"], 4, 0, 5.0, checkout)
    assert before == {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    survivors = [line.split(" | ")[1:] for line in text.splitlines() if "`" in line]
    assert ["9", "`-1.5`", "`(1.5)` |"] in survivors  # no test reads it
    assert "7" not in {line for line, _, _ in survivors}  # what the function returns
    assert f"{len(survivors)} of 4 mutants survived" in text


def test_mirror_and_callers(checkout: Path) -> None:
    assert mirror_of("src/clusterwise/room/toy.py", checkout) == ["tests/room/test_toy.py"]
    assert mirror_of("src/clusterwise/room/user.py", checkout) == ["tests/room"]
    names = {path.name for path in callers_of("src/clusterwise/room/toy.py", checkout)}
    assert names == {"toy.py", "user.py", "far.py"}
