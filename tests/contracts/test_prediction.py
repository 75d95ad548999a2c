"""New rows are treated one by one, as the rows of ``fit`` were; also after a journey through a pickle."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

Make = Callable[..., Any]

SETTINGS = [
    {},
    {"scaling": "feature"},
    {"max_network_points": 50},
    {"refine_steps": 0, "zoom_levels": 0, "merge": False},
]


def wide(heaps: np.ndarray, n_features: int) -> np.ndarray:
    """The heaps turned into ``n_features`` dimensions, with a little noise in the others."""
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0][:2]
    return heaps @ rotation + rng.normal(0, 5, (len(heaps), n_features))


@pytest.fixture
def new_rows(heaps: np.ndarray) -> np.ndarray:
    """Rows among, between and far beyond the heaps; (207, 2)."""
    rng = np.random.default_rng(2)
    beyond = [[1e9, 0.0], [-1e150, 1e150], [1e300, 1e300], [-1e308, 1e-308]]
    around = rng.uniform(heaps.min(axis=0) - 500, heaps.max(axis=0) + 500, (200, 2))
    return np.vstack([around, heaps.mean(axis=0), [[0.0, 0.0]], heaps[:1], beyond])


@pytest.mark.parametrize("settings", SETTINGS)
def test_predict_on_the_rows_of_fit_gives_their_labels(
    make: Make, heaps: np.ndarray, settings: dict[str, Any]
) -> None:
    estimator = make(**settings).fit(heaps)
    np.testing.assert_array_equal(estimator.predict(heaps), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict_proba(heaps), estimator.membership_)
    np.testing.assert_array_equal(make(**settings).fit_predict(heaps), estimator.labels_)


@pytest.mark.parametrize("n_features", [1, 2, 3, 12, 600])
def test_rows_do_not_depend_on_their_neighbours(make: Make, heaps: np.ndarray, n_features: int) -> None:
    """Exactly, not nearly: no rounding of a matrix product may leak from row to row."""
    X = heaps[:, :1] if n_features == 1 else heaps if n_features == 2 else wide(heaps, n_features)
    estimator = make(projection=None if n_features == 2 else "pca").fit(X)
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    probabilities = estimator.predict_proba(X)
    rows = np.random.default_rng(0).permutation(140)[:33]
    np.testing.assert_array_equal(estimator.predict_proba(X[rows]), probabilities[rows])
    np.testing.assert_array_equal(estimator.predict_proba(np.asfortranarray(X)), probabilities)
    for row in rows[:5]:
        np.testing.assert_array_equal(estimator.predict_proba(X[[row]])[0], probabilities[row])
    if hasattr(estimator, "score_samples"):
        scores = estimator.score_samples(X)
        np.testing.assert_array_equal(estimator.score_samples(X[rows]), scores[rows])


@pytest.mark.parametrize("n_features", [2, 5])
def test_new_rows_get_known_labels(
    make: Make, heaps: np.ndarray, new_rows: np.ndarray, n_features: int
) -> None:
    X, new = heaps, new_rows
    if n_features == 5:  # the same far rows in five features
        X, new = wide(heaps, 5), np.tile(new_rows, 3)[:, :5]
    estimator = make(projection="pca").fit(X)
    probabilities = estimator.predict_proba(new)
    assert probabilities.shape == (len(new), estimator.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    labels = estimator.predict(new)
    np.testing.assert_array_equal(labels, probabilities.argmax(axis=1))
    assert set(labels) <= set(estimator.labels_)


def test_rows_close_to_a_known_one_share_its_label(make: Make, heaps: np.ndarray) -> None:
    estimator = make().fit(heaps)
    np.testing.assert_array_equal(estimator.predict(heaps + 1e-6), estimator.labels_)


def test_before_fit(make: Make, heaps: np.ndarray) -> None:
    for method in ("predict", "predict_proba", "score_samples"):
        if hasattr(make(), method):
            with pytest.raises(NotFittedError):
                getattr(make(), method)(heaps)


# -- pickles -------------------------------------------------------------------------------------


def through_joblib(estimator: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


@pytest.mark.parametrize("journey", [lambda e: pickle.loads(pickle.dumps(e)), through_joblib])
def test_pickles(make: Make, heaps: np.ndarray, new_rows: np.ndarray, journey: Callable[[Any], Any]) -> None:
    estimator = make().fit(heaps)
    arrived = journey(estimator)
    np.testing.assert_array_equal(arrived.labels_, estimator.labels_)
    np.testing.assert_array_equal(arrived.predict_proba(new_rows), estimator.predict_proba(new_rows))
    assert hasattr(arrived, "score_samples") == hasattr(estimator, "score_samples")
    np.testing.assert_array_equal(arrived.fit_predict(heaps), estimator.labels_)


def test_no_network_in_the_pickle(heaps: np.ndarray) -> None:
    """The shipped weights take megabytes, the pickle only what the rows need."""
    from clusterwise import DAC

    size = {n: len(pickle.dumps(DAC(random_state=0).fit(heaps[:n]))) for n in (70, 140)}
    assert size[140] < 30_000
    assert b"torch" not in pickle.dumps(DAC(random_state=0).fit(heaps))


def test_a_fitted_estimator_does_without_its_weights_file(
    make: Make, heaps: np.ndarray, tmp_path: Any
) -> None:
    weights = tmp_path / "mine.safetensors"
    weights.write_bytes(make().weights.read_bytes())
    estimator = make(weights=weights).fit(heaps)
    weights.unlink()
    arrived = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(arrived.predict(heaps), estimator.labels_)
    assert hasattr(arrived, "score_samples") == hasattr(make(), "score_samples")


def test_clone(make: Make, heaps: np.ndarray) -> None:
    estimator = make().fit(heaps)
    copy = clone(estimator)
    assert not hasattr(copy, "labels_")
    assert copy.get_params() == estimator.get_params()
    np.testing.assert_array_equal(copy.fit(heaps).labels_, estimator.labels_)
