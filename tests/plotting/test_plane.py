"""The plane that is drawn, which points are, and colours that stay apart for all readers."""

from __future__ import annotations

import itertools
import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA

from clusterwise._extras import import_extra
from clusterwise.exceptions import InvalidDataError, MissingDependencyError
from clusterwise.plotting.plane import (
    BASE,
    PALETTE,
    cluster_colour,
    cluster_colours,
    cluster_marker,
    points_of_fit,
    project,
    subsample,
)


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
    for n in (1, 5):
        assert (project(np.full((n, 3), 7.0))[0] == 0).all()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 / 3, 1e-200, 1e200])
def test_a_constant_feature_is_no_direction(constant: float) -> None:
    """Its mean is rounded, and what is left of it would be the largest spread of all."""
    X = np.random.default_rng(0).normal(size=(300, 3))
    drawn, names = project(X, per_feature=True)
    points, of_constant = project(np.column_stack([X, np.full(300, constant)]), per_feature=True)
    np.testing.assert_allclose(np.abs(points), np.abs(drawn), atol=1e-9)
    assert of_constant == names
    assert "100 %" not in names[0]


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
    rows = subsample(labels, 1000, min_points=20)
    assert len(rows) == 1000
    assert np.all(np.diff(rows) > 0)
    drawn = np.bincount(labels[rows])
    assert drawn[1] >= 20
    assert drawn[2] == 5
    np.testing.assert_array_equal(rows, subsample(labels, 1000, min_points=20))
    np.testing.assert_array_equal(subsample(np.zeros(10, int), 10), np.arange(10))
    many = np.repeat(np.arange(100), 50)
    assert set(many[subsample(many, 10, min_points=2)]) == set(range(100))


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


# -- colours ----------------------------------------------------------------------------------------

# Linear RGB as seen with full protanopia and deuteranopia (Machado, Oliveira & Fernandes 2009, table 1).
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]


def linear_rgb(colour: str) -> np.ndarray:
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("seen", [np.eye(3), PROTANOPIA, DEUTERANOPIA], ids=["all", "protan", "deutan"])
def test_base_colours_stay_apart(seen):
    # A difference of 10 in CIE Lab is seen at a glance; one of 2.3 is just noticeable.
    seen_colours = [lab(np.asarray(seen) @ linear_rgb(colour)) for colour in BASE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen_colours, 2)) > 10


def test_no_colour_is_lost_on_white():
    assert all(lab(linear_rgb(colour))[0] < 86 for colour in PALETTE)


def test_first_clusters_have_their_own_colour_and_later_ones_their_own_look():
    assert len(set(cluster_colours(18))) == 18
    looks = [(cluster_colour(label), cluster_marker(label)) for label in range(72)]
    assert len(set(looks)) == 72
    assert {marker for _, marker in looks[:18]} == {"o"}
    assert cluster_colour(10_000) in PALETTE
