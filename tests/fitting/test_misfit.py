"""What clusters fail to describe is named; what they describe well is passed over in silence."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons

import clusterwise as cw
from clusterwise.exceptions import MisfitWarning, OtherKWarning
from clusterwise.fitting.misfit import find_misfits, find_misfits_of_any_shape, valley
from clusterwise.priors import make_prior


def misfits(estimator, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X).misfits_


def search():
    return cw.GaussianSearch(random_state=0)


# -- silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [search, lambda: cw.AMCP(random_state=0)], ids=["GaussianSearch", "AMCP"])
def test_mixtures_of_gaussians_are_described_well(make):
    """Those of the benchmarks, overlapping ones included: 40 data sets."""
    prior = make_prior(name="mixture-of-gaussians", n_features=2, k_max=6)
    batch = prior.draw(np.random.default_rng(11), 40, 500)
    found = [misfits(make(), batch[i].points) for i in range(40)]
    assert sum(map(bool, found)) <= 2, [m for m in found if m]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_one_gaussian(correlation):
    rng = np.random.default_rng(2)
    for _ in range(10):
        X = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], 1000)
        assert misfits(search(), X) == []


def test_gaussians_in_more_features():
    rng = np.random.default_rng(3)
    for _ in range(5):
        y = rng.integers(0, 4, 800)
        X = 6 * rng.normal(size=(4, 6))[y] + rng.normal(size=(800, 6))
        assert misfits(search(), X) == []


def test_small_data_are_not_compared():
    X = np.random.default_rng(0).lognormal(size=(40, 2))
    assert find_misfits(X, np.arange(40) % 3) == []


# -- what is seen ------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw", ["lognormal", "exponential"])
@pytest.mark.parametrize("make", [search, lambda: cw.AMCP(random_state=0)], ids=["GaussianSearch", "AMCP"])
def test_parts_of_skewed_clusters(draw, make):
    rng = np.random.default_rng(4)
    for _ in range(3):
        X = getattr(rng, draw)(size=(1000, 2))
        with pytest.warns(MisfitWarning) as seen:  # parts far out may bring another one
            make().fit(X)
        skewed = re.compile("run into each other without a gap, and column 0.*TablePreparation")
        assert any(skewed.search(str(one.message)) for one in seen)
        assert cw.GaussianSearch(random_state=0).fit(cw.TablePreparation().fit_transform(X)).misfits_ == []


def test_parts_of_bent_clusters():
    X, _ = make_moons(1000, noise=0.06, random_state=0)
    with pytest.warns(
        MisfitWarning, match=r"parts of fewer clusters that are not Gaussian; try clusterwise\.Clus"
    ):
        search().fit(X)


def test_one_gaussian_in_parts():
    rng = np.random.default_rng(5)
    X = rng.multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 1000)
    labels = np.digitize(X @ [1, 1], [-1.5, 0, 1.5])
    (message,) = find_misfits(X, labels)
    assert message.finding().startswith("4 clusters with 100 % of the rows together look like one Gaussian")


def test_one_cluster_of_two_heaps():
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal([0, 8], 1, (300, 2))])
    (message,) = find_misfits(X, np.zeros(600, int))
    assert "there is one cluster, but the rows fall into groups" in str(message)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.CapReachedWarning")  # of a network alone
def test_clusters_that_are_values():
    rng = np.random.default_rng(7)
    values = rng.integers(0, 3, 600)
    X = np.column_stack([values, rng.normal(size=600)])
    (message,) = find_misfits(X, values, names=["answer", "size"])
    assert message.finding().startswith("the clusters follow the 3 values of answer")
    likert = np.clip(np.round(3 + rng.normal(size=(1000, 2))), 1, 5)
    with pytest.warns(MisfitWarning, match="all columns have few distinct values"):
        cw.AMCP(random_state=0).fit(likert)


def test_correlations_that_diagonal_covariances_pass_over():
    rng = np.random.default_rng(8)
    X = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 400)
    labels = np.zeros(400, int)
    (message,) = find_misfits(X, labels, full=False)
    assert "columns are correlated within clusters (up to 0.8" in str(message)
    assert find_misfits(X, labels) == []


def test_heavy_tails():
    rng = np.random.default_rng(9)
    X = rng.standard_t(2, size=(1000, 2))
    (message,) = find_misfits(X, np.zeros(1000, int))
    assert "their tails are heavy" in str(message)


def test_warnings_point_to_the_call(recwarn):
    X, _ = make_moons(1000, noise=0.06, random_state=0)
    warnings.simplefilter("always")
    search().fit(X)
    assert {str(w.filename) for w in recwarn if issubclass(w.category, MisfitWarning)} == {__file__}


# -- how deep, how quick -----------------------------------------------------------------------------


def test_valleys():
    rng = np.random.default_rng(10)
    one = rng.normal(size=1000)
    assert valley(one) > 0.85
    apart = np.concatenate([one, rng.normal(6, 1, 1000)])
    assert valley(apart) < 0.1
    assert valley(apart * 1e6 - 7) == pytest.approx(valley(apart))
    assert valley(np.concatenate([one, [100.0] * 20])) > 0.85  # a few far values are no heap
    assert valley(np.full(100, 3.0)) == 1


def test_checks_take_little_of_a_fit():
    prior = make_prior(name="mixture-of-gaussians", n_features=2, k_max=6)
    X = prior.draw(np.random.default_rng(11), 1, 1000)[0].points
    estimator = search().fit(X)

    def quickest(work: Callable[[], object]) -> float:
        """Seconds of one of ten calls, the one that was disturbed least."""
        seconds = []
        for _ in range(10):
            started = time.thread_time()
            work()
            seconds.append(time.thread_time() - started)
        return min(seconds)

    fitting = quickest(lambda: estimator.fit(X))
    assert quickest(lambda: find_misfits(X, estimator.labels_)) < 0.5 * fitting


def test_other_k_is_said_once():
    X = cw.datasets.load_demo()[0][::10]
    estimator = cw.AMCP(random_state=0).fit(X)
    likeliest = max(estimator.k_posterior_, key=estimator.k_posterior_.get)
    assert likeliest == estimator.n_clusters_  # nothing to say
    estimator.n_clusters_ += 1
    with pytest.warns(
        OtherKWarning,
        match=rf"have {likeliest + 1} clusters, but {likeliest} are likelier.*sample_partitions",
    ):
        _ = estimator.k_posterior_
    _ = estimator.k_posterior_


# -- clusters of any shape ----------------------------------------------------------------------------


def test_any_shape_is_fine():
    X, y = make_moons(1000, noise=0.06, random_state=0)
    assert find_misfits_of_any_shape(X, y) == []


def test_one_gaussian_in_parts_is_wrong_in_any_shape():
    X = np.random.default_rng(5).multivariate_normal([0, 0], [[1, 0.7], [0.7, 1]], 1000)
    (message,) = find_misfits_of_any_shape(X, np.digitize(X @ [1, 1], [-1.5, 0, 1.5]))
    assert "together look like one Gaussian" in str(message)
    (message,) = find_misfits_of_any_shape(np.vstack([X, X + 9]), np.zeros(2000, int))
    assert "there is one cluster, but the rows fall into groups" in str(message)


def test_pixels_at_a_margin_are_not_followed():
    """A column that is nearly always zero is constant within most clusters, whatever these are."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 800)
    margin = (rng.random(800) < 0.02) * (labels == 0) * 1.0
    X = np.column_stack([5.0 * labels + rng.normal(size=800), margin])
    assert find_misfits_of_any_shape(X, labels) == []
    assert not any("follow" in str(message) for message in find_misfits(X, labels))


def test_clusterer_says_what_it_does_not_trust():
    likert = np.clip(np.round(3 + np.random.default_rng(0).normal(size=(1000, 4))), 1, 5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = cw.Clusterer(random_state=0).fit(likert)
    said = [str(w.message) for w in caught if issubclass(w.category, MisfitWarning)]
    assert estimator.n_clusters_ == 1 or any("all columns have few distinct values" in line for line in said)
    assert (estimator.expected_ari_ < 0.5) == any("with little confidence" in line for line in said)


def test_clusterer_says_why_another_number_is_likelier():
    X = np.random.default_rng(0).normal(size=(300, 2))
    estimator = cw.Clusterer(random_state=0).fit(X)
    estimator._found = replace(estimator._found, k_posterior={1: 0.2, 2: 0.8})
    with pytest.warns(OtherKWarning, match=r"have 1 cluster, but 2 are likelier \(0\.80\).*labels_at\(2\)"):
        _ = estimator.k_posterior_
    _ = estimator.k_posterior_  # once


def test_dp_mixture_says_why_another_number_is_likelier():
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([0, 20], 30)[:, None]
    estimator = cw.DPMixture(n_draws=60, random_state=0).fit(X)
    known = {estimator.n_clusters_: 0.3, estimator.n_clusters_ + 1: 0.7}
    estimator._found = replace(estimator._found, k_posterior=known)
    with pytest.warns(OtherKWarning, match="closest to all draws.*see sample_partitions"):
        _ = estimator.k_posterior_
