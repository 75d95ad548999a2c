"""The study of speed, on two data sets: every method has its line, ratios are right, nothing runs twice."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.bench import registry
from clusterwise.bench.studies import speed

METHODS = ("AMCP + search", "AMCP, network alone", "GaussianSearch", speed.REFERENCE)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.discover()
    assert set(METHODS) < set(speed.ONE_BY_ONE) < set(registry.METHODS)
    monkeypatch.setattr(speed, "ONE_BY_ONE", METHODS)
    monkeypatch.setattr(speed, "QUICK_N_SETS", 2)
    monkeypatch.setattr(speed, "N_SETS", 3)
    monkeypatch.setattr(speed, "N_WARM_UP", 0)
    monkeypatch.setattr(speed, "SLOW", {"GaussianSearch": 1})
    monkeypatch.setattr(speed, "DRAW_CASE", {"(200, 4)": speed.DRAW_CASE["(200, 4)"]})


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_page_and_raw_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = speed.run(tmp_path, True, str).read_text()
    rows = rows_of(tmp_path / "speed.csv")
    for name in METHODS:
        times = [float(row["seconds"]) for row in rows if (row["method"], row["part"]) == (name, "fit")]
        assert len(times) == (1 if name == "GaussianSearch" else 2)
        assert min(times) > 0
        assert f"| {name} " in page
    assert "AMCP + search, fit_predict_many" in page
    assert [row["part"] for row in rows].count("batch of 2") == speed.N_BATCHES
    for stage in (*speed.STAGES, speed.REST):
        assert f"| {stage} " in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["speed.csv", "speed.md"]

    # A full run goes on from a quick one; what is known is not measured again.
    speed.run(tmp_path, False, str)
    more = rows_of(tmp_path / "speed.csv")
    assert more[: len(rows)] == rows
    assert {row["index"] for row in more[len(rows) :] if row["part"] == "fit"} == {"2"}
    monkeypatch.setattr(speed, "_seconds", lambda action: pytest.fail("measured again"))
    monkeypatch.setattr(speed, "stage_seconds", lambda *_: pytest.fail("measured again"))
    speed.run(tmp_path, False, str)
    assert rows_of(tmp_path / "speed.csv") == more


def test_ratios_are_to_the_reference() -> None:
    fits = {
        speed.REFERENCE: {0: 0.1, 1: 0.3, 2: 0.2},
        "twice as quick": {0: 0.05, 1: 0.15, 2: 0.1},
        "one set only": {0: 0.2},
    }
    lines = [
        [cell.strip() for cell in line.split("|")] for line in speed._table(fits, {0: 0.02}).splitlines()
    ]
    assert lines[3][1:] == ["twice as quick", "3", "100", "60.0 to 140", "2.00", "2.00", ""]
    assert lines[4][1:] == ["one set only", "1", "200", "200 to 200", "0.50", "0.50", ""]
    assert lines[5][1:] == ["AMCP + search, fit_predict_many", "3", "20.0", "–", "10.00", "–", ""]


def test_stages_share_out_the_fit() -> None:
    parts = {stage: {0: 0.1, 1: 0.2} for stage in (*speed.STAGES, speed.REST)}
    cells = [[cell.strip() for cell in line.split("|")] for line in speed._breakdown(parts).splitlines()]
    assert ["", "refine", "150", "20 %", ""] in cells


def test_a_timed_fit_is_a_fit() -> None:
    points = speed.DRAW_CASE["(200, 4)"]("(200, 4)", 0).points
    estimator = cw.GaussianSearch(random_state=0)
    seconds = speed.stage_seconds(estimator, points)
    assert list(seconds) == [*speed.STAGES, speed.REST]
    assert min(seconds.values()) > 0
    np.testing.assert_array_equal(estimator.labels_, cw.GaussianSearch(random_state=0).fit(points).labels_)
    assert "_pipeline" not in vars(estimator)
