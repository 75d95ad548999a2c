"""One Gaussian: its correlation, and the share of data sets in which one cluster is found."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import run_benchmark
from clusterwise.bench.benchmarks.one_gaussian import N_POINTS, SETTINGS, draw_case
from clusterwise.bench.registry import BENCHMARKS, METHODS, discover

discover()


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_correlation_is_that_of_the_setting(setting: str) -> None:
    points = np.concatenate([draw_case(setting, index).points for index in range(20)])
    assert len(points) == 20 * N_POINTS
    rho = SETTINGS[setting]
    assert np.corrcoef(points.T)[0, 1] == pytest.approx(rho, abs=5 * (1 - rho**2) / np.sqrt(len(points)))
    np.testing.assert_allclose(points.std(axis=0), 1.0, atol=0.03)
    case = draw_case(setting, 0)
    assert case.truth.oracle_log_likelihood == pytest.approx(
        -1 - np.log(2 * np.pi) - 0.5 * np.log(1 - rho**2), abs=0.15
    )


def test_the_page_has_one_table_for_all_correlations(tmp_path: Path) -> None:
    assert set(BENCHMARKS["one-gaussian"].methods) <= set(METHODS)
    chosen = ["HDBSCAN", "random labels"]
    page = run_benchmark(
        "one-gaussian", tmp_path, quick=True, methods=chosen, write=lambda line: None, isolated=False
    )
    table = page.read_text().split("## right k, in every setting")[1].split("##")[0]
    shares = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in table.strip().splitlines()}
    assert len(shares["HDBSCAN"]) == len(SETTINGS)
    assert {cell.strip() for cell in shares["random labels"]} == {"0.000 ± 0.000"}
    assert gzip.decompress((tmp_path / "one-gaussian.csv.gz").read_bytes()).startswith(b"method,data_set,")
