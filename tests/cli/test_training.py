"""From a table with a column of labels to the clusters of a new one, on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clusterwise.cli.app import app
from clusterwise.training import from_labels

run = CliRunner().invoke


def write(path: Path, n_classes: int, seed: int, columns: tuple[str, ...] = ("a", "b", "c")) -> Path:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), 12)
    X = dict(
        zip("abc", (8 * rng.normal(size=(n_classes, 3))[y] + rng.normal(size=(len(y), 3))).T, strict=True)
    )
    lines = [",".join(("id", *columns, "kind", "note"))]
    for i, label in enumerate(y):
        cells = [f"{X[name][i]:.3f}" for name in columns]
        lines.append(",".join([str(i), *cells, f"k{label}", f"word{i % 3}"]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module", autouse=True)
def _short_pilot() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_labels, "STEPS_OF_PILOT", 20)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    table, out = write(folder / "old.csv", 12, 0), folder / "own.safetensors"
    found = run(
        app,
        ["train", "--labels", str(table), "--label-column", "kind", "--out", str(out), "--steps", "3"],
    )
    assert found.exit_code == 0, found.output
    assert "12 classes" in found.stderr
    assert "'note' is set aside" in found.stderr
    assert "held out" in found.stdout
    return out


def test_columns_are_found_by_their_names(trained: Path, tmp_path: Path) -> None:
    labels = []
    for order in (("a", "b", "c"), ("c", "a", "b")):
        table, out = write(tmp_path / "new.csv", 4, 1, order), tmp_path / "out.csv"
        found = run(app, ["cluster", str(table), "--weights", str(trained), "--out", str(out)])
        assert found.exit_code == 0, found.output
        assert "AMCP, own" in found.stdout
        labels.append([line.split(",")[1] for line in out.read_text().splitlines()])
    assert labels[0] == labels[1]
    table = write(tmp_path / "new.csv", 4, 1, ("a", "b"))
    found = run(app, ["cluster", str(table), "--weights", str(trained)])
    assert found.exit_code == 2
    assert "trained on a column 'c'" in found.stderr


def test_the_weights_name_the_method(tmp_path: Path) -> None:
    table, out = write(tmp_path / "old.csv", 12, 0), tmp_path / "own.safetensors"
    options = ["--label-column", "kind", "--out", str(out), "--steps", "1", "--method", "dac-anchored"]
    assert run(app, ["train", "--labels", str(table), *options]).exit_code == 0
    found = run(app, ["cluster", str(table), "--weights", str(out), "--out", str(tmp_path / "out.csv")])
    assert found.exit_code == 0, found.output
    assert "DAC, own" in found.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--label-column"),
        (["--label-column", "sort"], "no column 'sort'"),
        (["--label-column", "kind", "--out", "own.bin"], ".safetensors"),
        (["recipe.toml", "--label-column", "kind"], "leave out recipe.toml"),
        (["--label-column", "kind", "--drop", "a,b,c"], "no column but the labels holds numbers"),
    ],
)
def test_mistakes_are_one_line(options: list[str], message: str, tmp_path: Path) -> None:
    table = write(tmp_path / "old.csv", 4, 0)
    found = run(app, ["train", "--labels", str(table), *options])
    assert found.exit_code == 2
    assert message in found.stderr
    assert "error: name a recipe" in run(app, ["train"]).stderr


def test_gaps_are_named(tmp_path: Path) -> None:
    table = write(tmp_path / "old.csv", 4, 0)
    lines = table.read_text().splitlines()
    cells = lines[3].split(",")
    cells[1] = ""
    table.write_text("\n".join([*lines[:3], ",".join(cells), *lines[4:]]))
    found = run(app, ["train", "--labels", str(table), "--label-column", "kind"])
    assert found.exit_code == 2
    assert "column 'a' has no number in 1 of 48 rows (row 2 is the first)" in found.stderr
