"""Suites on the features of DeepDPM's paper, with stand-ins for data that do not come with the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.runner import run_suite
from benchmarks.suite import BenchmarkError, Case
from benchmarks.suites.deepdpm import SETS, VARIANTS, ablated


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three far-apart clusters in the place of every data set."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    for file in SETS.values():
        path = tmp_path / f"{file}.npz"
        path.parent.mkdir(exist_ok=True)
        np.savez(path, X=rng.normal(size=(60, 3)) + 20.0 * np.eye(3)[y], y=y)
    monkeypatch.setenv(data.DIRECTORY, str(tmp_path))


def test_a_table_for_every_data_set_and_what_is_printed(stand_ins: None, tmp_path: Path) -> None:
    page = run_suite(
        "deepdpm-figures",
        tmp_path / "out",
        quick=True,
        methods=["k-means (true k)", "HDBSCAN"],
        here=True,
        write=lambda line: None,
    )
    text = page.read_text()
    for name in SETS:
        assert f"\n## {name}\n" in text
        assert f"\n| {name.partition(' (')[0]} | ." in text  # the figures of the paper
    assert text.count("| k-means (true k) |    1 | 1.000 | 1.000 | 1.000 | 3.0 |") == len(SETS)


def test_without_data_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(data.DIRECTORY, str(tmp_path / "elsewhere"))
    lines: list[str] = []
    with pytest.raises(BenchmarkError, match="Nothing was measured"):
        run_suite("deepdpm-figures", tmp_path, quick=True, here=True, write=lines.append)
    assert any("MNIST is left out" in line for line in lines)


@pytest.mark.parametrize("variant", VARIANTS)
def test_parts_are_taken_away(variant: str) -> None:
    y = np.arange(300) % 3
    X = np.random.default_rng(0).normal(size=(300, 2)) + 20.0 * np.eye(3)[y, :2]
    outcome = ablated(variant, k_init=6)(Case(X))
    k = len(np.unique(outcome.labels))
    assert (k > 3) == (variant in ("No splits or merges", "No merges"))
