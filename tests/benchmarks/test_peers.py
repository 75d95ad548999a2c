"""Every peer and reference line runs on a real case and keeps the contract."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from benchmarks.peers import GIVEN_K, PEERS, REFERENCES, TABLES
from benchmarks.processes import Reply, ThisProcess
from benchmarks.suite import Case
from clusterwise.priors.mixtures import MixtureOfGaussians

METHODS = PEERS | REFERENCES
QUICK = [name for name in METHODS if "50)" not in name and "60" not in name]  # others are the same code


def run(name: str, case: Case) -> Reply:
    return ThisProcess().run(METHODS[name], case, 60.0)


@pytest.fixture(scope="module")
def mixture() -> Case:
    drawn = MixtureOfGaussians(k_exact=3).draw_set(np.random.default_rng(2), 300)
    return Case(drawn.points, 3, (drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())


@pytest.mark.parametrize("name", QUICK)
def test_the_same_seed_gives_the_same_labels(name: str, mixture: Case) -> None:
    first, second = run(name, mixture), run(name, mixture)
    assert first.status == "ok"
    assert first.labels is not None
    np.testing.assert_array_equal(first.labels, second.labels)
    agreement = adjusted_rand_score(mixture.references[0], first.labels)
    if name == "random labels":
        assert agreement < 0.1
    elif not name.startswith(("Leiden", "Louvain")):  # which divides what is dense
        assert agreement > 0.5


def test_only_references_see_the_truth(mixture: Case) -> None:
    assert not any(method.sees_truth for method in PEERS.values())
    assert all(REFERENCES[name].sees_truth for name in GIVEN_K)
    assert set(TABLES) <= set(PEERS)
    for name in (*GIVEN_K, "oracle"):
        assert run(name, mixture.blind()).status.startswith("error: ValueError")
    assert run("oracle", mixture).log_likelihood == mixture.oracle_log_likelihood


@pytest.mark.parametrize("name", GIVEN_K)
def test_the_number_given_is_that_of_the_first_reference_without_noise(name: str, mixture: Case) -> None:
    first = np.where(np.arange(300) < 20, -1, mixture.references[0])
    labels = run(name, Case(mixture.points, 0, (first, np.arange(300)))).labels
    assert labels is not None
    assert len(np.unique(labels)) == 3


@pytest.mark.parametrize("name", ["BayesianGaussianMixture", "BayesianGaussianMixture, full", "GMM + BIC"])
def test_a_mixture_reports_the_density_of_what_it_found(name: str) -> None:
    """Close to the oracle's on many points of one cluster, where there is nothing to get wrong."""
    points = np.random.default_rng(0).normal(size=(800, 2))
    truth = float((-0.5 * (points**2).sum(axis=1) - np.log(2 * np.pi)).mean())
    assert run(name, Case(points)).log_likelihood == pytest.approx(truth, abs=0.05)


def test_noise_joins_the_nearest_cluster() -> None:
    drawn = MixtureOfGaussians(k_exact=6).draw_set(np.random.default_rng(5), 800)
    case = Case(drawn.points)
    with_noise, without = run("HDBSCAN", case).labels, run("HDBSCAN, noise to nearest", case).labels
    assert with_noise is not None
    assert without is not None
    clustered = with_noise >= 0
    assert not clustered.all()
    assert (without >= 0).all()
    np.testing.assert_array_equal(without[clustered], with_noise[clustered])
