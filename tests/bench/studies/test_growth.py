"""The study of growth with planted methods in processes of their own."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from clusterwise.bench import BenchmarkError, registry
from clusterwise.bench.methods.amortized import amortized
from clusterwise.bench.methods.peers import hdbscan
from clusterwise.bench.process import InThisProcess
from clusterwise.bench.stages import code_of
from clusterwise.bench.studies import growth
from clusterwise.bench.studies.growth import Contender, Sizes, draw_blobs

PEER = Contender("peer", lambda k: hdbscan, "a peer")
ABSENT = Contender("absent", lambda k: hdbscan, "not there", weights="no-such-weights")
OURS = Contender("ACT-ST", lambda k: partial(amortized, "ACTST", "act-st-2d"), "ours", "act-st-2d", "ACTST")
TINY = Sizes(n=(100, 200), k=(2, 3), runs=2, staged=((100, 2),), k_of_n=2, n_of_k=100)


@pytest.fixture(autouse=True)
def _here(here: type[InThisProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "MethodProcess", here)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("k", [1, 2, 10, 100])
def test_blobs_are_far_apart(k: int) -> None:
    case = draw_blobs(40 * k, k, 0)
    again = draw_blobs(40 * k, k, 0)
    np.testing.assert_array_equal(case.points, again.points)
    assert not np.array_equal(case.points, draw_blobs(40 * k, k, 1).points)
    found = hdbscan()(case).labels
    assert len(np.unique(found[found >= 0])) == k
    if k > 1:
        means = np.array([case.points[found == j].mean(axis=0) for j in range(k)])
        assert pdist(means).min() > 8 - 5 * np.sqrt(2 / 40)


def test_every_stage_has_a_function() -> None:
    """A function that was renamed would put its time where it does not belong."""
    for stage, names in growth.STAGES.items():
        assert all(code_of(name) is not None for name in names), stage


def test_a_run_leaves_its_files_and_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    page = growth.run(tmp_path, True, lines.append, [ABSENT, OURS, PEER], TINY)
    assert "no absent" in lines[0]
    raw = rows_of(tmp_path / "growth.raw.csv")
    sizes = {(100, 2), (200, 2), (100, 3)}
    assert len(raw) == 2 * 3 * 2  # methods, sizes, runs
    assert {(int(row["n"]), int(row["k"])) for row in raw} == sizes
    assert {row["status"] for row in raw} == {"ok"}
    assert all(float(row["peak_memory_mb"]) > 1 for row in raw)
    points = rows_of(tmp_path / "growth.csv")
    assert len(points) == 2 * 4
    assert {row["found_k"] for row in points if row["method"] == "peer" and row["k"] == "3"} == {"3 3"}
    staged = rows_of(tmp_path / "growth.stages.csv")
    assert {row["method"] for row in staged} == {"ACT-ST"}
    assert len(rows_of(tmp_path / "growth.exponents.csv")) == 4
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")

    def refuse(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(InThisProcess, "run", refuse)
    growth.run(tmp_path, True, str, [PEER], TINY)


def test_a_method_that_takes_too_long_is_not_tried_at_the_next_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "TOO_LONG", 0.0)
    growth.run(tmp_path, True, str, [PEER], TINY)
    raw = rows_of(tmp_path / "growth.raw.csv")
    assert [(row["n"], row["k"], row["run"]) for row in raw] == [("100", "2", "0")]  # first on either axis


def test_failures_are_on_the_page(planted, tmp_path: Path) -> None:
    failing = Contender("failing", lambda k: planted.unbuildable, "fails")
    page = growth.run(tmp_path, True, str, [PEER, failing], TINY)
    assert "failing, N = 100, k = 2: error: ImportError: planted" in page.read_text()
    again = rows_of(tmp_path / "growth.raw.csv")
    assert sum(row["method"] == "failing" for row in again) == 1


def test_without_methods_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="None of the methods"):
        growth.run(tmp_path, True, str, [ABSENT], TINY)


def test_it_is_registered_and_its_peer_knows_about_how_many_clusters_there_are() -> None:
    registry.discover()
    assert "growth" in registry.BENCHMARKS
    (mixture,) = (c for c in growth.CONTENDERS if c.name == "BayesianGaussianMixture")
    labels = mixture.build(5)()(draw_blobs(500, 5, 0)).labels
    assert 5 <= len(np.unique(labels)) <= 15
