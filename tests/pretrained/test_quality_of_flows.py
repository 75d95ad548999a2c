"""The shipped weights for bent clusters keep them whole, and their densities are those of the clusters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import CapReachedWarning, MisfitWarning
from clusterwise.pretrained import untrained
from clusterwise.priors import WarpedGaussians
from clusterwise.priors.prior import LabelledSet

NAME = "dac-warped-2d"


@pytest.fixture(autouse=True)
def _any_shape() -> None:
    warnings.simplefilter("ignore", MisfitWarning)


@pytest.fixture(scope="module")
def sets() -> list[LabelledSet]:
    """Six data sets of up to four arcs, with a seed of their own."""
    prior = WarpedGaussians(k_max=4)
    return [prior.draw_set(np.random.default_rng([2**20, 6, index]), 300) for index in range(6)]


@pytest.fixture(scope="module")
def fitted(sets: list[LabelledSet]) -> cw.DAC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisfitWarning)
        return cw.DAC(weights=NAME, random_state=0).fit(sets[0].points)


def test_it_has_learned_to_cluster(sets: list[LabelledSet]) -> None:
    """The same network before training is the control."""
    points, truth = [one.points for one in sets], [one.labels for one in sets]

    def mean_ari(estimator: cw.DAC) -> float:
        found = estimator.fit_predict_many(points)
        return float(np.mean([adjusted_rand_score(*pair) for pair in zip(truth, found, strict=True)]))

    trained = mean_ari(cw.DAC(weights=NAME, random_state=0))
    warnings.simplefilter("ignore", CapReachedWarning)
    control = mean_ari(cw.DAC(weights=untrained(NAME, seed=0), random_state=0, max_clusters=12))
    assert trained > 0.6
    assert control < trained - 0.3


def test_samples_lie_where_the_rows_are(fitted: cw.DAC, sets: list[LabelledSet]) -> None:
    points, labels = fitted.sample(500)
    assert set(labels) <= set(range(fitted.n_clusters_))
    nearest = np.sqrt(np.square(points[:, None] - sets[0].points).sum(axis=2)).min(axis=1)
    assert np.median(nearest) < 0.1 * sets[0].points.std()


def test_filtering_is_that_of_the_weights(fitted: cw.DAC) -> None:
    assert fitted.filtering is None
    assert all(step.anchor is not None for step in fitted.steps_)
    assert sum(fitted.k_posterior_.values()) == pytest.approx(1)


def test_moons_are_no_pieces() -> None:
    points, _ = make_moons(400, noise=0.05, random_state=0)
    whole = cw.DAC(weights=NAME, random_state=0).fit(points)
    pieces = cw.GaussianSearch().fit(points)
    assert whole.n_clusters_ < pieces.n_clusters_
