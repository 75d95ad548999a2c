"""Exponents, and operations that can be called at every size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.suite import Case, find_suite
from benchmarks.suites import growth
from benchmarks.suites.growth import OPERATIONS, exponent, measured
from benchmarks.summary import Rows


def test_exponents_of_powers() -> None:
    sizes = [10, 20, 40, 80]
    assert exponent(sizes, [0.1 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert exponent(sizes, [5.0, 5.0, 5.0, 5.0]) == pytest.approx(0)


def test_an_operation_is_measured_at_its_size() -> None:
    place = [one.call for one in OPERATIONS["columns"]].index("projection of pictures")
    outcome = measured("columns", place)(growth.at_size(1))
    assert outcome.more is not None
    cells = outcome.more(Case(np.zeros((1, 1))))
    assert cells["size"] == OPERATIONS["columns"][place].sizes[1]
    assert cells["cpu"] > 0


def test_the_page_marks_what_grows_too_fast(tmp_path: Path) -> None:
    rows = Rows(
        {"data": "rows", "method": f"{one.call}, rows", "index": str(index), "status": "ok"}
        | {"size": str(size), "cpu": str(1e-6 * size**power), "megabytes": "3"}
        for one, power in zip(OPERATIONS["rows"][:2], (1.0, 2.0), strict=True)
        for index, size in enumerate(one.sizes)
    )
    suite = find_suite("growth")
    assert suite.report is not None
    _, heading, table = suite.report(rows, tmp_path / "growth.md")
    linear, square = table.splitlines()[2:]
    assert heading == "## Rows"
    assert " 1.00 " in linear and "!" not in linear
    assert " 2.00 ! " in square
    assert (tmp_path / "growth.png").stat().st_size > 10_000
