"""Figures against a slow and obvious computation."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from benchmarks.page import (
    gap,
    markdown_table,
    mean,
    median,
    method_table,
    plus_minus,
    ratio,
    sets,
    significant,
)  # fmt: skip
from benchmarks.summary import Rows, describe, differences, ratios


@pytest.fixture
def rows() -> Rows:
    """Two methods on seven data sets of two kinds; one of them fails on a data set."""
    rng = np.random.default_rng(3)
    return Rows(
        {
            "data": data,
            "method": method,
            "index": str(index),
            "status": "timeout" if (method, index) == ("ours", 2) else "ok",
            "seconds": str(rng.exponential()),
            "ARI": "" if (method, index) == ("ours", 2) else str(rng.normal()),
        }
        for index in range(7)
        for data in ("few", "many")
        for method in ("peer", "ours")
    )


def test_statistics_are_the_obvious_ones(rows: Rows) -> None:
    column = [float(row["ARI"]) for row in rows if row["method"] == "ours" and row["ARI"]]
    found = rows.of(method="ours").describe("ARI")
    assert found.count == len(column) == 12
    assert found.mean == pytest.approx(statistics.mean(column))
    assert found.sd == pytest.approx(statistics.stdev(column))
    assert found.standard_error == pytest.approx(statistics.stdev(column) / math.sqrt(12))
    assert found.median == pytest.approx(statistics.median(column))
    assert found.total == pytest.approx(sum(column))


def test_pairs_are_of_the_same_data_set(rows: Rows) -> None:
    ours, peer = rows.of(method="ours"), rows.of(method="peer")
    pairs = [
        (float(a["seconds"]), float(b["seconds"]))
        for a in ours.good
        for b in peer
        if (a["data"], a["index"]) == (b["data"], b["index"])
    ]
    assert len(pairs) == 12
    found = differences(ours.values("seconds"), peer.values("seconds"))
    assert found == pytest.approx([a - b for a, b in pairs])
    each, total = ratios(ours.values("seconds"), peer.values("seconds"))
    assert each == pytest.approx([a / b for a, b in pairs])
    assert total == pytest.approx(sum(a for a, _ in pairs) / sum(b for _, b in pairs))


def test_a_table_shows_them(rows: Rows) -> None:
    columns = {
        "sets": sets,
        "ARI": mean("ARI", 3),
        "gap": gap("ARI", "peer", 3),
        "seconds": median("seconds"),
        "ratio": ratio("seconds", "peer"),
    }
    table = method_table(rows, ["ours", "nobody", "peer"], columns).splitlines()
    header, _, ours, peer = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert header == ["method", *columns]
    assert ours[:3] == ["ours", "12 of 14", plus_minus(rows.of(method="ours").describe("ARI"), 3)]
    assert (peer[:2], peer[3], peer[5]) == (["peer", "14"], "–", "1.00")
    assert rows.failures == [("timeout", 2)]


def test_few_values_and_cells() -> None:
    assert math.isnan(describe([]).mean)
    assert plus_minus(describe([]), 2) == "–"
    assert plus_minus(describe([float("nan"), -1.0]), 2) == "−1.00"
    assert plus_minus(describe([1.0, 3.0]), 2, "+") == "+2.00 ± 1.00"
    assert plus_minus(describe([1.0, 3.0]), 2, spread="sd") == "2.00 ± 1.41"
    values = (0.001234, 1.0, 12.34, 12345.0, float("nan"))
    assert list(map(significant, values)) == ["0.00123", "1.00", "12.3", "12345", "–"]
    table = markdown_table(["a", "b"], [["x|y", "1"]]).splitlines()
    assert table == ["| a    |   b |", "| ---- | --: |", "| x\\|y |   1 |"]
