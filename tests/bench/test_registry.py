"""Studies are found, run and refused by name, like benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterwise.bench import BenchmarkError, Study, benchmark_names, register, run_benchmark
from clusterwise.bench.registry import BENCHMARKS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A registered study that notes how it was asked."""
    asked: list[bool] = []

    def run(out: Path, quick: bool, write) -> Path:
        asked.append(quick)
        write("a line")
        page = out / "planted.md"
        page.write_text("# Planted")
        return page

    study = Study("planted study", "Planted", run)
    monkeypatch.setitem(BENCHMARKS, study.name, study)
    return asked


def test_a_study_runs_by_its_name(asked: list[bool], tmp_path: Path) -> None:
    lines: list[str] = []
    out = tmp_path / "new" / "place"
    assert run_benchmark("planted study", out, quick=True, write=lines.append) == out / "planted.md"
    run_benchmark("planted study", out, write=lines.append)
    assert (asked, lines) == ([True, False], ["a line"] * 2)


@pytest.mark.parametrize(
    "options", [{"methods": ["oracle"]}, {"n_sets": 3}, {"time_limit": 1.0}, {"redo": ["oracle"]}]
)
def test_a_study_has_methods_of_its_own(asked: list[bool], tmp_path: Path, options: dict) -> None:
    with pytest.raises(BenchmarkError, match="a study with methods and sizes of its own"):
        run_benchmark("planted study", tmp_path, **options)
    assert not asked


def test_studies_and_benchmarks_share_their_names(asked: list[bool], tmp_path: Path) -> None:
    assert {"planted study", "mog"} <= set(benchmark_names())
    with pytest.raises(BenchmarkError, match="planted study"):
        run_benchmark("nothing", tmp_path)
    with pytest.raises(BenchmarkError, match="registered twice"):
        register(Study("mog", "Another", lambda out, quick, write: out))
