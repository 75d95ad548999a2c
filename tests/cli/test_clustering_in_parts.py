from __future__ import annotations

import signal
import threading
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

from clusterwise.cli import clustering
from clusterwise.cli.app import app
from clusterwise.cli.messages import progress_bar
from clusterwise.tables.readers import read_table

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A folder of files with an id and three clusters, and the truth."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=6000)
    X = labels[:, None] * np.array([10.0, -10.0]) + rng.normal(size=(6000, 2))
    path = tmp_path / "big"
    path.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(6000), 3)):
        ids = [f"row-{i}" for i in rows]
        table = pyarrow.table({"key": ids, "x": X[rows, 0], "y": X[rows, 1]})
        parquet.write_table(table, path / f"{number}.parquet", row_group_size=500)
    return path, labels


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["cluster", *map(str, arguments)])


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow", "npy"])
def test_a_folder_is_labelled_batch_by_batch(
    folder: tuple[Path, np.ndarray], tmp_path: Path, ending: str
) -> None:
    path, labels = folder
    out = tmp_path / f"labels.{ending}"
    result = run(path, "--out", out, "--method", "gaussian-search")
    assert result.exit_code == 0, result.output
    assert "3 clusters in 6,000 rows" in result.output
    if ending == "npy":
        assert adjusted_rand_score(labels, np.load(out)) > 0.99
        return
    table = read_table(out)
    assert table.column_names == ["key", "label", "confidence", "outlier_score"]
    assert table.column("key").to_pylist() == [f"row-{i}" for i in range(6000)]
    assert adjusted_rand_score(labels, table.column("label").to_numpy()) > 0.99


def test_all_columns_can_be_kept(folder: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    out = tmp_path / "labels.parquet"
    result = run(folder[0], "--out", out, "--append", "--method", "gaussian-search", "--raw", "--drop", "key")
    assert result.exit_code == 0, result.output
    assert read_table(out).column_names == ["key", "x", "y", "label", "confidence", "outlier_score"]


def test_a_large_file_gives_the_labels_of_its_folder(
    folder: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "MIN_NUMBERS_IN_PARTS", 1)
    whole = tmp_path / "whole.parquet"
    parquet.write_table(parquet.read_table(folder[0]), whole)
    for name, source in (("a", folder[0]), ("b", whole)):
        result = run(source, "--out", tmp_path / f"{name}.npy", "--method", "gaussian-search")
        assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


def test_an_interrupted_run_leaves_no_file(
    folder: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "labels.parquet"

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(clustering.LabelBatch, "__call__", interrupted)
    result = run(folder[0], "--out", out, "--method", "gaussian-search")
    assert result.exit_code == 130
    assert "run the same command again" in result.output
    assert list(out.parent.iterdir()) == []


def test_a_terminated_run_leaves_no_file(
    folder: tuple[Path, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "labels.parquet"
    label = clustering.LabelBatch.__call__
    being_written: list[Path] = []
    first = threading.Lock()  # batches have threads of their own, and a second signal would end the tests

    def terminated(task: Any, batch: Any) -> Any:
        if first.acquire(blocking=False):
            being_written.extend(out.parent.iterdir())
            signal.raise_signal(signal.SIGTERM)
        return label(task, batch)

    monkeypatch.setattr(clustering.LabelBatch, "__call__", terminated)
    before = signal.getsignal(signal.SIGTERM)
    result = run(folder[0], "--out", out, "--method", "gaussian-search")
    assert result.exit_code == 130
    assert "run the same command again" in result.output
    assert list(out.parent.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before
    assert len(being_written) == 1


def test_no_report_of_very_many_rows(folder: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    result = run(folder[0], "--out", tmp_path / "labels.csv", "--report", tmp_path / "r.html")
    assert result.exit_code == 2 and "--report" in result.output


def test_a_file_that_breaks_off_is_named(folder: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    broken = folder[0] / "1.parquet"
    broken.write_bytes(broken.read_bytes()[:300])
    result = run(folder[0], "--out", tmp_path / "labels.csv")
    assert result.exit_code == 2 and "1.parquet" in result.output
    assert not (tmp_path / "labels.csv").exists()


def test_bars_show_rows() -> None:
    console = Console(force_terminal=True, width=100, file=StringIO())
    with progress_bar(console) as show:
        show("reading", 500, 1000)
        show("reading", 1000, 1000)
        show("writing", 10, 1000)
    shown = console.file.getvalue()
    assert "writing" in shown and "10/1000" in shown
