"""Cells against the estimators' own probabilities; honest and too sure forecasters told apart."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import clusterwise as cw
from benchmarks.runner import run_suite
from benchmarks.store import csv_text
from benchmarks.suite import Case, find_suite
from benchmarks.suites.calibration import k_error, scored
from benchmarks.summary import Rows


def forecasts(sharpness: float) -> Rows:
    """Data sets with an honest forecaster of k for sharpness 1, too sure a one for more."""
    rng = np.random.default_rng(2)
    rows = []
    for index in range(300):
        p = rng.uniform(0.5, 1)
        stated = p**sharpness / (p**sharpness + (1 - p) ** sharpness)
        cells = {"P(top k)": str(stated), "true k on top": str(float(rng.random() < p))}
        rows.append({"data": "d", "method": "m", "index": str(index), "status": "ok", **cells})
    return Rows(rows)


def test_honest_and_too_sure_are_told_apart() -> None:
    honest, sure = (k_error(rows, rows).split() for rows in (forecasts(1.0), forecasts(6.0)))
    assert abs(float(honest[0]) - float(honest[1].strip("()"))) < 0.04
    assert float(sure[0]) > float(sure[1].strip("()")) + 0.1


def test_cells_of_labels_that_are_half_right() -> None:
    case = Case(np.zeros((4, 2)), 0, (np.array([0, 0, 1, 1]),))
    model = SimpleNamespace(
        labels_=np.array([0, 0, 1, 2]),
        k_posterior_={1: 0.25, 2: 0.25, 3: 0.5},
        probabilities_=np.array([1.0, 1.0, 0.5, 0.5]),
    )
    cells = scored(model, case)
    assert cells["true k on top"] == 0.0
    assert (cells["P(top k)"], cells["P(true k)"]) == (0.5, 0.25)
    assert (cells["points right"], cells["confidence"]) == (0.75, 0.75)
    assert cells["ECE of points"] == pytest.approx(0.0)


def test_rows_are_the_estimators_probabilities(tmp_path: Path) -> None:
    whole = find_suite("calibration", quick=True)
    chosen = [method for method in whole.methods if method.name in ("AMCP", "GaussianSearch")]
    data = [replace(one, n_sets=2) for one in whole.data if one.name == "crp (200, 4) at NCP's scale"]
    suite = replace(whole, data=data, methods=chosen)
    page = run_suite("calibration", tmp_path, suite=suite, here=True, write=lambda line: None)
    rows = list(csv.DictReader(csv_text(page.with_suffix(".csv.gz")).splitlines()))
    assert [row["status"] for row in rows] == ["ok"] * 4
    for row in rows:
        case = data[0].draw(int(row["index"]))
        model = getattr(cw, row["method"])(random_state=int(row["index"])).fit(case.points)
        assert float(row["P(top k)"]) == pytest.approx(max(model.k_posterior_.values()), rel=1e-6)
        assert float(row["confidence"]) == pytest.approx(model.probabilities_.mean(), rel=1e-6)
