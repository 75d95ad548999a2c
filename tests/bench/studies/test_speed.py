"""The study of speed, on two data sets per setting: every method has its line, and ratios are right."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import registry
from clusterwise.bench.studies import speed

pytestmark = pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OutsidePriorWarning")


def test_page_and_raw_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.discover()
    monkeypatch.setattr(speed, "QUICK_N_SETS", 2)
    monkeypatch.setattr(speed, "N_WARM_UP", 0)
    monkeypatch.setattr(speed, "DRAW_CASE", {"(200, 4)": speed.DRAW_CASE["(200, 4)"]})
    page = speed.run(tmp_path, True, lambda line: None).read_text()
    with (tmp_path / "speed.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in speed.ONE_BY_ONE:
        times = [float(row["seconds"]) for row in rows if row["method"] == name]
        assert len(times) == 2
        assert min(times) > 0
        assert f"| {name} |" in page
    assert "AMCP, in one batch" in page


def test_ratios_are_to_the_reference() -> None:
    single = {speed.REFERENCE: np.array([0.1, 0.3]), "twice as quick": np.array([0.05, 0.15])}
    lines = speed._table("setting", single, {"batched": 0.02})
    assert any("| twice as quick | 100.0 | 100.0 | 2.00 | 2.00 |" in line for line in lines)
    assert any("| batched, in one batch | 20.0 | | 10.00 | |" in line for line in lines)
