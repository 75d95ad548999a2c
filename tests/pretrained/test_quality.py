"""The shipped weights find clusters: a cheap look at what the benchmark measures on more data."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.bench.registry import Case, Truth
from clusterwise.priors import MixtureOfGaussians


def draw_case(n_max: int, k_max: int, index: int) -> Case:
    """Draw a data set of DAC's Eq 13 with a seed of its own: no benchmark's and no training's."""
    rng = np.random.default_rng([2**20, n_max, k_max, index])
    drawn = MixtureOfGaussians(k_max=k_max).draw_set(rng, int(rng.integers(0.3 * n_max, n_max)))
    truth = Truth((drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())
    return Case(drawn.points, index, truth)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """30 data sets of DAC's Eq 13, of up to 1000 points and 4 clusters."""
    return [draw_case(1000, 4, index) for index in range(30)]


def mean_ari(cases: list[Case], labels: list[np.ndarray]) -> float:
    pairs = zip(cases, labels, strict=True)
    return float(np.mean([adjusted_rand_score(case.truth.references[0], of_case) for case, of_case in pairs]))


@pytest.mark.parametrize("name", cw.list_weights())
def test_close_to_the_oracle_and_far_from_chance(
    make_golden: ModuleType, cases: list[Case], name: str
) -> None:
    labels = make_golden.estimator_for(name).fit_predict_many([case.points for case in cases])
    ari = mean_ari(cases, labels)
    assert ari > mean_ari(cases, [case.truth.oracle_labels for case in cases]) - 0.05
    rng = np.random.default_rng(0)
    assert mean_ari(cases, [rng.integers(4, size=len(case.points)) for case in cases]) < 0.05
    # A k that is fixed beforehand does not do: the number of clusters is found.
    fixed = [KMeans(4, n_init=1, random_state=0).fit_predict(case.points) for case in cases]
    assert ari > mean_ari(cases, fixed) + 0.1
    k_errors = [
        of.max() + 1 - len(np.unique(c.truth.references[0])) for of, c in zip(labels, cases, strict=True)
    ]
    assert np.abs(k_errors).mean() < 0.3


@pytest.mark.parametrize("name", cw.list_weights())
def test_the_density_is_close_to_the_true_one(make_golden: ModuleType, cases: list[Case], name: str) -> None:
    gaps = []
    for case in cases[:10]:
        estimator = make_golden.estimator_for(name).fit(case.points)
        gaps.append(estimator.score(case.points) - case.truth.oracle_log_likelihood)
    assert abs(np.mean(gaps)) < 0.05


# Weights trained on few clusters or small sets do not go so far.
@pytest.mark.parametrize("name", ["amcp-2d", "chigac-2d", "dac-minimum-loss-2d", "dac-anchored-2d"])
def test_more_clusters_than_the_paper_trains_on(make_golden: ModuleType, name: str) -> None:
    cases = [draw_case(3000, 12, index) for index in range(5)]
    labels = make_golden.estimator_for(name).fit_predict_many([case.points for case in cases])
    oracle = mean_ari(cases, [case.truth.oracle_labels for case in cases])
    assert mean_ari(cases, labels) > oracle - 0.1


def test_anchored_samples_agree_with_the_fit(make_golden: ModuleType, cases: list[Case]) -> None:
    """Sampled partitions of easy data are the one that fit found, and P(K) is sure of its k."""
    names = [
        name
        for name in cw.list_weights()
        if "anchored" in name or name.startswith(("act-st", "amcp", "chigac"))
    ]
    for name in names:
        estimator = make_golden.estimator_for(name).fit(cases[0].points)
        consensus = estimator.sample_partitions(10).consensus().labels
        assert adjusted_rand_score(consensus, estimator.labels_) > 0.95


@pytest.mark.parametrize("name", cw.list_weights())
def test_equal_points_are_one_cluster(make_golden: ModuleType, name: str) -> None:
    estimator = make_golden.estimator_for(name).fit(np.full((300, 2), 0.7))
    assert estimator.n_clusters_ == 1
    assert not estimator.cap_reached_


@pytest.mark.parametrize("name", cw.list_weights())
def test_a_far_row_is_an_outlier(make_golden: ModuleType, cases: list[Case], name: str) -> None:
    several = cases[1].points  # four clusters
    points = np.vstack([several, several.mean(axis=0) + [[25.0, 25.0]]])
    scores = make_golden.estimator_for(name).fit(points).outlier_scores_
    assert scores[-1] > 0.99
    assert np.mean(scores[:-1] > 0.5) < 0.01
