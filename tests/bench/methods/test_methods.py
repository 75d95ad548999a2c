"""Every registered method that needs no weights runs on a real case and keeps the contract."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench.benchmarks.mog import draw_case
from clusterwise.bench.process import InThisProcess
from clusterwise.bench.registry import METHODS, Case, discover
from clusterwise.bench.worker import Reply

discover()
WITHOUT_WEIGHTS = [
    name
    for name, method in METHODS.items()
    if method.kind in ("peer", "reference")
    and "50" not in name
    and "60" not in name  # slow, and the same code
]


def run(name: str, case: Case) -> Reply:
    return InThisProcess(METHODS[name]).run(case, 60.0)


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_the_same_seed_gives_the_same_labels(name: str) -> None:
    case = draw_case("(1000, 4)", 3)
    first, second = run(name, case), run(name, case)
    assert first.status == "ok"
    np.testing.assert_array_equal(first.labels, second.labels)
    agreement = adjusted_rand_score(case.truth.references[0], first.labels)
    assert (agreement > 0.5) == (name != "random labels")


@pytest.mark.parametrize("name", METHODS)
def test_methods_travel_to_their_processes(name: str) -> None:
    assert pickle.loads(pickle.dumps(METHODS[name])).name == name


def test_the_oracle_reports_its_likelihood_and_needs_the_truth() -> None:
    case = draw_case("(1000, 4)", 0)
    assert run("oracle", case).log_likelihood == case.truth.oracle_log_likelihood
    assert run("oracle", case.blind()).status.startswith("error: ValueError")


@pytest.mark.parametrize("name", ["BayesianGaussianMixture", "BayesianGaussianMixture, full", "GMM + BIC"])
def test_a_mixture_reports_the_density_of_what_it_found(name: str) -> None:
    """Close to the oracle's on many points of one cluster, where there is nothing to get wrong."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(800, 2))
    reply = run(name, Case(points, 0, None))
    truth = float((-0.5 * (points**2).sum(axis=1) - np.log(2 * np.pi)).mean())
    assert reply.log_likelihood == pytest.approx(truth, abs=0.05)


def test_bic_and_full_covariances_see_one_tilted_cluster() -> None:
    points = np.random.default_rng(1).normal(size=(500, 2)) @ [[1.0, 0.9], [0.0, 0.3]]
    for name in ("GMM + BIC", "BayesianGaussianMixture, full"):
        assert len(np.unique(run(name, Case(points, 0, None)).labels)) == 1


def test_noise_joins_the_nearest_cluster() -> None:
    case = draw_case("(3000, 12)", 1)
    with_noise, without = run("HDBSCAN", case).labels, run("HDBSCAN, noise to nearest", case).labels
    assert with_noise is not None
    assert without is not None
    clustered = with_noise >= 0
    assert not clustered.all()
    assert (without >= 0).all()
    np.testing.assert_array_equal(without[clustered], with_noise[clustered])
