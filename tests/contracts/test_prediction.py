"""New rows are treated one by one, as the rows of ``fit`` were; also after a journey through a pickle."""

from __future__ import annotations

import io
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from clusterwise import Clusterer
from clusterwise.exceptions import ClusterwiseError
from clusterwise.pretrained import get_weights

from .conftest import Make


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


def test_predict_on_the_rows_of_fit_gives_their_labels(make: Make, heaps: np.ndarray) -> None:
    estimator = make.fitted()
    np.testing.assert_array_equal(estimator.predict(heaps), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict_proba(heaps), estimator.membership_)
    np.testing.assert_array_equal(make().fit_predict(heaps), estimator.labels_)
    np.testing.assert_allclose(estimator.score_outliers(heaps), estimator.outlier_scores_, atol=1e-9)
    assert estimator.score_outliers([[1e6, -1e6]])[0] > 0.99


def test_rows_next_to_those_of_fit_go_with_them(make_faithful: Make, heaps: np.ndarray) -> None:
    estimator = make_faithful.fitted()
    np.testing.assert_array_equal(estimator.predict(heaps + 1e-6), estimator.labels_)


@pytest.mark.parametrize("settings", [{"scaling": "feature"}, {"max_network_points": 50}])
def test_a_network_is_repeated_with_other_settings(
    make_amortized: Make, heaps: np.ndarray, settings: dict[str, Any]
) -> None:
    estimator = make_amortized(**settings).fit(heaps)
    np.testing.assert_array_equal(estimator.predict(heaps), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict_proba(heaps), estimator.membership_)


def test_rows_do_not_depend_on_their_neighbours(make: Make, heaps: np.ndarray) -> None:
    """Exactly, not nearly: no rounding of a matrix product may leak from row to row."""
    assert_rows_alone(make.fitted(), heaps)


@pytest.mark.parametrize("n_features", [1, 3, 12, 600])
def test_projected_rows_do_not_depend_on_their_neighbours(
    make_network: Make, heaps: np.ndarray, n_features: int
) -> None:
    X = heaps[:, :1] if n_features == 1 else wide(heaps, n_features)
    assert_rows_alone(make_network(projection="pca").fit(X), X)


def assert_rows_alone(estimator: Any, X: np.ndarray) -> None:
    probabilities = estimator.predict_proba(X)
    rows = np.random.default_rng(0).permutation(140)[:33]
    np.testing.assert_array_equal(estimator.predict_proba(X[rows]), probabilities[rows])
    np.testing.assert_array_equal(estimator.predict_proba(np.asfortranarray(X)), probabilities)
    for row in rows[:5]:
        np.testing.assert_array_equal(estimator.predict_proba(X[[row]])[0], probabilities[row])
    scores = estimator.score_samples(X)
    np.testing.assert_array_equal(estimator.score_samples(X[rows]), scores[rows])


def test_new_rows_get_known_labels(make: Make, heaps: np.ndarray, new_rows: np.ndarray) -> None:
    assert_known_labels(make.fitted(), new_rows)


def test_projected_new_rows_get_known_labels(
    make_network: Make, heaps: np.ndarray, new_rows: np.ndarray
) -> None:
    """The same far rows in five features."""
    estimator = make_network(projection="pca").fit(wide(heaps, 5))
    assert_known_labels(estimator, np.tile(new_rows, 3)[:, :5])


def assert_known_labels(estimator: Any, new: np.ndarray) -> None:
    probabilities = estimator.predict_proba(new)
    assert probabilities.shape == (len(new), estimator.n_clusters_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    labels = estimator.predict(new)
    np.testing.assert_array_equal(labels, probabilities.argmax(axis=1))
    assert set(labels) <= set(estimator.labels_)


def test_before_fit(make_each: Make, heaps: np.ndarray) -> None:
    for method in ("predict", "predict_proba", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(make_each(), method)(heaps)
    with pytest.raises(NotFittedError):
        make_each().sample()
    for name in ("labels_", "steps_", "covariances_", "k_posterior_", "pioneers_", "weights_name_"):
        assert not hasattr(make_each(), name)


# -- pickles -------------------------------------------------------------------------------------


def through_joblib(estimator: Any) -> Any:
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    return joblib.load(buffer)


def test_pickles(make: Make, heaps: np.ndarray, new_rows: np.ndarray) -> None:
    estimator = make.fitted()
    arrived = pickle.loads(pickle.dumps(estimator))
    for copy in (arrived, through_joblib(estimator)):
        np.testing.assert_array_equal(copy.labels_, estimator.labels_)
        np.testing.assert_array_equal(copy.predict_proba(new_rows), estimator.predict_proba(new_rows))
    np.testing.assert_array_equal(arrived.score_samples(new_rows), estimator.score_samples(new_rows))
    np.testing.assert_array_equal(arrived.fit_predict(heaps), estimator.labels_)


def test_no_network_in_the_pickle(heaps: np.ndarray) -> None:
    """The shipped weights take megabytes, the pickle only what the rows need."""
    from clusterwise import DAC

    size = {n: len(pickle.dumps(DAC(random_state=0).fit(heaps[:n]))) for n in (70, 140)}
    assert size[140] < 30_000
    assert b"torch" not in pickle.dumps(DAC(random_state=0).fit(heaps))


def test_a_pickle_of_many_rows_holds_what_predict_needs() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24_000, 12)) + 6 * rng.integers(0, 3, (24_000, 1))
    estimator = Clusterer(random_state=0)
    half, written = (pickle.dumps(estimator.fit(X[:n])) for n in (12_000, 24_000))
    assert len(written) - len(half) < 0.8 * X.nbytes / 2
    arrived = pickle.loads(written)
    np.testing.assert_array_equal(arrived.predict(X), estimator.labels_)
    assert arrived.k_posterior_ == estimator.k_posterior_
    with pytest.raises(ClusterwiseError, match="fit it again"):
        arrived.labels_at(arrived.n_clusters_ + 1)
    assert estimator.labels_at(2).max() == 1


def test_a_fitted_estimator_does_without_its_weights_file(
    make_network: Make, heaps: np.ndarray, tmp_path: Any
) -> None:
    weights = tmp_path / "mine.safetensors"
    weights.write_bytes(make_network().weights.read_bytes())
    estimator = make_network(weights=weights).fit(heaps)
    weights.unlink()
    arrived = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(arrived.predict(heaps), estimator.labels_)
    assert np.isfinite(arrived.score(heaps))
    assert arrived.weights_name_ == estimator.weights_name_


def test_weights_in_memory(make_network: Make, heaps: np.ndarray) -> None:
    """Weights may be loaded beforehand; such an estimator can be cloned too."""
    by_path = make_network.fitted()
    loaded = make_network(weights=get_weights(by_path.weights)).fit(heaps)
    np.testing.assert_array_equal(loaded.labels_, by_path.labels_)
    assert loaded.weights_name_ == by_path.weights_name_
    np.testing.assert_array_equal(clone(loaded).fit(heaps).labels_, by_path.labels_)
