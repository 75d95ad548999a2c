"""The plane that is drawn, and which points are."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from clusterwise._extras import import_extra
from clusterwise.exceptions import InvalidDataError, MissingDependencyError
from clusterwise.plotting.plane import points_of_fit, project, thin_out


def test_one_or_two_features_are_drawn_as_they_are() -> None:
    X = np.random.default_rng(0).normal(1e6, 1, (20, 2))
    points, names = project(X, ["east", "north"])
    np.testing.assert_array_equal(points, X)
    assert names == ("east", "north")
    points, names = project(X[:, :1])
    np.testing.assert_array_equal(points, np.column_stack([X[:, 0], np.zeros(20)]))
    assert names == ("feature 0", "")


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_more_features_are_drawn_on_principal_components(scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(200, 5)) * [5, 1, 3, 0.1, 0.2] + 100
    variances, axes = np.linalg.eigh(np.cov(X.T))
    points, names = project(scale * X)
    expected = (X - X.mean(axis=0)) @ axes[:, :-3:-1]
    np.testing.assert_allclose(np.abs(points) / scale, np.abs(expected), rtol=1e-6, atol=1e-6)
    share = 100 * variances[-1] / variances.sum()
    assert names[0] == f"principal component 1 ({share:.0f} % of the variance)"


def test_features_scaled_one_by_one_make_units_irrelevant() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    units = np.array([1e-5, 1.0, 1e8, 3.0])
    drawn, _ = project(X, per_feature=True)
    np.testing.assert_allclose(project(X * units, per_feature=True)[0], drawn, atol=1e-9)
    X[:, 2] = 5.0  # a constant feature has no scale
    assert np.isfinite(project(X, per_feature=True)[0]).all()
    for n in (1, 5):
        assert (project(np.full((n, 3), 7.0))[0] == 0).all()


def test_thousands_of_columns_take_no_time() -> None:
    X = np.random.default_rng(0).normal(size=(300, 6000))
    X[:, 0] += np.repeat([0.0, 300.0], 150)
    started = time.process_time()
    points, _ = project(X)
    assert time.process_time() - started < 5  # eigenvectors of 6000 x 6000 numbers take a minute
    expected = PCA(1, svd_solver="full").fit_transform(X)[:, 0]
    np.testing.assert_allclose(np.abs(points[:, 0]), np.abs(expected), atol=0.1)


def test_thinning_keeps_every_cluster() -> None:
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50_000, 300, 5]))
    rows = thin_out(labels, 1000, at_least=20)
    assert len(rows) == 1000
    assert np.all(np.diff(rows) > 0)
    drawn = np.bincount(labels[rows])
    assert drawn[1] >= 20
    assert drawn[2] == 5
    np.testing.assert_array_equal(rows, thin_out(labels, 1000, at_least=20))
    np.testing.assert_array_equal(thin_out(np.zeros(10, int), 10), np.arange(10))
    many = np.repeat(np.arange(100), 50)
    assert set(many[thin_out(many, 10, at_least=2)]) == set(range(100))


def test_names_of_a_data_frame_and_wrong_rows() -> None:
    points, names = points_of_fit(SimpleNamespace(labels_=[0, 0]), pd.DataFrame({"a": [1, 2], "b": [3, 4]}))
    assert names == ("a", "b")
    np.testing.assert_array_equal(points, [[1, 3], [2, 4]])
    with pytest.raises(InvalidDataError, match="fitted to 3 rows; pass the data of fit"):
        points_of_fit(SimpleNamespace(labels_=[0, 0, 0]), points)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.ticker", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'clusterwise\[plot\]'"):
        import_extra("matplotlib.ticker", "pictures")
