"""A report and its pictures can be made of every estimator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from clusterwise.report import write_report

from .conftest import Make


def test_report(make_each: Make, heaps: np.ndarray, tmp_path: Path) -> None:
    assert_reported(make_each.fitted(), heaps, tmp_path / "report.html")


@pytest.mark.parametrize("variant", ["AMCP", "GaussianSearch", "Clusterer"])
def test_report_of_three_features(
    make_variant: Callable[..., Any], heaps: np.ndarray, variant: str, tmp_path: Path
) -> None:
    X = np.column_stack([heaps, heaps.sum(axis=1)])
    estimator = make_variant(variant, **({"projection": "pca"} if variant == "AMCP" else {}))
    assert_reported(estimator.fit(X), X, tmp_path / "report.html")


def assert_reported(estimator: Any, X: np.ndarray, path: Path) -> None:
    write_report(estimator, X, path)
    page = path.read_text(encoding="utf-8")
    assert type(estimator).__name__ in page
    assert ("Probability of each number of clusters" in page) == hasattr(estimator, "k_posterior_")
    assert ("one panel per step" in page) == (len(estimator.steps_) > 0)
