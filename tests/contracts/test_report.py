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


@pytest.mark.parametrize("n_features", [2, 3])
def test_report(make_each: Callable[..., Any], heaps: np.ndarray, n_features: int, tmp_path: Path) -> None:
    estimator = make_each()
    X = heaps if n_features == 2 else np.column_stack([heaps, heaps.sum(axis=1)])
    if n_features == 3 and "weights" in estimator.get_params():  # networks of two features
        estimator.set_params(projection="pca")
    write_report(estimator.fit(X), X, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert type(estimator).__name__ in page
    assert ("Probability of each number of clusters" in page) == hasattr(estimator, "k_posterior_")
    assert ("one panel per step" in page) == (len(estimator.steps_) > 0)
