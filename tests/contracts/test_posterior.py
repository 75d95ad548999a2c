"""P(K) and sampled partitions, for the methods that have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from clusterwise import PartitionPosterior
from clusterwise.exceptions import ClusterwiseError

from .conftest import Make, rows_seen


def test_minimum_loss_alone_has_one_answer_and_says_so(
    make_variant: Callable[..., Any], heaps: np.ndarray
) -> None:
    for estimator in (make_variant("DAC"), make_variant("DAC").fit(heaps)):
        assert not hasattr(estimator, "k_posterior_")
        reason = r"one answer.*use DAC\(filtering="
        with pytest.raises(AttributeError, match=reason):
            estimator.k_posterior_  # noqa: B018
        with pytest.raises(ClusterwiseError, match=reason):
            estimator.sample_partitions()


def test_what_deep_dpm_does_not_have_is_explained(make_variant: Callable[..., Any]) -> None:
    with pytest.raises(AttributeError, match=r"learns one partition.*use DPMixture"):
        make_variant("DeepDPM").sample_partitions(3)


def test_k_posterior_is_a_distribution(make_with_posterior: Make, heaps: np.ndarray) -> None:
    posterior = make_with_posterior.fitted().k_posterior_
    assert sum(posterior.values()) == pytest.approx(1)
    assert all(isinstance(k, int) and k >= 1 and p >= 0 for k, p in posterior.items())
    assert list(posterior) == sorted(posterior)


def test_sampled_partitions(make_with_posterior: Make, heaps: np.ndarray) -> None:
    """Rows that ``fit`` puts in different clear clusters are told apart in the samples too, row by row."""
    estimator = make_with_posterior.fitted()
    posterior = estimator.sample_partitions(20)
    assert isinstance(posterior, PartitionPosterior)
    assert posterior.labels.shape == (20, 140)
    assert sum(posterior.k_posterior.values()) == pytest.approx(1)
    assert len(posterior.consensus().labels) == 140
    coclustering, same = posterior.coclustering(), estimator.labels_[:, None] == estimator.labels_
    assert coclustering[same].mean() > coclustering[~same].mean() + 0.1


def test_samples_are_reproducible(make_with_posterior: Make, heaps: np.ndarray) -> None:
    one, other = make_with_posterior.fitted(), make_with_posterior().fit(heaps)
    np.testing.assert_array_equal(one.sample_partitions(5).labels, other.sample_partitions(5).labels)
    np.testing.assert_array_equal(one.sample_partitions(5).labels, one.sample_partitions(5).labels)
    assert one.k_posterior_ == other.k_posterior_


def test_rows_that_the_network_did_not_see_join_a_cluster_of_the_draw(
    make_variant: Callable[..., Any], heaps: np.ndarray
) -> None:
    estimator = make_variant("NCP", max_network_points=60).fit(heaps)
    labels = estimator.sample_partitions(12).labels
    seen = rows_seen(estimator)
    for row in labels:
        assert set(row[~seen]) <= set(row[seen])


@pytest.mark.parametrize("variant", ["AMCP", "DAC, anchored", "NCP"])
def test_samples_differ_from_each_other(
    make_variant: Callable[..., Any], heaps: np.ndarray, variant: str
) -> None:
    """A row half-way between two clusters does not always join the same one."""
    rng = np.random.default_rng(0)
    X = np.vstack([heaps, rng.uniform(heaps.min(axis=0), heaps.max(axis=0), (40, 2))])
    labels = make_variant(variant).fit(X).sample_partitions(20).labels
    assert len(np.unique(labels, axis=0)) > 1


def test_a_new_fit_has_a_new_posterior(make_with_posterior: Make, heaps: np.ndarray) -> None:
    estimator = make_with_posterior().fit(heaps)
    of_heaps = estimator.k_posterior_
    one_point = np.zeros((3, 2))
    assert estimator.fit(one_point).k_posterior_ == make_with_posterior().fit(one_point).k_posterior_
    assert estimator.fit(heaps).k_posterior_ == of_heaps


def test_before_fit(make_with_posterior: Make) -> None:
    with pytest.raises(NotFittedError):
        make_with_posterior().sample_partitions()
    assert not hasattr(make_with_posterior(), "k_posterior_")


@pytest.mark.parametrize("variant", ["AMCP", "DAC, anchored", "CHiGac", "ACTST", "NCP"])
def test_k_posterior_of_a_network_is_that_of_the_partitions_that_it_samples(
    make_variant: Callable[..., Any], heaps: np.ndarray, variant: str
) -> None:
    """Both are the same draws, whichever is asked for first."""
    estimator = make_variant(variant).fit(heaps)
    sampled = estimator.sample_partitions(400).k_posterior
    for k, p in estimator.k_posterior_.items():
        assert sampled.get(k, 0.0) == pytest.approx(p, abs=0.01)


def test_k_posterior_by_evidence(make_variant: Callable[..., Any], heaps: np.ndarray) -> None:
    """Four clear clusters are four."""
    estimator = make_variant("GaussianSearch").fit(heaps)
    assert estimator.n_clusters_ == 4
    assert estimator.k_posterior_[4] > 0.9


def test_act_st_has_no_more_clusters_than_its_cap(
    make_variant: Callable[..., Any], heaps: np.ndarray
) -> None:
    assert max(make_variant("ACTST", max_clusters=5).fit(heaps).k_posterior_) <= 5
