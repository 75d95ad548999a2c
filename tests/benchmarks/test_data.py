"""Files of the data directory: partitions, noise, samples, and what is said where they are absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import data
from benchmarks.data import files_in, load_case, n_rows
from benchmarks.suite import BenchmarkError, MissingDataError


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "some").mkdir()
    points = rng.normal(5.0, 3.0, (50, 2, 2))
    np.savez(tmp_path / "some" / "classes.npz", X=points.astype(np.float32), y=np.arange(50) % 3)
    labels = {"labels0": np.arange(50) % 3, "labels1": 1 + np.arange(50) % 2}
    np.savez(tmp_path / "some" / "partitions.npz", X=points, **labels)
    monkeypatch.setenv(data.DIRECTORY, str(tmp_path))
    n_rows.cache_clear()
    return tmp_path


def test_files_become_cases(directory: Path) -> None:
    assert files_in("some") == ["some/classes", "some/partitions"]
    assert n_rows("some/classes") == n_rows("some/partitions") == 50
    case = load_case("some/classes")
    assert case.points.shape == (50, 4)
    assert case.points.dtype == np.float64
    np.testing.assert_array_equal(case.references[0], np.arange(50) % 3)
    first, second = load_case("some/partitions").references
    assert set(first) == {-1, 0, 1}  # 0 is noise in the files
    assert set(second) == {0, 1}


def test_samples_keep_rows_together_and_depend_on_the_seed(directory: Path) -> None:
    whole = load_case("some/classes")
    drawn = [load_case("some/classes", 20, seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(drawn[0].points, drawn[1].points)
    assert not np.array_equal(drawn[0].points, drawn[2].points)
    labels = {tuple(point): label for point, label in zip(whole.points, whole.references[0], strict=True)}
    assert [labels[tuple(point)] for point in drawn[0].points] == list(drawn[0].references[0])


def test_what_is_absent_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDataError, match="fetch it first"):
        load_case("some/nothing")
    np.savez(directory / "some" / "foreign.npz", Z=np.zeros(3))
    with pytest.raises(BenchmarkError, match="does not hold the arrays"):
        load_case("some/foreign")
    monkeypatch.setenv(data.DIRECTORY, str(directory / "elsewhere"))
    with pytest.raises(MissingDataError, match=f"set {data.DIRECTORY}"):
        load_case("some/classes")
    assert files_in("some") == []
