"""The table's figures against a slow and obvious computation."""

from __future__ import annotations

import math
import statistics
from types import ModuleType

import numpy as np
import pytest

from clusterwise.bench.results import Key, Result
from clusterwise.bench.summary import describe, summarize
from clusterwise.bench.table import markdown_page, markdown_table, plus_minus, significant

METRICS = ("ARI", "k error", "log-likelihood")
METHODS = ("halves", "truthful", "renamed")


@pytest.fixture
def results() -> dict[Key, Result]:
    rng = np.random.default_rng(3)
    made: dict[Key, Result] = {}
    for seed in range(7):
        for setting in ("few", "many"):
            for method in METHODS:
                ok = not (method == "halves" and seed == 2)
                values = {name: float(rng.normal()) if ok else float("nan") for name in METRICS}
                if method == "halves":
                    values["log-likelihood"] = float("nan")
                made[method, setting, seed] = Result(
                    values, float(rng.exponential()), 50.0, "ok" if ok else "timeout", "v"
                )
    return made


def test_aggregates_are_the_obvious_ones(planted: ModuleType, results: dict[Key, Result]) -> None:
    summaries = summarize(results.items(), planted.benchmark(), METRICS)
    assert [(s.setting, s.method) for s in summaries] == [
        (setting, method) for setting in ("few", "many") for method in ("truthful", "renamed", "halves")
    ]
    for summary in summaries:
        seeds = [seed for seed in range(7) if results[summary.method, summary.setting, seed].status == "ok"]
        mine = {seed: results[summary.method, summary.setting, seed] for seed in seeds}
        oracle = {seed: results["truthful", summary.setting, seed] for seed in seeds}
        reference = {seed: results["halves", summary.setting, seed] for seed in seeds if seed != 2}
        for name in METRICS:
            if summary.method == "halves" and name == "log-likelihood":
                assert summary.metrics[name].count == 0
                continue
            column = [mine[seed].values[name] for seed in seeds]
            found = summary.metrics[name]
            assert found.mean == pytest.approx(statistics.mean(column))
            assert found.standard_error == pytest.approx(statistics.stdev(column) / math.sqrt(len(column)))
            assert found.median == pytest.approx(statistics.median(column))
            differences = [mine[seed].values[name] - oracle[seed].values[name] for seed in seeds]
            assert summary.gaps[name].mean == pytest.approx(statistics.mean(differences))
            expected = statistics.stdev(differences) / math.sqrt(len(differences))
            assert summary.gaps[name].standard_error == pytest.approx(expected)
        ratios = [mine[seed].seconds / reference[seed].seconds for seed in reference]
        assert summary.time_ratios.median == pytest.approx(statistics.median(ratios))
        total = sum(mine[seed].seconds for seed in reference) / sum(r.seconds for r in reference.values())
        assert summary.total_time_ratio == pytest.approx(total)
        assert (summary.n_sets, summary.n_failed) == (7, 7 - len(seeds))


def test_the_page_shows_them(planted: ModuleType, results: dict[Key, Result]) -> None:
    benchmark = planted.benchmark()
    summaries = summarize(results.items(), benchmark, METRICS)
    page = markdown_page(benchmark, summaries, METRICS, {"v": set(METHODS)})
    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("| method")]
    # All settings in one, then three tables per setting, the headline first.
    assert len(tables) == 1 + 2 * 3
    for block, setting in zip((tables[1], tables[4]), ("few", "many"), strict=True):
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in block]
        assert [row[0] for row in cells[2:]] == ["truthful", "renamed", "halves"]
        halves = next(s for s in summaries if (s.setting, s.method) == (setting, "halves"))
        assert cells[4][1] == "6 of 7"
        assert cells[4][2] == plus_minus(halves.metrics["ARI"], 4)
        assert cells[4][3] == plus_minus(halves.gaps["ARI"], 4, signed=True)
        assert cells[2][3] == "–"
    assert "1 × timeout" in page
    assert "several versions" not in page
    mixed = markdown_page(benchmark, summaries, METRICS, {"v": set(METHODS), "w": {"halves"}})
    assert "several versions" in mixed


def test_few_values() -> None:
    assert math.isnan(describe([]).mean)
    assert plus_minus(describe([]), 2) == "–"
    assert plus_minus(describe([float("nan"), -1.0]), 2) == "−1.00"
    assert plus_minus(describe([1.0, 3.0]), 2, signed=True) == "+2.00 ± 1.00"


def test_numbers_and_cells() -> None:
    assert [significant(value) for value in (0.001234, 1.0, 12.34, 12345.0, float("nan"))] == [
        "0.00123", "1.00", "12.3", "12345", "–",
    ]  # fmt: skip
    assert markdown_table(["a", "b"], [["x|y", "1"]]).splitlines() == [
        "| a    |   b |",
        "| ---- | --: |",
        "| x\\|y |   1 |",
    ]
