"""NCP's own options and its posterior; what all estimators promise is in tests/contracts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import CapReachedWarning
from clusterwise.papers.ncp import NCPNetwork
from clusterwise.partition import canonical_labels


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-ncp.safetensors"


@pytest.fixture(scope="module")
def three() -> np.ndarray:
    """Three clear clusters of 40, 30 and 20 rows in mixed order; (90, 2)."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 0.0], [4.0, 1.0], [-2.0, 5.0]], [40, 30, 20], axis=0)
    return rng.permutation(centres + rng.normal(0, 0.25, (90, 2)))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of each run of the network."""
    seen: list[dict[str, Any]] = []
    original = NCPNetwork.infer

    def spy(self: NCPNetwork, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(NCPNetwork, "infer", spy)
    return seen


def test_options_reach_the_loop(weights: Path, three: np.ndarray, calls: list[dict[str, Any]]) -> None:
    cw.NCP(n_orders=3, winner="likeliest", weights=weights, max_clusters=7).fit(three)
    cw.NCP(n_orders=4, weights=weights).fit(three)
    assert [(call["n_orders"], call["winner"], call["max_clusters"]) for call in calls] == [
        (3, "likeliest", 7),
        (4, "agreeing", 100),
    ]


def test_the_posterior_is_drawn_when_it_is_asked_for(
    weights: Path, three: np.ndarray, calls: list[dict[str, Any]]
) -> None:
    options: dict[str, Any] = {"n_orders": 6, "weights": weights, "random_state": 0, "refine": None}
    estimator = cw.NCP(**options).fit(three)
    assert [call["n_draws"] for call in calls] == [0]
    posterior = estimator.k_posterior_
    assert estimator.k_posterior_ == posterior
    assert estimator.sample_partitions(6).k_posterior == pytest.approx(posterior)
    assert [call["n_draws"] for call in calls] == [0, 6]  # and drawn once


def test_the_partition_has_the_probability_that_is_reported(weights: Path, three: np.ndarray) -> None:
    """The likeliest of the drawn partitions, row by row."""
    likeliest = {"winner": "likeliest", "weights": weights, "random_state": 0}
    estimator = cw.NCP(n_orders=20, refine=None, **likeliest).fit(three)
    assert np.isfinite(estimator.partition_log_probability_)
    assert estimator.partition_log_probability_ <= 0
    samples = estimator.sample_partitions(20).labels
    np.testing.assert_array_equal(estimator.network_labels_, canonical_labels(estimator.network_labels_))
    assert (samples == estimator.network_labels_).all(axis=1).any()
    # Twice as many orders contain others: the likeliest of many is likelier than the likeliest of one.
    one = cw.NCP(n_orders=1, **likeliest).fit(three)
    assert estimator.partition_log_probability_ > one.partition_log_probability_


def test_steps_are_the_clusters_in_the_order_of_birth(weights: Path, three: np.ndarray) -> None:
    estimator = cw.NCP(n_orders=5, weights=weights, random_state=0).fit(three)
    members = np.stack([step.members for step in estimator.steps_])
    assert (members.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(canonical_labels(members.argmax(axis=0)), estimator.network_labels_)
    product = sum(np.log(step.probabilities[step.members]).sum() for step in estimator.steps_)
    assert product == pytest.approx(estimator.partition_log_probability_, rel=1e-4)


def test_rows_that_were_shown_keep_their_drawn_labels(weights: Path, three: np.ndarray) -> None:
    """Others join a cluster of the same draw."""
    estimator = cw.NCP(n_orders=8, refine=None, weights=weights, random_state=0, max_network_points=45).fit(
        three
    )
    shown = estimator.network_labels_ >= 0
    assert shown.sum() == 45
    samples = estimator.sample_partitions(8)
    assert samples.labels.shape == (8, 90)
    by_network = [len(np.unique(row)) for row in samples.labels[:, shown]]
    assert by_network == [len(np.unique(row)) for row in samples.labels]
    assert samples.k_posterior == pytest.approx(estimator.k_posterior_)


def test_em_steps_look_at_rows_beyond_the_network(weights: Path, three: np.ndarray) -> None:
    """Summaries of a few shown rows would be off by a standard error of those few."""
    X = np.tile(three, (20, 1)) + np.random.default_rng(1).normal(0, 0.25, (1800, 2))
    estimator = cw.NCP(n_orders=5, weights=weights, random_state=0, max_network_points=30).fit(X)
    for j, mean in enumerate(estimator.means_):
        np.testing.assert_allclose(mean, X[estimator.labels_ == j].mean(axis=0), atol=0.02)


def test_the_cap_bounds_the_posterior_too(weights: Path, three: np.ndarray) -> None:
    with pytest.warns(CapReachedWarning):
        estimator = cw.NCP(n_orders=10, weights=weights, random_state=0, max_clusters=1).fit(three)
    assert list(estimator.k_posterior_) == [1]


@pytest.mark.parametrize("name", [name for name in cw.list_weights() if name.startswith("ncp")])
def test_shipped_weights_find_clear_clusters(name: str, three: np.ndarray) -> None:
    estimator = cw.NCP(weights=name, random_state=0).fit(three)
    assert estimator.n_clusters_ == 3
    truth = estimator.labels_
    alone = cw.NCP(weights=name, random_state=0, refine=None).fit(three)
    assert adjusted_rand_score(truth, alone.network_labels_) > 0.95
    assert estimator.k_posterior_[3] > 0.5
    assert np.exp(estimator.partition_log_probability_) > 0.1
