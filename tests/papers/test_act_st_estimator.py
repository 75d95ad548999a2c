"""ACT-ST with its shipped weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise import ACTST


@pytest.fixture(scope="module")
def three() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters as in the training data; (240, 2) and their classes."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [120, 80, 40])
    return np.array([[0.0, 0.0], [4.0, 1.0], [-2.0, 5.0]])[truth] + rng.normal(0, 0.25, (240, 2)), truth


def test_three_clusters(three: tuple) -> None:
    X, truth = three
    estimator = ACTST(random_state=0).fit(X)
    assert adjusted_rand_score(truth, estimator.labels_) > 0.99
    assert max(estimator.k_posterior_, key=estimator.k_posterior_.get) == 3
    assert adjusted_rand_score(truth, ACTST(random_state=0, refine=None).fit_predict(X)) > 0.9


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_learned_stop_knows_easy_numbers(three: tuple, k: int) -> None:
    X, truth = three
    belief = ACTST(random_state=0).fit(X[truth < k]).network_k_posterior_
    assert belief[k] == max(belief.values())


def test_sampled_partitions_are_close_to_the_fit(three: tuple) -> None:
    X, truth = three
    consensus = ACTST(random_state=0).fit(X).sample_partitions(10).consensus()
    assert adjusted_rand_score(truth, consensus.labels) > 0.99


def test_weights() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert ACTST().fit(X).weights_name_ == "act-st-2d"
    assert ACTST().fit(X).steps_ == ()
