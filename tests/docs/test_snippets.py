"""The code of the README and of the documentation runs as it stands, and gives what its comments say."""

from __future__ import annotations

import ast
import pkgutil
import re
import shutil
import textwrap
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import clusterwise as cw
from clusterwise.training import from_labels

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.M | re.S)
SHAPE = re.compile(r"\(([\w, ]+,|[\w ]+, [\w, ]+)\)")
# Blocks that need machines or weights of the reader's own, or half a minute: the page, and what they mention.
ELSEWHERE = [
    ("guide/large_data.md", "Client("),
    ("guide/training.md", "trained/amcp-3d.safetensors"),
    ("methods/deepdpm.md", "ImageVariants("),
]


def blocks_of(page: Path) -> list[str]:
    name = page.relative_to(ROOT / "docs").as_posix() if page.is_relative_to(ROOT / "docs") else page.name
    skipped = [word for other, word in ELSEWHERE if other == name]
    blocks = [textwrap.dedent(code) for _, code in BLOCK.findall(page.read_text())]
    return [code for code in blocks if not any(word in code for word in skipped)]


WITH_CODE = {page.relative_to(ROOT).as_posix(): blocks_of(page) for page in PAGES if blocks_of(page)}


def heaps(n: int, d: int = 2, seed: int = 0) -> np.ndarray:
    """Rows (n, d) of three clusters that lie apart."""
    rng = np.random.default_rng(seed)
    return 12.0 * rng.normal(size=(3, d))[np.arange(n) % 3] + rng.normal(size=(n, d))


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the reader has, in a folder with the reader's files; trainings are short."""
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cw, "train_from_labels", partial(cw.train_from_labels, steps=4, verbose=False))
    monkeypatch.setattr(from_labels, "STEPS_OF_PILOT", 20)
    shutil.copy(ROOT / "examples" / "customers.csv", "customers.csv")
    np.save("features.npy", heaps(90, 4))
    Path("sales").mkdir()
    pd.DataFrame(heaps(120, 3), columns=list("abc")).to_parquet("sales/1.parquet")
    frame = pd.DataFrame(heaps(120, 4), columns=["age", "income", "year", "spent"]).assign(
        kind=list("uvw") * 40
    )
    X, y = heaps(180), np.repeat(np.arange(12), 15)
    images = np.random.default_rng(0).integers(0, 255, (180, 28, 28)).astype(np.uint8)
    return {
        "np": np,
        "pd": pd,
        "cw": cw,
        "X": X,
        "y": y,
        "X_new": heaps(9),
        "X_later": heaps(5),
        "X1": X,
        "X2": X[:50],
        "X3": X[:70],
        "data_sets": [X, X[:60]],
        "frame": frame,
        "answers": pd.DataFrame({column: list("uvw") * 40 for column in "abcdef"}),
        "texts": ["red green blue", "one two three four"] * 20,
        "images": images,
        "new_images": images[:40],
        "later": images[40:50],
        "est": cw.Clusterer(random_state=0).fit(X),
    }


def check_said(value: Any, comment: str) -> None:
    """Compare a value with the number, the mapping or the shape that its comment begins with."""
    first = value[0] if isinstance(value, tuple) else value
    if (said := re.match(r"(\d+)\b", comment)) and isinstance(first, Integral):
        assert first == int(said[1])
    if comment.startswith("{"):
        assert isinstance(value, dict)
    said = SHAPE.match(comment)
    if said is None or not hasattr(value, "shape"):
        return
    parts = [part.strip() for part in said[1].split(",") if part.strip()]
    assert len(parts) == len(value.shape)
    assert all(size == int(part) for part, size in zip(parts, value.shape, strict=True) if part.isdecimal())


def run_block(code: str, names: dict[str, Any]) -> None:
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        comment = lines[(statement.end_lineno or 1) - 1][statement.end_col_offset or 0 :].strip().lstrip("# ")
        part = ast.get_source_segment(code, statement) or ""
        if isinstance(statement, ast.Expr):
            check_said(eval(part, names), comment)
        else:
            exec(part, names)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", WITH_CODE)
def test_code_of_the_documentation(page: str, names: dict[str, Any]) -> None:
    from matplotlib import pyplot

    for code in WITH_CODE[page]:
        run_block(code, names)
        pyplot.close("all")


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "modules.md", ROOT / "docs" / "api.md", ROOT / "docs" / "architecture.md"]
)
def test_modules_that_are_named_exist(page: Path) -> None:
    for name in sorted(set(re.findall(r"\bclusterwise(?:\.\w+)+", page.read_text()))):
        pkgutil.resolve_name(name)


def test_all_pages_are_found() -> None:
    assert len(WITH_CODE) > 15
    assert {"README.md", "docs/quick_start.md", "docs/guide/tables.md"} <= set(WITH_CODE)
    for page, word in ELSEWHERE:
        assert word in (ROOT / "docs" / page).read_text()
