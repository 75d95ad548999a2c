"""A tiny run: rows hold what the figures need, and the page shows them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np

import clusterwise as cw
from benchmarks.calibration import figures
from benchmarks.runner import run_suite
from benchmarks.suite import find_suite
from benchmarks.suites.probabilities import record_of


def test_rows_are_the_estimators_probabilities(tmp_path: Path) -> None:
    whole = find_suite("calibration", quick=True)
    chosen = [method for method in whole.methods if method.name in ("AMCP", "GaussianSearch")]
    data = [replace(one, n_sets=3) for one in whole.data if one.name == "crp (200, 4) at NCP's scale"]
    suite = replace(whole, data=data, methods=chosen)
    page = run_suite("calibration", tmp_path, suite=suite, here=True, write=lambda line: None)
    with page.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        case = data[0].draw(int(row["index"]))
        record = record_of(row)
        assert record.true_k == 4
        assert record.membership_sums[0].sum() == len(case.points)
        model = getattr(cw, row["method"])(random_state=int(row["index"])).fit(case.points)
        assert record.k_posterior == model.k_posterior_
        np.testing.assert_allclose(record.membership_sums[1].sum(), model.probabilities_.sum())
    value = figures([record_of(row) for row in rows if row["method"] == "AMCP"])["true k on top"].value
    table = page.read_text().split("## Number of clusters")[1].split("##")[0]
    assert next(line for line in table.splitlines() if " AMCP |" in line).count(f"{value:.3f}")
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
