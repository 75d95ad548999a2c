"""The test sets of AMCP: the right sizes and scales, the same every time, no two alike."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from clusterwise.bench.benchmarks.crp import SCALES, SETTINGS, draw_case
from clusterwise.bench.registry import BENCHMARKS

N_SETS = 100


@pytest.mark.parametrize("setting", SETTINGS)
def test_sizes_numbers_of_clusters_and_scales(setting: str) -> None:
    n, k, scale = SETTINGS[setting]
    mean_sd, sd = SCALES[scale]
    within, between = [], []
    for index in range(N_SETS):
        case = draw_case(setting, index)
        labels = case.truth.references[0]
        assert case.points.shape == (n, 2)
        np.testing.assert_array_equal(np.unique(labels), np.arange(k))
        means = np.array([case.points[labels == j].mean(axis=0) for j in range(k)])
        within.append(np.square(case.points - means[labels]).sum() / (2 * (n - k)))
        sizes = np.bincount(labels)[:, None]
        between.append((np.square(means) - sd**2 / sizes).mean())
    for values, expected in ((within, sd**2), (between, mean_sd**2)):
        assert abs(np.mean(values) - expected) < 5 * np.std(values) / np.sqrt(N_SETS)


def test_only_the_printed_scale_is_hopeless() -> None:
    for setting, (_, _, scale) in SETTINGS.items():
        truths = [draw_case(setting, index).truth for index in range(30)]
        nmi = [
            normalized_mutual_info_score(t.references[0], t.oracle_labels, average_method="geometric")
            for t in truths
        ]
        assert (np.mean(nmi) < 0.45) == ("printed" in scale)
        assert (np.mean(nmi) > 0.9) == ("printed" not in scale)


def test_hopeless_settings_get_fewer_data_sets() -> None:
    benchmark = BENCHMARKS["crp"]
    counts = {setting: benchmark.sets_of(setting, benchmark.n_sets) for setting in benchmark.settings}
    assert {setting for setting, count in counts.items() if count < benchmark.n_sets} == {
        "(200, 4) at the printed scale",
        "(400, 6) at the printed scale",
    }


def test_cases_are_reproducible_and_all_different() -> None:
    for setting in SETTINGS:
        first, again = draw_case(setting, 7), draw_case(setting, 7)
        np.testing.assert_array_equal(first.points, again.points)
        assert first.seed == 7
    # Not even the partitions are shared between scales.
    partitions = {
        draw_case(setting, i).truth.references[0].tobytes() for setting in SETTINGS for i in range(20)
    }
    assert len(partitions) == len(SETTINGS) * 20
