"""The ablations: data sets that no other benchmark has, and a run that ends in two pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import run_benchmark
from clusterwise.bench.benchmarks import crp, mog
from clusterwise.bench.benchmarks.amcp_ablations import SETTINGS, draw_case
from clusterwise.bench.methods.amcp import ABLATIONS
from clusterwise.bench.methods.amortized import alone, with_search
from clusterwise.bench.registry import BENCHMARKS, METHODS, Case, Outcome, discover

discover()


@pytest.mark.parametrize("setting", SETTINGS)
def test_cases_are_of_the_kind_that_the_setting_names(setting: str) -> None:
    cases = [draw_case(setting, index) for index in range(10)]
    np.testing.assert_array_equal(cases[3].points, draw_case(setting, 3).points)
    kind, size = setting.split(" ", 1)
    if kind == "mog":
        n_max, k_max = mog.SETTINGS[size]
        assert all(0.3 * n_max <= len(case.points) <= n_max for case in cases)
        assert all(len(np.unique(case.truth.references[0])) <= k_max for case in cases)
    else:
        n, k, _ = crp.SETTINGS[f"{size} at NCP's scale"]
        assert all(len(case.points) == n for case in cases)
        assert all(len(np.unique(case.truth.references[0])) == k for case in cases)


def test_no_other_benchmark_has_these_data_sets() -> None:
    sources = ((draw_case, SETTINGS), (crp.draw_case, crp.SETTINGS), (mog.draw_case, mog.SETTINGS))
    firsts = [
        float(draw(setting, i).points[0, 0]) for draw, names in sources for setting in names for i in range(9)
    ]
    assert len(set(firsts)) == len(firsts)


def _worse(change: int) -> Callable[[Case], Outcome]:
    """The oracle's labels, a few of them moved: how many depends on the ablation."""

    def run(case: Case) -> Outcome:
        labels = case.truth.oracle_labels.copy()
        labels[: 5 * change] = 0
        return Outcome(labels, lambda: case.truth.oracle_log_likelihood - 0.01 * change)

    return run


def test_a_run_leaves_two_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for change, name in enumerate([alone("AMCP"), *ABLATIONS, with_search("AMCP")]):
        stand_in = replace(
            METHODS[name], build=lambda change=change: _worse(change), sees_truth=True, identity=None
        )
        monkeypatch.setitem(METHODS, name, stand_in)
    page = run_benchmark("amcp-ablations", tmp_path, n_sets=2, write=lambda line: None, isolated=False)
    pictures = [tmp_path / "amcp-ablations.png", tmp_path / "amcp-ablations-2.png"]
    text = page.read_text()
    for picture in pictures:
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f"]({picture.name})" in text
    assert "Failures" not in text
    for name in BENCHMARKS["amcp-ablations"].methods:
        assert f"\n| {name} " in text
