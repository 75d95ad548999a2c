"""Data of known kind, exponents, busy cores, and batches; no time is asserted."""

from __future__ import annotations

import os
import subprocess

import numpy as np
import pytest

import clusterwise as cw
from benchmarks.suite import find_suite
from benchmarks.suites import growth, timing
from benchmarks.suites.growth import draw_blobs, draw_ten_features, n_threads
from benchmarks.suites.timing import batched, busy_cores
from benchmarks.summary import Rows, exponent


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
    assert len(np.unique(case.references[0])) <= growth.N_CLUSTERS


@pytest.mark.parametrize("slope", [0.0, 1.0, 1.7])
def test_exponents_of_power_laws(slope: float) -> None:
    sizes = np.array([10.0, 30.0, 1000.0])
    assert exponent(sizes, 3.0 * sizes**slope) == pytest.approx(slope, abs=1e-9)  # type: ignore[arg-type]
    assert np.isnan(exponent([10.0], [1.0]))


def test_busy_cores_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    original = subprocess.Popen

    def popen(*args: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(original(*args, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(timing.subprocess, "Popen", popen)
    with pytest.raises(RuntimeError), busy_cores(2):
        assert all(process.poll() is None for process in started)
        raise RuntimeError
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)
    assert 1 <= n_threads() <= (os.cpu_count() or 1)


def test_a_batch_gives_the_labels_of_single_fits() -> None:
    run = batched("(200, 4)", 2)
    for index in (0, 1):
        case = timing.SPEED_SETS["(200, 4)"](index)
        outcome = run(case)
        expected = cw.AMCP(random_state=0).fit_predict(case.points)
        np.testing.assert_array_equal(outcome.labels, expected)
        assert outcome.seconds is not None


def test_growth_leaves_sizes_out_at_which_k_was_missed() -> None:
    sizes = {"a": (100, 10), "b": (1000, 10), "c": (10_000, 10)}
    rows = Rows(
        {"data": data, "method": "m", "index": str(i), "status": status, "seconds": seconds, "k": k}
        for data, status, k in (("a", "ok", "10"), ("b", "ok", "13"), ("c", "timeout", ""))
        for i, seconds in enumerate(("1.0", "3.0", "2.0"))
    )
    assert growth._points(rows, sizes, 0) == [
        ((100.0, 2.0, 1.0, 3.0), True),
        ((1000.0, 2.0, 1.0, 3.0), False),
    ]


def test_methods_that_grow_are_given_up_and_only_races_have_rivals() -> None:
    grown, speed = find_suite("growth"), find_suite("dp-speed")
    assert grown.patience == speed.patience == 1
    assert grown.too_long < grown.time_limit
    assert {data.group for data in grown.data} == {"N", "K"}
    *others, race = speed.data
    assert race.methods is None
    assert all(data.methods == (growth.ONE_CHAIN,) for data in others)


def test_busy_methods_have_the_threads_of_their_libraries() -> None:
    threads = {method.name: method.threads for method in find_suite("busy").methods}
    assert all((value is None) == name.endswith("busy") for name, value in threads.items())
