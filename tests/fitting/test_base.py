"""What estimators have in common where a column is constant: a density in the units of the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from clusterwise import DeepDPM, DPMixture, GaussianSearch
from clusterwise.exceptions import ClusterwiseError, FeatureCountError, NotConvergedWarning
from clusterwise.fitting.base import BaseClusterer
from clusterwise.partition import canonical_labels

QUICK: dict[str, Any] = {"n_warm_up": 40, "n_draws": 10, "random_state": 0}
ESTIMATORS: dict[str, BaseClusterer] = {
    "DPMixture": DPMixture(**QUICK),
    "DPMixture, diagonal": DPMixture(covariance_type="diag", **QUICK),
    "GaussianSearch": GaussianSearch(random_state=0),
    "GaussianSearch, spherical": GaussianSearch(covariance_type="spherical", scaling="joint", random_state=0),
    "DPMixture, spherical": DPMixture(covariance_type="spherical", **QUICK),
    "DeepDPM": DeepDPM(random_state=0),
    "DeepDPM, joint": DeepDPM(scaling="joint", random_state=0),
}
CONSTANT = 2.5


@pytest.fixture(scope="module")
def heaps() -> tuple[np.ndarray, np.ndarray]:
    """Three clear clusters (240, 3) far from the origin, with a constant column between the others."""
    rng = np.random.default_rng(3)
    labels = canonical_labels(rng.permutation(np.repeat([0, 1, 2], [120, 80, 40])))
    plane = np.array([[0.0, 0.0], [9.0, 1.0], [1.0, 10.0]])[labels] + rng.normal(size=(240, 2))
    plane = plane * 30.0 + [5e3, -700.0]
    return np.column_stack([plane[:, 0], np.full(240, CONSTANT), plane[:, 1]]), labels


@pytest.fixture(scope="module", params=list(ESTIMATORS))
def fitted(request: pytest.FixtureRequest, heaps: tuple[np.ndarray, np.ndarray]) -> BaseClusterer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return clone(ESTIMATORS[request.param]).fit(heaps[0])


def test_what_is_stored(fitted: BaseClusterer, heaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = heaps
    np.testing.assert_array_equal(fitted.labels_, labels)
    assert fitted.n_clusters_ == 3
    np.testing.assert_array_equal(fitted.membership_.argmax(axis=1), fitted.labels_)
    np.testing.assert_array_equal(fitted.membership_.max(axis=1), fitted.probabilities_)
    np.testing.assert_allclose(fitted.proportions_, np.bincount(labels) / 240, atol=0.01)
    for k in range(3):
        mine = X[labels == k]
        np.testing.assert_allclose(fitted.means_[k], mine.mean(axis=0), atol=6)
        spreads = np.sqrt(np.diag(fitted.covariances_[k]))
        np.testing.assert_allclose(spreads, mine.std(axis=0), rtol=0.5)
    assert (fitted.means_[:, 1] == CONSTANT).all()


def test_density_integrates_to_one(fitted: BaseClusterer, heaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = heaps
    low, high = X.min(axis=0), X.max(axis=0)
    low, high = low - (high - low), high + (high - low)
    axes = [np.linspace(low[a], high[a], 400) for a in (0, 2)]
    plane = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    grid = np.column_stack([plane[:, 0], np.full(len(plane), CONSTANT), plane[:, 1]])
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    assert np.exp(fitted.score_samples(grid)).sum() * cell == pytest.approx(1, abs=0.02)
    assert fitted.score(X) == fitted.score_samples(X).mean()


def test_rows_do_not_depend_on_their_neighbours(
    fitted: BaseClusterer, heaps: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = heaps
    rows = np.random.default_rng(0).permutation(len(X))[:33]
    np.testing.assert_array_equal(fitted.predict(X), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.membership_)
    np.testing.assert_array_equal(fitted.predict_proba(X[rows]), fitted.membership_[rows])
    np.testing.assert_array_equal(fitted.score_samples(X[rows]), fitted.score_samples(X)[rows])


def test_samples_come_from_the_clusters(fitted: BaseClusterer, heaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = heaps
    points, labels = fitted.sample(2000)
    assert points.shape == (2000, 3)
    assert (points[:, 1] == CONSTANT).all()
    assert (fitted.predict(points) == labels).mean() > 0.98
    np.testing.assert_allclose(np.bincount(labels) / 2000, fitted.proportions_, atol=0.06)
    centres = np.stack([points[labels == k].mean(axis=0) for k in range(3)])
    np.testing.assert_allclose(centres, fitted.means_, atol=0.05 * X.std(axis=0).max())
    np.testing.assert_array_equal(fitted.sample(7)[0], fitted.sample(7)[0])


def test_what_cannot_be_answered(fitted: BaseClusterer, heaps: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ClusterwiseError, match="n_samples must be at least 1"):
        fitted.sample(0)
    expected = f"X has 2 features, but {type(fitted).__name__} is expecting 3"
    for ask in (fitted.predict, fitted.predict_proba, fitted.score_samples, fitted.score):
        with pytest.raises(FeatureCountError, match=expected):
            ask(heaps[0][:, :2])
    empty = clone(fitted)
    for ask in (empty.predict, empty.predict_proba, empty.score_samples, empty.score):
        with pytest.raises(NotFittedError):
            ask(heaps[0])
    with pytest.raises(NotFittedError):
        empty.sample()


def test_warnings_name_the_line_that_fits(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    hasty = (DPMixture(n_warm_up=0, n_draws=2, random_state=0), DeepDPM(max_epochs=4, random_state=0))
    for estimator in hasty:
        with pytest.warns(NotConvergedWarning) as caught:
            estimator.fit(heaps[0])
        assert {warning.filename for warning in caught} == {__file__}
