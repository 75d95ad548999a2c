"""Other scales, many clusters, eight features: the right kind, the same every time, who is measured where."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench.benchmarks.scales import EIGHT, MANY, SCALES, SETTINGS, draw_case
from clusterwise.bench.registry import BENCHMARKS, METHODS, discover

discover()


@pytest.mark.parametrize("setting", SCALES)
def test_clusters_have_the_scale_that_the_setting_names(setting: str) -> None:
    n_max, k_max, sd = SCALES[setting]
    within, ks = [], []
    for index in range(60):
        case = draw_case(setting, index)
        labels = case.truth.references[0]
        assert 0.3 * n_max <= len(case.points) <= n_max
        ks.append(len(np.unique(labels)))
        centred = np.concatenate(
            [case.points[labels == j] - case.points[labels == j].mean(axis=0) for j in np.unique(labels)]
        )
        within.append(np.square(centred).sum() / (2 * (len(labels) - ks[-1])))
    assert max(ks) <= k_max
    # sigma = sd exp(0.1 z)
    assert abs(np.mean(within) - sd**2 * np.exp(0.02)) < 5 * np.std(within) / np.sqrt(len(within))


def test_many_clusters() -> None:
    ks = [len(np.unique(draw_case(MANY, index).truth.references[0])) for index in range(60)]
    assert draw_case(MANY, 0).points.shape == (3000, 2)
    assert max(ks) > 30
    assert min(ks) < 5
    assert np.mean(ks) == pytest.approx(20, abs=5 * 11.5 / np.sqrt(60))


def test_the_overlap_in_eight_features_is_moderate() -> None:
    truths = [draw_case(EIGHT, index).truth for index in range(60)]
    agreement = [adjusted_rand_score(t.references[0], t.oracle_labels) for t in truths]
    assert draw_case(EIGHT, 0).points.shape == (1000, 8)
    assert 0.9 < np.mean(agreement) < 0.95


def test_cases_are_reproducible_and_all_different() -> None:
    for setting in SETTINGS:
        np.testing.assert_array_equal(draw_case(setting, 3).points, draw_case(setting, 3).points)
    starts = {float(draw_case(setting, index).points[0, 0]) for setting in SETTINGS for index in range(10)}
    assert len(starts) == 10 * len(SETTINGS)


def test_networks_stay_in_the_plane_and_peers_have_components_enough() -> None:
    benchmark = BENCHMARKS["scales"]
    assert set(benchmark.methods) <= set(METHODS)
    assert set().union(*benchmark.only.values()) == set(benchmark.methods)
    assert not [name for name in benchmark.only[EIGHT] if "network" in name or "+ search" in name]
    assert {"GaussianSearch", "GMM + BIC", "BayesianGaussianMixture, full"} <= set(benchmark.only[EIGHT])
    assert "AMCP + search" in benchmark.only[MANY]
    assert {"GMM + BIC (k to 50)", "BayesianGaussianMixture (60)"} <= set(benchmark.only[MANY])
    assert not benchmark.measures("AMCP + search", EIGHT, 0)
