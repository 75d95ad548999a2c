"""The test sets of CHiGac's Table 1: sizes, scales, the same every time; who is measured on them."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.bench.benchmarks.chigac import SETTINGS, draw_case
from clusterwise.bench.registry import BENCHMARKS, METHODS, METRICS, discover

discover()
N_SETS = 100


@pytest.mark.parametrize("setting", SETTINGS)
def test_sizes_numbers_of_clusters_and_scales(setting: str) -> None:
    n, k = SETTINGS[setting]
    within, used = [], []
    for index in range(N_SETS):
        case = draw_case(setting, index)
        labels = case.truth.references[0]
        assert case.points.shape == (n, 2)
        assert labels.max() < k
        used.append(len(np.unique(labels)))
        means = np.array(
            [case.points[labels == j].mean(axis=0) if (labels == j).any() else [0, 0] for j in range(k)]
        )
        within.append(np.square(case.points - means[labels]).sum() / (2 * (n - used[-1])))
    # sigma = 0.25 exp(0.1 z), so that the mean of sigma^2 is 0.0625 exp(0.02)
    assert abs(np.mean(within) - 0.0625 * np.exp(0.02)) < 5 * np.std(within) / np.sqrt(N_SETS)
    assert np.mean(used) > k - 0.5


def test_cases_are_reproducible_and_all_different() -> None:
    first, again = draw_case("(200, 4)", 7), draw_case("(200, 4)", 7)
    np.testing.assert_array_equal(first.points, again.points)
    assert first.seed == 7
    assert len({draw_case(setting, i).points.tobytes() for setting in SETTINGS for i in range(20)}) == 40


def test_every_method_and_metric_of_the_table_exists() -> None:
    benchmark = BENCHMARKS["chigac"]
    assert set(benchmark.methods) <= set(METHODS)
    assert set(benchmark.headline) <= set(benchmark.metrics) <= set(METRICS)
    assert {"DBI (cosine)", "DBI (euclidean)", "accuracy"} <= set(benchmark.metrics)
