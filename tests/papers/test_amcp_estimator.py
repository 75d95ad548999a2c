"""AMCP's own options and its posterior; what all estimators promise is in tests/contracts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.papers.registry import make_model
from clusterwise.pretrained import Weights


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-amcp.safetensors"


@pytest.fixture(scope="module")
def close_pair() -> np.ndarray:
    """Two clusters so close that one could doubt them, and a third far away; (120, 2)."""
    rng = np.random.default_rng(5)
    centres = np.repeat([[0.0, 0.0], [3.0, 0.0], [20.0, 5.0]], 40, axis=0)
    return centres + rng.normal(size=(120, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"e_step": "sinkhorn"},
        {"n_em_steps": 1},
        {"proportions": "balanced"},
        {"update": False},
        {"first_cluster": "k-means"},
    ],
)
def test_options_reach_the_loop(weights: Path, monkeypatch: pytest.MonkeyPatch, options: Any) -> None:
    from clusterwise.papers.amcp import AMCP as Network

    seen: dict[str, Any] = {}
    original = Network.infer

    def spy(self: Network, *args: Any, **kwargs: Any) -> Any:
        seen.update(kwargs)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Network, "infer", spy)
    cw.AMCP(weights=weights, random_state=0, **options).fit(cw.datasets.load_demo()[0][::10])
    ((name, value),) = options.items()
    assert getattr(seen["options"], name) == value


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


def test_network_alone(weights: Path, close_pair: np.ndarray) -> None:
    alone = cw.AMCP(weights=weights, random_state=0, refine=None).fit(close_pair)
    np.testing.assert_array_equal(alone.labels_, alone.network_labels_)
    assert np.isfinite(alone.score(close_pair))


def test_any_number_of_draws(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More paths than run at once: they are run in turns, and none is left out or comes twice."""
    from clusterwise.papers import network_method

    scattered = np.random.default_rng(0).uniform(size=(120, 2))
    whole = cw.AMCP(weights=weights, random_state=0, refine=None).fit(scattered).sample_partitions(40)
    monkeypatch.setattr(network_method, "POINTS_PER_BATCH", 120 * 11)
    turns = cw.AMCP(weights=weights, random_state=0, refine=None).fit(scattered).sample_partitions(40)
    assert turns.labels.shape == whole.labels.shape
    np.testing.assert_array_equal(turns.labels[:10], whole.labels[:10])
    assert len(np.unique(turns.labels, axis=0)) > len(np.unique(turns.labels[:10], axis=0))


def test_revision_is_the_default_without_a_search(close_pair: np.ndarray) -> None:
    usual, revised, printed = (
        cw.AMCP(refine=None, revise=revise, random_state=0).fit(close_pair) for revise in (None, True, False)
    )
    np.testing.assert_array_equal(usual.labels_, revised.labels_)
    np.testing.assert_array_equal(usual.steps_[0].members, printed.steps_[0].members)
    assert adjusted_rand_score(np.repeat(range(3), 40), usual.labels_) > 0.8


def test_drawn_paths_of_a_revision_differ_where_the_judge_is_unsure(close_pair: np.ndarray) -> None:
    sure = close_pair[40:]  # two clusters far apart
    unsure, certain = (cw.AMCP(refine=None, random_state=0).fit(X).k_posterior_ for X in (close_pair, sure))
    assert 0.02 < unsure.get(2, 0) < 0.98
    assert certain.get(2, 0) > 0.85


def test_revision_needs_weights_that_have_learned_it(close_pair: np.ndarray) -> None:
    network = make_model("amcp", {"n_coordinates": 8, "width": 16, "n_encoder_blocks": 1})
    weights = Weights("without", network.eval(), {"model": {}}, {"largest_coordinate": 30.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it was not trained at all
        cw.AMCP(weights=weights, refine=None, max_clusters=5).fit(close_pair)  # by default there is none
    with pytest.raises(ValueError, match="leave it out"):
        cw.AMCP(weights=weights, revise=True).fit(close_pair)


def test_the_right_cap_does_no_harm() -> None:
    """The loop may come to its cap with points left over; the revision has them in their clusters again."""
    truth = np.repeat(range(3), 60)
    for seed in range(8):
        X = 0.5 * np.random.default_rng(seed).normal(size=(180, 2)) + 4 * truth[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = cw.AMCP(refine=None, max_clusters=3, random_state=0).fit_predict(X)
        assert adjusted_rand_score(truth, found) == 1
