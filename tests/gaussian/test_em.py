"""EM on sufficient statistics does what EM does."""

from __future__ import annotations

import numpy as np
import pytest
from search_data import heaps, sample_of
from sklearn.metrics import adjusted_rand_score

from clusterwise.gaussian.em import expect, log_joint_of, refined, state_of_labels
from clusterwise.gaussian.evidence import Sample
from clusterwise.gaussian.families import PRIORS


@pytest.mark.parametrize("covariance_type", list(PRIORS))
def test_densities_are_gaussian(covariance_type, three: tuple[Sample, np.ndarray]) -> None:
    """T(x) . eta against the slow and obvious log density."""
    sample = Sample(three[0].points, covariance_type, three[0].settings)
    state = state_of_labels(sample, three[1])
    found = log_joint_of(sample, state.hyper, state.statistics, sample.lifted)
    prior = state.hyper.prior(sample)
    posterior = prior.posterior(state.statistics)
    for j in range(3):
        precision = posterior.nu[j] / posterior.psi[j]
        if covariance_type == "full":
            precision = posterior.nu[j] * np.linalg.inv(posterior.psi[j])
        precision = np.eye(2) * precision if np.ndim(precision) < 2 else precision
        offsets = sample.points - posterior.mean[j]
        distances = np.einsum("nd,de,ne->n", offsets, precision, offsets)
        expected = 0.5 * np.linalg.slogdet(precision)[1] - np.log(2 * np.pi) - 0.5 * distances
        expected += np.log(np.mean(three[1] == j))
        np.testing.assert_allclose(found[j], expected, atol=1e-8)


def test_expectation() -> None:
    log_joint = np.log(np.array([[0.2, 0.01], [0.6, 0.01]]))
    memberships, entropy, log_density = expect(log_joint.copy())
    np.testing.assert_allclose(memberships, [[0.25, 0.5], [0.75, 0.5]])
    np.testing.assert_allclose(np.exp(log_density), [0.8, 0.02])
    np.testing.assert_allclose(entropy, -(memberships * np.log(memberships)).sum(axis=0))


def test_em_finds_the_clusters_from_poor_labels(three: tuple[Sample, np.ndarray]) -> None:
    sample, labels = three
    rng = np.random.default_rng(0)
    poor = np.where(rng.random(len(labels)) < 0.3, rng.integers(3, size=len(labels)), labels)
    state = refined(sample, state_of_labels(sample, poor))
    assert adjusted_rand_score(labels, state.memberships.argmax(axis=0)) > 0.97
    np.testing.assert_allclose(state.memberships.sum(axis=0), 1.0)
    np.testing.assert_allclose(state.statistics, state.memberships @ sample.lifted)


def test_leaps_lead_where_plain_steps_lead() -> None:
    """Overlapping clusters: a thousand plain EM steps end where the few with leaps do."""
    points, labels = heaps([150, 150], 2.5)
    sample = sample_of(points)
    quick = refined(sample, state_of_labels(sample, labels))
    statistics, hyper = quick.statistics, quick.hyper
    for _ in range(1000):
        memberships, _, _ = expect(log_joint_of(sample, hyper, statistics, sample.lifted))
        statistics = memberships @ sample.lifted
    assert np.abs(memberships - quick.memberships).mean() < 0.03


def test_clusters_without_points_go() -> None:
    points, labels = heaps([60, 60], 10.0)
    sample = sample_of(points)
    memberships = np.zeros((3, 120))
    memberships[labels, np.arange(120)] = 1.0
    memberships[:2] *= 0.999
    memberships[2] = 0.001
    start = state_of_labels(sample, labels)
    scarce = type(start)(memberships, 0.0, memberships @ sample.lifted, start.hyper, start.log_evidence)
    assert refined(sample, scarce).n_clusters == 2
