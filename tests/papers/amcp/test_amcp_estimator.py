"""AMCP's posterior, draws and revision; what all estimators promise is in tests/contracts."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.pretrained import Weights, get_weights


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-amcp.safetensors"


@pytest.fixture(scope="module")
def close_pair() -> np.ndarray:
    """Two clusters so close that one could doubt them, and a third far away; (120, 2)."""
    rng = np.random.default_rng(5)
    centres = np.repeat([[0.0, 0.0], [3.0, 0.0], [20.0, 5.0]], 40, axis=0)
    return centres + rng.normal(size=(120, 2))


def test_the_posterior_is_about_what_is_doubtful(weights: Path, close_pair: np.ndarray) -> None:
    posterior = cw.AMCP(weights=weights, random_state=0).fit(close_pair).k_posterior_
    assert sum(posterior.values()) == pytest.approx(1.0)
    assert posterior.get(2, 0.0) + posterior.get(3, 0.0) > 0.8


def test_samples_agree_with_the_posterior(weights: Path, close_pair: np.ndarray) -> None:
    estimator = cw.AMCP(weights=weights, random_state=0).fit(close_pair)
    samples = estimator.sample_partitions(200)
    # Drawn memberships may leave a cluster of a few rows empty, so this is a comparison, not an equality.
    for k, probability in estimator.k_posterior_.items():
        if probability > 0.05:
            assert abs(samples.k_posterior.get(k, 0.0) - probability) < 0.25
    assert adjusted_rand_score(samples.consensus().labels, estimator.labels_) > 0.5


def without_revision(weights: Weights) -> Weights:
    """The same weights in a network that does not use what it has learned of splits and merges."""
    model = copy.copy(weights.model)
    model.config = dataclasses.replace(model.config, revision=False)
    return dataclasses.replace(weights, model=model)


def test_clusters_are_split_and_merged_at_the_end(close_pair: np.ndarray) -> None:
    revised, printed = (
        cw.AMCP(weights=weights, random_state=0).fit(close_pair)
        for weights in (get_weights("amcp-2d"), without_revision(get_weights("amcp-2d")))
    )
    np.testing.assert_array_equal(revised.steps_[0].members, printed.steps_[0].members)
    assert len(np.unique(printed.labels_)) < 3 == len(np.unique(revised.labels_))
    assert adjusted_rand_score(np.repeat(range(3), 40), revised.labels_) > 0.8


def test_drawn_paths_of_a_revision_differ_where_the_judge_is_unsure(close_pair: np.ndarray) -> None:
    sure = close_pair[40:]  # two clusters far apart
    unsure, certain = (cw.AMCP(random_state=0).fit(X).k_posterior_ for X in (close_pair, sure))
    assert 0.02 < unsure.get(2, 0) < 0.98
    assert certain.get(2, 0) > 0.85


def test_the_right_cap_does_no_harm() -> None:
    """The loop may come to its cap with points left over; the revision has them in their clusters again."""
    truth = np.repeat(range(3), 60)
    for seed in range(8):
        X = 0.5 * np.random.default_rng(seed).normal(size=(180, 2)) + 4 * truth[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cw.AMCP(max_clusters=3, random_state=0).fit_predict(X)
        assert adjusted_rand_score(truth, found) == 1
