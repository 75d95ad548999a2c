"""What holds for every suite: names fit together, methods travel, and pages are made from any rows."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from benchmarks.comparison import Comparison
from benchmarks.page import introduction, write_page
from benchmarks.scores import METRICS
from benchmarks.suite import Suite, find_suite, suite_names
from benchmarks.summary import Rows

SUITES = {(name, quick): find_suite(name, quick) for name in suite_names() for quick in (False, True)}


@pytest.mark.parametrize(("name", "quick"), SUITES)
def test_names_fit_together(name: str, quick: bool) -> None:
    suite = SUITES[name, quick]
    names = [method.name for method in suite.methods]
    assert len(set(names)) == len(names)
    assert set(suite.metrics) <= set(METRICS)
    for data in suite.data:
        assert data.n_sets >= 1
        assert set(data.methods or ()) <= set(names)
    used = {m.name for m in suite.methods for d in suite.data if suite.measures(m, d, 0)}
    assert used == set(names)
    groups: dict[str, int | None] = {}
    for method in suite.methods:  # a process has one number of threads
        assert groups.setdefault(method.group or method.name, method.threads) == method.threads


@pytest.mark.parametrize("name", suite_names())
def test_methods_travel_a_quick_run_is_smaller_and_the_page_is_introduced(name: str) -> None:
    full, quick = SUITES[name, False], SUITES[name, True]
    for method in quick.methods:
        assert pickle.loads(pickle.dumps(method)).name == method.name
    assert sum(data.n_sets for data in quick.data) <= sum(data.n_sets for data in full.data)
    title, words = introduction(name)
    assert title != name and len(words) > 100 and "{" not in words


def planted_rows(suite: Suite) -> Rows:
    """A row for everything that the suite measures; every fifth method times out."""
    rng = np.random.default_rng(0)
    rows = []
    kinds = suite.data[:1] if isinstance(suite.report, Comparison) else suite.data  # pictures take long
    for data in kinds:
        for place, method in enumerate(suite.methods):
            for index in range(min(data.n_sets, 2)):
                if not suite.measures(method, data, index):
                    continue
                figures = {name: f"{rng.uniform(0.1, 1):.3f}" for name in (*suite.metrics, *suite.columns)}
                ok = place % 5 != 3
                rows.append(
                    {
                        "data": data.name, "method": method.name, "index": str(index), "version": "v",
                        "status": "ok" if ok else "timeout", "seconds": f"{rng.uniform(1, 2):.3f}",
                        "cpu_seconds": "1.0", "peak_memory_mb": "200",
                        **(figures if ok else dict.fromkeys(figures, "")),
                    }
                )  # fmt: skip
    return Rows(rows)


@pytest.mark.parametrize("name", suite_names())
def test_pages_are_made_from_any_rows(name: str, tmp_path: Path) -> None:
    suite = SUITES[name, True]
    rows = planted_rows(suite)
    page = write_page(tmp_path / f"{name}.md", name, suite, rows)
    text = page.read_text(encoding="utf-8")
    page.unlink()
    assert text.count("\n| ") > 2
    assert "nan" not in text.replace("HDBSCAN, noise", "")
    pictures = [part.split("](")[1].rstrip(")") for part in text.split("\n\n") if part.startswith("![")]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
