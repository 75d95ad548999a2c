"""The test sets of DAC: the same every time, of the right sizes, and never those of training."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench.benchmarks.mog import SETTINGS, draw_case


@pytest.mark.parametrize("setting", SETTINGS)
def test_sizes_and_numbers_of_clusters(setting: str) -> None:
    n_max, k_max = SETTINGS[setting]
    cases = [draw_case(setting, index) for index in range(200)]
    sizes = np.array([len(case.points) for case in cases])
    k = np.array([len(np.unique(case.truth.references[0])) for case in cases])
    assert sizes.min() >= 0.3 * n_max
    assert sizes.max() <= n_max
    spread = 0.7 * n_max / np.sqrt(12)  # of a uniform distribution
    assert abs(sizes.mean() - 0.65 * n_max) < 5 * spread / np.sqrt(len(sizes))
    assert k.max() <= k_max
    # k - 1 is binomial; a component may get no point, which lowers the mean a little.
    assert abs(k.mean() - (k_max + 1) / 2) < 5 * np.sqrt((k_max - 1) / 4 / len(k)) + 0.1
    agreement = [adjusted_rand_score(case.truth.references[0], case.truth.oracle_labels) for case in cases]
    expected = {4: 0.987, 12: 0.971}[k_max]
    assert abs(np.mean(agreement) - expected) < 5 * np.std(agreement) / np.sqrt(len(agreement))


def test_cases_are_reproducible_and_all_different() -> None:
    first = draw_case("(1000, 4)", 7)
    again = draw_case("(1000, 4)", 7)
    np.testing.assert_array_equal(first.points, again.points)
    starts = {float(draw_case(setting, index).points[0, 0]) for setting in SETTINGS for index in range(20)}
    assert len(starts) == 2 * 20
