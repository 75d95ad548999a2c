"""The plane that is drawn, and which points are."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from clusterwise.exceptions import InvalidDataError, MissingDependencyError
from clusterwise.plotting.plane import find_plane, import_matplotlib, points_of, thin_out


def test_two_features_are_drawn_as_they_are():
    X = np.random.default_rng(0).normal(1e6, 1, (20, 2))
    plane = find_plane(X, ["east", "north"])
    np.testing.assert_array_equal(plane.project(X), X)
    assert plane.names == ("east", "north")


def test_more_features_are_drawn_on_principal_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)) * [5, 1, 3, 0.1, 0.2] + 100
    expected = PCA(2).fit(X)
    plane = find_plane(X)
    np.testing.assert_allclose(np.abs(plane.project(X)), np.abs(expected.transform(X)), atol=1e-9)
    assert (
        plane.names[0]
        == f"principal component 1 ({100 * expected.explained_variance_ratio_[0]:.0f} % of the variance)"
    )


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_principal_components_scale_with_the_data(scale):
    X = np.random.default_rng(0).normal(size=(50, 4)) * [4, 3, 2, 1]
    drawn = find_plane(scale * X).project(scale * X)
    np.testing.assert_allclose(drawn / scale, find_plane(X).project(X), rtol=1e-6, atol=1e-9)


def test_features_scaled_one_by_one_make_units_irrelevant():
    X = np.random.default_rng(0).normal(size=(50, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    units = np.array([1e-5, 1.0, 1e8, 3.0])
    drawn = find_plane(X, per_feature=True).project(X)
    np.testing.assert_allclose(find_plane(X * units, per_feature=True).project(X * units), drawn, atol=1e-9)
    X[:, 2] = 5.0  # a constant feature has no scale
    assert np.isfinite(find_plane(X, per_feature=True).project(X)).all()


def test_constant_data_and_one_feature():
    assert np.all(find_plane(np.full((5, 3), 7.0)).project(np.full((5, 3), 7.0)) == 0)
    X = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(find_plane(X).project(X), np.column_stack([X, np.zeros(4)]))


def test_small_data_are_drawn_whole():
    np.testing.assert_array_equal(thin_out(np.zeros(10, int), 10), np.arange(10))


def test_thinning_keeps_every_cluster():
    labels = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [50_000, 300, 5]))
    rows = thin_out(labels, 1000, at_least=20)
    assert len(rows) == 1000
    assert np.all(np.diff(rows) > 0)
    drawn = np.bincount(labels[rows])
    assert drawn[1] >= 20
    assert drawn[2] == 5
    np.testing.assert_array_equal(rows, thin_out(labels, 1000, at_least=20))


def test_more_clusters_than_points_to_draw():
    labels = np.repeat(np.arange(100), 50)
    assert set(labels[thin_out(labels, 10, at_least=2)]) == set(range(100))


def test_names_of_a_data_frame_and_wrong_rows():
    points, names = points_of(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), 2)
    assert names == ("a", "b")
    np.testing.assert_array_equal(points, [[1, 3], [2, 4]])
    with pytest.raises(InvalidDataError, match="fitted to 3 rows"):
        points_of(points, 3)
    with pytest.raises(InvalidDataError, match="pass the data of fit"):
        points_of([1.0, 2.0], 2)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.ticker", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'clusterwise\[plot\]'"):
        import_matplotlib("matplotlib.ticker")
