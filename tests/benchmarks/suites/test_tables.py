"""Data sets with k hidden: what is drawn, and how failures count on the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.data import files_in
from benchmarks.peers import GIVEN_K
from benchmarks.suites.tables import BATTERIES, QUICK, battery_of, data_sets, methods, report, tables
from benchmarks.summary import Rows


def row(data: str, method: str, status: str = "ok", ari: float = 1.0, error: int = 0) -> dict[str, str]:
    cells = {"ARI": str(ari), "k error": str(error), "right k": str(int(error == 0)), "cpu_seconds": "2.0"}
    if status != "ok":
        cells = dict.fromkeys(cells, "") | {"cpu_seconds": "nan" if "skipped" in status else "180"}
    return {"data": data, "method": method, "index": "0", "status": status, "seconds": "3.0", **cells}


def cells_of(parts: list[str], title: str, method: str, place: int = 0) -> list[str]:
    found = [parts[i + 1 :] for i, part in enumerate(parts) if part == f"### {title}"][place]
    table = next(part for part in found if part.startswith("|")).splitlines()
    line = next(line for line in table if line.startswith(f"| {method} "))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_failures_count_as_the_worst_and_skipped_data_sets_not_at_all() -> None:
    rows = [
        row("fcps/a", "GMM + BIC"),
        row("fcps/b", "GMM + BIC", "timeout"),
        row("wut/c", "GMM + BIC", ari=0.5, error=4),
        row("fcps/a", "MeanShift", ari=0.4),
        row("fcps/b", "MeanShift", "skipped: more than 2,000 rows"),
        row("fcps/a", "Ward (true k)", ari=0.25),
    ]
    parts = report(Rows(rows), Path("tables.md"))
    ari = "Adjusted Rand index"
    assert cells_of(parts, ari, "GMM + BIC") == ["0.500 ± 0.500", "0.500", "0.500 ± 0.289"]
    assert cells_of(parts, ari, "MeanShift") == ["0.400", "–", "0.400"]
    assert cells_of(parts, ari, "Ward (true k)", 1) == ["0.250", "–", "0.250"]
    exact = "Share of data sets with the exact number of clusters"
    assert cells_of(parts, exact, "GMM + BIC") == ["50 %", "0 %", "33 %"]
    assert cells_of(parts, "Error in the number of clusters", "GMM + BIC") == ["failed", "4", "4"]
    assert cells_of(parts, "Data sets", "GMM + BIC") == ["1 of 2", "1", "2 of 3"]
    assert cells_of(parts, "Seconds", "GMM + BIC")[0] == "91 (182)"


def test_without_the_data_directory_scikit_learns_sets_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(data.DIRECTORY, str(tmp_path))
    found = data_sets(quick=False)
    assert [battery_of(one.name) for one in found] == ["scikit-learn"] * 6
    for case in (one.draw(0) for one in found):
        np.testing.assert_allclose(case.points.mean(axis=0), 0.0, atol=1e-9)
        assert len(case.points) == len(case.references[0])


def test_only_the_block_with_k_given_sees_the_truth() -> None:
    for method in methods():
        assert method.sees_truth == (method.name in GIVEN_K)
    assert tables(quick=True).time_limit < tables(quick=False).time_limit


@pytest.mark.skipif(not files_in("suite/fcps"), reason="needs the data directory (CLUSTERWISE_DATA)")
def test_data_are_small_enough_and_from_every_battery() -> None:
    every, quick = data_sets(quick=False), {one.name: one for one in data_sets(quick=True)}
    assert {battery_of(one.name) for one in every} == set(map(battery_of, quick)) == set(BATTERIES)
    assert quick.keys() == QUICK <= {one.name for one in every}
    assert "sipu/birch1" not in {one.name for one in every}
    for case in (one.draw(0) for one in quick.values()):
        assert len(case.points) <= 200 and np.isfinite(case.points).all()
        assert all(labels.shape == (len(case.points),) for labels in case.references)
    # Two partitions, the second of which marks noise.
    assert [int(labels.min()) for labels in quick["fcps/target"].draw(0).references] == [0, -1]
