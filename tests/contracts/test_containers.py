"""Arrays and data frames of every kind in, the same labels out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .conftest import Make


@pytest.fixture(scope="module")
def whole(heaps: np.ndarray) -> np.ndarray:
    """The heaps in whole metres: the same values as integers and as floats of any precision."""
    return np.round(heaps)


def read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.flags.writeable = False
    return X


CONTAINERS: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda X: X.astype(np.float32),
    "int64": lambda X: X.astype(np.int64),
    "int16": lambda X: X.astype(np.int16),
    "lists": lambda X: X.tolist(),
    "tuples": lambda X: tuple(map(tuple, X)),
    "objects": lambda X: X.astype(object),
    "fortran order": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "reversed columns of reversed": lambda X: X[:, ::-1].copy()[:, ::-1],
    "big endian": lambda X: X.astype(">f8"),
    "read only": read_only,
}


def test_arrays(make_each: Make, whole: np.ndarray) -> None:
    """New rows of every kind are treated as the rows of ``fit``, and those of ``fit`` too."""
    before = whole.copy()
    expected = make_each().fit(whole)
    np.testing.assert_array_equal(whole, before)  # left as it was
    for container, convert in CONTAINERS.items():
        X = convert(whole)
        np.testing.assert_array_equal(expected.predict_proba(X), expected.membership_, container)
    for container in ("int16", "lists", "fortran order"):
        X = CONTAINERS[container](whole)
        np.testing.assert_array_equal(make_each().fit(X).membership_, expected.membership_, container)
    np.testing.assert_array_equal(make_each().fit_predict_many([X, X])[1], expected.labels_)


def test_pandas(make_each: Make, whole: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(whole, columns=["easting", "northing"], index=np.arange(140)[::-1])
    estimator = make_each().fit(frame)
    np.testing.assert_array_equal(estimator.labels_, make_each().fit_predict(whole))
    assert list(estimator.feature_names_in_) == ["easting", "northing"]
    np.testing.assert_array_equal(estimator.predict(frame), estimator.labels_)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.predict(frame.rename(columns={"easting": "height"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        estimator.predict(whole)
    integers = frame.astype("Int64")  # pandas' own integers, which may be missing
    np.testing.assert_array_equal(make_each().fit_predict(integers), estimator.labels_)
    estimator.fit(whole).fit_predict_many([frame])
    assert not hasattr(estimator, "feature_names_in_")


def test_polars(make_each: Make, whole: np.ndarray) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(whole, schema=["easting", "northing"])
    estimator = make_each().fit(frame)
    np.testing.assert_array_equal(estimator.labels_, make_each().fit_predict(whole))
    np.testing.assert_array_equal(estimator.predict(frame), estimator.labels_)
    np.testing.assert_array_equal(make_each().fit_predict_many([frame])[0], estimator.labels_)


def test_y_is_ignored(make_each: Make, heaps: np.ndarray) -> None:
    labels = make_each.fitted().labels_
    np.testing.assert_array_equal(make_each().fit(heaps, np.arange(140)).labels_, labels)
    np.testing.assert_array_equal(make_each().fit_predict(heaps, y=["a"] * 140), labels)


def test_in_a_pipeline_as_its_end_and_as_a_step(make_each: Make, heaps: np.ndarray) -> None:
    pipeline = make_pipeline(StandardScaler(), make_each())
    np.testing.assert_array_equal(pipeline.fit_predict(heaps), pipeline.predict(heaps))
    estimator = make_each.fitted()
    np.testing.assert_array_equal(estimator.transform(heaps), estimator.predict_proba(heaps))
    names = [f"{type(estimator).__name__.lower()}{k}" for k in range(estimator.n_clusters_)]
    np.testing.assert_array_equal(estimator.get_feature_names_out(), names)
    pytest.importorskip("pandas")
    frame = make_each().set_output(transform="pandas").fit_transform(heaps)
    assert list(frame.columns) == names
