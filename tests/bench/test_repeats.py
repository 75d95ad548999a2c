"""Runs on real data: which rows, which scores, and nothing twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import repeats
from clusterwise.bench.methods.references import random_labels
from clusterwise.bench.real_data import DIRECTORY, load_case
from clusterwise.bench.registry import BENCHMARKS, BenchmarkError, Study, discover
from clusterwise.bench.repeats import COLUMNS, Run, mean_and_sd, measure, spread_table
from clusterwise.bench.studies import (
    deepdpm_ablations,
    deepdpm_features,
    deepdpm_figures,
    deepdpm_growth,
    deepdpm_k_init,
    deepdpm_prior,
)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    np.savez(tmp_path / "two.npz", X=(y[:, None] * 9 + rng.normal(size=(120, 2))).astype(np.float32), y=y)
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    return tmp_path


def test_rows_depend_on_the_seed(data: Path) -> None:
    whole, one, same, other = (load_case("two", *args) for args in ((None,), (50, 1), (50, 1), (50, 2)))
    assert whole.points.shape == (120, 2)
    assert whole.points.dtype == np.float64
    np.testing.assert_array_equal(one.points, same.points)
    assert not np.array_equal(one.points, other.points)
    assert one.truth is not None
    assert len(one.truth.references[0]) == 50


def test_errors_say_what_is_missing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchmarkError, match="fetch it first"):
        load_case("three")
    np.savez(data / "odd.npz", X=np.ones((3, 2)))
    with pytest.raises(BenchmarkError, match="does not hold the arrays X and y"):
        load_case("odd")
    monkeypatch.delenv(DIRECTORY)
    with pytest.raises(BenchmarkError, match=f"set {DIRECTORY}"):
        load_case("two")


def test_runs_are_measured_once(data: Path, tmp_path: Path) -> None:
    runs = [Run("two heaps", "two", "dice", random_labels, seed) for seed in (0, 1)]
    lines: list[str] = []
    first = measure(runs, tmp_path / "runs.csv", lines.append)
    assert len(lines) == 2
    assert measure(runs, tmp_path / "runs.csv", lines.append) == first
    assert len(lines) == 2
    assert set(first[0]) == set(COLUMNS)
    (spread,) = mean_and_sd(first)
    assert spread.n_runs == 2
    values = [float(row["ari"]) for row in first]
    assert spread.figures["ari"] == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert "dice" in spread_table([spread])


def test_failures_are_told(data: Path, tmp_path: Path) -> None:
    (row,) = measure([Run("two heaps", "two", "broken", partial(int, "x"), 0)], tmp_path / "f.csv", print)
    assert row["status"].startswith("error")
    (spread,) = mean_and_sd([row])
    assert spread.n_runs == 0
    assert "error" in spread_table([spread])


def test_the_studies_are_registered_and_their_runs_differ() -> None:
    discover()
    studies = (deepdpm_figures, deepdpm_ablations, deepdpm_k_init, deepdpm_growth, deepdpm_features)
    for study in (*studies, deepdpm_prior):
        for quick in (True, False):
            keys = [run.key for run in study.runs(quick)]
            assert len(keys) == len(set(keys))
        assert len(study.runs(True)) < len(study.runs(False)) or study is deepdpm_k_init
    for name in ("figures", "ablations", "k-init", "growth", "features", "prior"):
        assert isinstance(BENCHMARKS[f"deepdpm-{name}"], Study)


def test_a_quick_study_leaves_a_page_and_a_picture(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: type
) -> None:
    monkeypatch.setattr(repeats, "MethodProcess", here)
    dice = [
        Run(d, "two", f"K_init = {k}", random_labels, s)
        for d in deepdpm_k_init.SETS
        for k in deepdpm_k_init.K_INITS
        for s in (0, 1)
    ]
    known = tmp_path / "deepdpm-k-init.quick.csv"
    monkeypatch.setattr(deepdpm_k_init, "runs", lambda quick: dice[:4] + dice[8:12] + dice[16:20])
    page = deepdpm_k_init.run(tmp_path, True, lambda _: None).read_text(encoding="utf-8")
    assert all(f"## {name}" in page for name in deepdpm_k_init.SETS)
    assert known.exists()
    assert (tmp_path / "deepdpm-k-init.quick.png").stat().st_size > 1000
