"""Data of known kind, exponents, and batches; no time is asserted."""

from __future__ import annotations

import contextlib
import subprocess

import numpy as np
import pytest

import clusterwise as cw
from benchmarks.suite import Case, Outcome, find_suite
from benchmarks.suites import timing
from benchmarks.suites.timing import (
    batched,
    beside_a_busy_core,
    draw_blobs,
    draw_ten_features,
    growth_table,
)
from benchmarks.summary import Rows, exponent

POPEN = subprocess.Popen


def test_blobs_are_far_apart_and_of_equal_size() -> None:
    for k in (2, 10, 50):
        case = draw_blobs(1000, k, 0)
        (labels,) = case.references
        means = np.array([case.points[labels == j].mean(axis=0) for j in range(k)])
        gaps = np.linalg.norm(means[:, None] - means, axis=2) + 1e9 * np.eye(k)
        assert gaps.min() > 7
        assert np.ptp(np.bincount(labels)) <= 1
        np.testing.assert_array_equal(case.points, draw_blobs(1000, k, 0).points)
    assert not np.array_equal(draw_blobs(100, 5, 0).points, draw_blobs(100, 5, 1).points)


def test_ten_features() -> None:
    case = draw_ten_features(500, 1)
    assert case.points.shape == (500, 10)
    assert len(np.unique(case.references[0])) <= 20


@pytest.mark.parametrize("slope", [0.0, 1.0, 1.7])
def test_exponents_of_power_laws(slope: float) -> None:
    sizes = np.array([10.0, 30.0, 1000.0])
    assert exponent(sizes, 3.0 * sizes**slope) == pytest.approx(slope, abs=1e-9)  # type: ignore[arg-type]
    assert np.isnan(exponent([10.0], [1.0]))


def test_a_batch_gives_the_labels_of_single_fits() -> None:
    run = batched("(200, 4)", 2)
    for index in (0, 1):
        case = timing.SPEED_SETS["(200, 4)"](index)
        outcome = run(case)
        expected = cw.AMCP(random_state=0).fit_predict(case.points)
        np.testing.assert_array_equal(outcome.labels, expected)
        assert outcome.seconds is not None


def test_growth_tells_times_clusters_and_slopes() -> None:
    rows = Rows(
        {"data": data, "method": "m", "index": "0", "status": status, "cpu_seconds": cpu, "k": k,
         "peak_memory_mb": "200"}
        for data, status, k, cpu in (
            ("a", "ok", "10", "0.5"), ("b", "ok", "13", "5.0"), ("c", "timeout", "", "120"),
        )
    )  # fmt: skip
    table, curves = growth_table(rows, {"a": 100, "b": 1_000, "c": 10_000})
    assert curves == {"m": [(100, 0.5), (1000, 5.0)]}
    assert [cell.strip() for cell in table.splitlines()[-1].strip("|").split("|")] == [
        "m", "0.500 (10)", "5.00 (13)", "timeout", "1.00", "200",
    ]  # fmt: skip


def test_methods_that_grow_are_given_up() -> None:
    grown = find_suite("growth")
    assert grown.patience == 1
    assert grown.too_long < grown.time_limit
    assert len({data.group for data in grown.data}) == 3


@pytest.mark.parametrize("fails", [False, True])
def test_the_process_that_keeps_a_core_busy_ends_with_the_fit(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def popen(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(POPEN(command))
        return started[-1]

    def fit(case: Case) -> Outcome:
        assert started[0].poll() is None  # it runs meanwhile
        if fails:
            raise ValueError("no clusters")
        return Outcome(np.zeros(len(case.points), dtype=np.int64))

    monkeypatch.setattr(subprocess, "Popen", popen)
    run = beside_a_busy_core(lambda: fit)
    with pytest.raises(ValueError, match="no clusters") if fails else contextlib.nullcontext():
        assert run(Case(np.zeros((3, 2)))).seconds > 0
    assert started[0].poll() is not None
