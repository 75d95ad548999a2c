"""Bad or odd data: a sensible partition, or one error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import clusterwise as cw
from clusterwise.exceptions import (
    ClusterwiseError,
    FeatureCountError,
    InvalidDataError,
    WeightsFileError,
)

from .conftest import Make


def assert_sound(estimator: Any, X: Any) -> None:
    """All that is reported is finite and in its range, and every row has a label."""
    n, k = len(X), estimator.n_clusters_
    assert estimator.labels_.shape == (n,)
    np.testing.assert_array_equal(np.unique(estimator.labels_), np.arange(k))
    names = ("membership_", "probabilities_", "outlier_scores_", "means_", "covariances_", "proportions_")
    for name in names:
        assert np.isfinite(getattr(estimator, name)).all(), name
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(estimator.membership_.argmax(axis=1), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    assert np.isfinite(estimator.score_samples(X)).all()
    assert np.isfinite(estimator.sample(5)[0]).all()
    if hasattr(estimator, "sample_partitions") and hasattr(estimator, "k_posterior_"):
        assert estimator.sample_partitions(3).labels.shape == (3, n)


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_missing_and_infinite_values_are_named_by_place(
    make_each: Make, heaps: np.ndarray, value: float, kind: str
) -> None:
    X = heaps.copy()
    X[17, 1] = X[20, 0] = value
    message = f"X contains {kind} at row 17 column 1, row 20 column 0; drop these rows or fill"
    with pytest.raises(InvalidDataError, match=message):
        make_each().fit(X)
    estimator = make_each.fitted()
    with pytest.raises(InvalidDataError, match=message):
        estimator.predict(X)
    with pytest.raises(InvalidDataError, match=rf"Xs\[1\] contains {kind} at row 17 column 1"):
        make_each().fit_predict_many([heaps, X])


def test_missing_values_of_pandas_and_of_masked_arrays(make_each: Make, heaps: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.round(heaps), columns=["a", "b"]).astype("Int64")
    frame.loc[17, "b"] = pandas.NA
    masked = np.ma.masked_array(heaps, mask=np.zeros_like(heaps, dtype=bool))
    np.testing.assert_array_equal(make_each().fit_predict(masked), make_each.fitted().labels_)
    masked[17, 1] = np.ma.masked
    for X in (frame, masked):
        with pytest.raises(InvalidDataError, match="NaN at row 17 column 1"):
            make_each().fit(X)


def test_frames_with_numbers_or_tuples_as_names(make_each: Make, heaps: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    labels = make_each.fitted().labels_
    for names in ([0, 1], pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)])):
        np.testing.assert_array_equal(make_each().fit(pandas.DataFrame(heaps, columns=names)).labels_, labels)
    with pytest.raises(InvalidDataError, match="X has several columns called 'a'; rename"):
        make_each().fit(pandas.DataFrame(heaps, columns=["a", "a"]))


def lazy_frame() -> Any:
    return pytest.importorskip("polars").LazyFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})


TEXT = [f"nest {i}" for i in range(140)]
DAYS = np.arange("2020-01-01", "2020-05-20", dtype="datetime64[D]")


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (TEXT, "Column 'other' of X holds text .row 0: 'nest 0'.; drop it or turn it into numbers"),
        (DAYS, "Column 'other' of X holds dates; drop it"),
    ],
)
def test_columns_of_frames_that_are_no_numbers_are_named(
    make_each: Make, heaps: np.ndarray, library: str, column: Any, message: str
) -> None:
    frame = pytest.importorskip(library).DataFrame({"x": heaps[:, 0], "other": column})
    with pytest.raises(InvalidDataError, match=message):
        make_each().fit(frame)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 2)), r"0 sample\(s\).*minimum of 1 is required"),
        (np.zeros((5, 0)), r"0 feature\(s\).*minimum of 1 is required"),
        ([], "Expected 2D array"),
        (np.zeros(5), "Expected 2D array, got 1D array"),
        (3.0, "Expected 2D array, got scalar"),
        (np.zeros((2, 3, 2)), "pass images as rows of pixels"),
        (np.ones((4, 2)) * 1j, "Complex data not supported"),
        (scipy.sparse.eye_array(5, 2).tocsr(), "dense data is required"),
        ([[1.0, 2.0], [3.0]], "rows of X differ in length"),
        (iter([1.0, 2.0]), "X is a list_iterator, not a table of numbers"),
        (b"1,2", "X is bytes, not a table"),
        (None, "X is None"),
        ([[{"a": 1}, 2], [3, 4]], "argument must be a string or a real number"),
        ([["a", "b"], ["c", "d"]], "Column 0 of X holds text .row 0: 'a'.; drop"),
        ([["1", "2"], ["3", "b"]], "Column 1 of X holds text .row 1: 'b'.; drop"),
        (DAYS[:, None], "X holds dates; drop it or turn it into numbers"),
        ("data.csv", "X is the name of a file .'data.csv'.; read it first"),
        (Path("data.csv"), "X is the name of a file"),
        ({"a": [1.0, 2.0]}, "X is a dict; make a data frame of it first"),
        (lazy_frame(), r"X is a lazy frame.*X\.collect"),
    ],
)
def test_what_is_not_a_table_of_numbers(make_each: Make, X: Any, message: str) -> None:
    with pytest.raises(InvalidDataError, match=message):
        make_each().fit(X)


# -- number of features --------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [1, 3, 40])
def test_other_numbers_of_features_than_the_weights_take(make_network: Make, n_features: int) -> None:
    X = np.random.default_rng(0).normal(size=(20, n_features)).tolist()
    message = f"X has {n_features} features, but the weights 'tiny-.*' take 2; .*projection='pca'"
    with pytest.raises(FeatureCountError, match=message):
        make_network().fit(X)
    with pytest.raises(FeatureCountError, match=rf"Xs\[1\] has {n_features} features"):
        make_network().fit_predict_many([np.eye(2), X])
    assert_sound(make_network(projection="pca").fit(X), X)


@pytest.mark.parametrize("as_given", [np.asarray, np.ndarray.tolist])
def test_other_numbers_of_features_than_in_fit(
    make_each: Make, heaps: np.ndarray, as_given: Callable[[np.ndarray], Any]
) -> None:
    estimator = make_each.fitted()
    for n_features in (1, 3):
        message = rf"X has {n_features} features, but .* is expecting 2 .*same columns as in fit"
        for method in ("predict", "predict_proba", "score_samples", "score"):
            with pytest.raises(FeatureCountError, match=message):
                getattr(estimator, method)(as_given(np.ones((4, n_features))))


# -- odd shapes of data --------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "n"), [(0.0, 1), (3.3, 150), (-1e150, 9)])
def test_all_points_equal(make_faithful: Make, value: float, n: int) -> None:
    X = np.full((n, 2), value)
    estimator = make_faithful().fit(X)
    assert_sound(estimator, X)
    assert estimator.n_clusters_ == 1
    assert (estimator.labels_ == 0).all()
    np.testing.assert_allclose(estimator.means_, [[value, value]], rtol=1e-12)
    assert (estimator.outlier_scores_ < 0.5).all()


def centred(heaps: np.ndarray) -> np.ndarray:
    return (heaps - heaps.mean(axis=0)) / heaps.std()


ODD: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "two rows": lambda heaps: np.array([[0.0, 1.0], [3.0, -2.0]]),
    "many copies of a row": lambda heaps: np.vstack([heaps, np.tile(heaps[:1], (200, 1))]),
    "tiny": lambda heaps: centred(heaps) * 1e-150,
    "huge": lambda heaps: centred(heaps) * 1e150,
    "tiny beside huge": lambda heaps: centred(heaps) * [1e-150, 1e150],
    "whole numbers": lambda heaps: np.array([[0, 0], [1, 0], [0, 1], [90, 90], [91, 90], [90, 91]] * 5),
    "constant column": lambda heaps: np.column_stack([np.full(140, 1e6), heaps[:, 1]]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_data(make: Make, heaps: np.ndarray, name: str) -> None:
    X = ODD[name](heaps)
    estimator = make().fit(X)
    assert_sound(estimator, X)
    if name == "constant column":
        np.testing.assert_allclose(estimator.means_[:, 0], 1e6)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OutsidePriorWarning")
def test_duplicates_share_their_label(make_faithful: Make) -> None:
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.2, 1.0]], [30, 20, 10], axis=0)
    estimator = make_faithful().fit(X)
    assert_sound(estimator, X)
    assert all(len(set(estimator.labels_[(row == X).all(axis=1)])) == 1 for row in X)


# -- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "weights", "message"),
    [
        (cw.DAC(), "act-st", "'tiny-act-st' are for act-st, not for dac; choose other weights"),
        (cw.ACTST(), "minimum-loss", "'tiny-minimum-loss' are for dac, not for act-st"),
        (cw.DAC("minimum-loss"), "anchored", "are for anchored filtering, not for minimum-loss; choose that"),
        (cw.DAC("anchored"), "minimum-loss", "are for minimum-loss filtering"),
    ],
)
def test_weights_of_another_method_or_filtering(
    tiny_networks: Path, heaps: np.ndarray, estimator: Any, weights: str, message: str
) -> None:
    path = tiny_networks / f"tiny-{weights}.safetensors"
    with pytest.raises(WeightsFileError, match=message):
        clone(estimator).set_params(weights=path).fit(heaps)


# -- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_clusters": 0},
        {"max_clusters": 2.5},
        {"max_network_points": 0},
        {"projection": "tsne"},
        {"scaling": "none"},
        {"random_state": "tuesday"},
        {"weights": 3},
    ],
)
def test_wrong_parameters_are_named(make_network: Make, heaps: np.ndarray, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        make_network(**wrong).fit(heaps)
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        make_network(**wrong).fit_predict_many([heaps])


def test_a_parameter_that_is_equal_to_a_legal_one(heaps: np.ndarray) -> None:
    """What was found legal is not looked at again, but 30.0 is not 30."""
    cw.GaussianSearch(max_clusters=30, random_state=0).fit(heaps)
    with pytest.raises(ValueError, match="'max_clusters' parameter"):
        cw.GaussianSearch(max_clusters=30.0, random_state=0).fit(heaps)
    with pytest.raises(ValueError, match="'filtering' parameter"):
        cw.DAC("random").fit(heaps)


@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "many"])
def test_no_samples(make_each: Make, heaps: np.ndarray, n_samples: Any) -> None:
    """DeepDPM samples no partitions, nor does DAC by the minimum loss."""
    estimator = make_each.fitted()
    least = "at least 1" if isinstance(n_samples, int) else "a whole number"
    for method in ("sample", "sample_partitions"):
        if hasattr(estimator, method) and (method == "sample" or make_each.name != "DAC"):
            with pytest.raises(ClusterwiseError, match=f"n_samples must be {least}, got {n_samples!r}"):
                getattr(estimator, method)(n_samples)


@pytest.mark.parametrize("device", ["no such device", "cuda:99"])
def test_unknown_device(make_network: Make, heaps: np.ndarray, device: str) -> None:
    with pytest.raises(ClusterwiseError, match=rf"device '{device}'.*; pass device='cpu'"):
        make_network(device=device).fit(heaps)
