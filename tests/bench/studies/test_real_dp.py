"""The study on UMAP features, on planted files: figures, resumption, and errors where data are absent."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import BenchmarkError, registry
from clusterwise.bench.real_data import DIRECTORY
from clusterwise.bench.studies import real_dp

asked: list[int] = []


def by_sign(points: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    """Right about the planted classes; always the same two clusters."""
    asked.append(seed)
    return (points[:, 0] > 0).astype(int), 2.5


def quarters(points: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    return np.arange(len(points)) % (4 + seed), float("nan")


def broken(points: np.ndarray, seed: int) -> tuple[np.ndarray, float]:
    raise RuntimeError("planted\nfailure")


VARIANTS = {"by sign": by_sign, "quarters": quarters}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the five files; classes are told by the sign of any feature."""
    root = tmp_path / "data"
    (root / "umap").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name, n in (("MNIST", 400), ("USPS", 120)):
        y = (np.arange(n) % 2).astype(np.uint8)
        X = (rng.normal(0, 1, (n, 10)) + np.where(y, 5, -5)[:, None]).astype(np.float32)
        np.savez(root / f"{real_dp.DATA_SETS[name]}.npz", X=X, y=y)
    monkeypatch.setenv(DIRECTORY, str(root))
    monkeypatch.setattr(real_dp, "QUICK_ROWS", 200)
    asked.clear()
    return root


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_figures_and_published_lines(tmp_path: Path) -> None:
    lines: list[str] = []
    page = real_dp.run(tmp_path / "out", False, lines.append, VARIANTS)
    found = {(row["data"], row["method"]): row for row in rows_of(page.with_suffix(".csv"))}
    assert set(found) == {(data, method) for data in ("MNIST", "USPS") for method in VARIANTS}
    right = found["MNIST", "by sign"]
    assert [right[f"{name}_mean"] for name in ("k", "nmi_geometric", "ari", "acc")] == ["2", "1", "1", "1"]
    assert right["n_rows"] == "400"
    wrong = found["USPS", "quarters"]
    assert float(wrong["k_mean"]) == 4.5  # of 4 and 5
    assert float(wrong["k_sd"]) == pytest.approx(0.5**0.5, abs=1e-3)
    assert float(wrong["acc_mean"]) < 0.6
    text = page.read_text()
    assert text.count("DPM sampler, published") == 2
    assert "| 11.3 ± 0.82 |" in text
    assert any("no Fashion-MNIST," in line for line in lines)


def test_a_quick_run_has_fewer_rows_and_is_not_mixed_with_a_full_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    real_dp.run(out, True, str, VARIANTS)
    assert {row["n_rows"] for row in rows_of(out / "umap.csv")} == {"200", "120"}
    asked.clear()
    page = real_dp.run(out, False, str, VARIANTS)
    # USPS has fewer rows than a quick run takes, so its first seed is known already.
    assert asked == [0, 1, 1]
    assert {row["n_rows"] for row in rows_of(page.with_suffix(".csv"))} == {"400", "120"}
    asked.clear()
    real_dp.run(out, False, str, VARIANTS)
    assert asked == []


def test_failures_are_tried_again(tmp_path: Path) -> None:
    lines: list[str] = []
    real_dp.run(tmp_path / "out", True, lines.append, {"by sign": broken, "quarters": quarters})
    assert any("by sign, MNIST, seed 0: error: RuntimeError: planted" in line for line in lines)
    real_dp.run(tmp_path / "out", True, str, VARIANTS)
    assert asked == [0, 0]
    with pytest.raises(BenchmarkError, match="Every method failed"):
        real_dp.run(tmp_path / "none", True, str, {"broken": broken})


def test_absent_data_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "empty"))
    with pytest.raises(BenchmarkError, match="None of the data sets"):
        real_dp.run(tmp_path, True, str)
    monkeypatch.delenv(DIRECTORY)
    with pytest.raises(BenchmarkError, match=f"set {DIRECTORY}"):
        real_dp.run(tmp_path, True, str)


def test_the_variants_run(tmp_path: Path, directory: Path) -> None:
    registry.discover()
    assert "umap" in registry.BENCHMARKS
    (directory / f"{real_dp.DATA_SETS['MNIST']}.npz").unlink()
    short = {
        name: partial(variant, n_warm_up=20, n_draws=10) if "DPMixture" in name else variant
        for name, variant in real_dp.VARIANTS.items()
    }
    page = real_dp.run(tmp_path / "out", True, str, short)
    rows = {row["method"]: row for row in rows_of(page.with_suffix(".csv"))}
    assert set(rows) == {"DPMixture, weak prior", "DPMixture", "BayesianGaussianMixture"}
    for name in ("DPMixture, weak prior", "DPMixture"):
        found = rows[name]
        assert float(found["ari_mean"]) > 0.9
        assert abs(float(found["expected_k_mean"]) - float(found["k_mean"])) < 1
    assert "– | 0." in page.read_text()  # the variational mixture has no draws
