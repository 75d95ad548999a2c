"""Test sets of mixtures: the right kind, the same every time, no two alike; who is measured on them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from benchmarks.suite import Case, find_suite
from benchmarks.suites.mixtures import CHIGAC, CRP, CRP_SCALES, DAC_SIZES, MOG, SCALES, SIZES

NAMES = ("mog", "crp", "chigac", "scales", "warped", "amcp-ablations", "one-cluster", "calibration")


def within_variance(case: Case) -> float:
    """Pooled variance of the clusters, by feature."""
    (labels,) = case.references
    clusters = [case.points[labels == j] for j in np.unique(labels)]
    total = sum(np.square(points - points.mean(axis=0)).sum() for points in clusters)
    return float(total / (case.points.shape[1] * (len(labels) - len(clusters))))


def close(values: list[float], expected: float) -> bool:
    return bool(abs(np.mean(values) - expected) < 5 * np.std(values) / np.sqrt(len(values)))


@pytest.mark.parametrize("setting", MOG)
def test_sizes_and_numbers_of_clusters_of_mog(setting: str) -> None:
    n_max, k_max = DAC_SIZES[setting]
    cases = [MOG[setting](index) for index in range(100)]
    sizes = np.array([len(case.points) for case in cases])
    k = np.array([len(np.unique(case.references[0])) for case in cases])
    assert 0.3 * n_max <= sizes.min() and sizes.max() <= n_max and k.max() <= k_max
    spread = 0.7 * n_max / np.sqrt(12)  # of a uniform distribution
    assert abs(sizes.mean() - 0.65 * n_max) < 5 * spread / np.sqrt(len(sizes))
    # k - 1 is binomial; a component may get no point, which lowers the mean a little.
    assert abs(k.mean() - (k_max + 1) / 2) < 5 * np.sqrt((k_max - 1) / 4 / len(k)) + 0.1
    agreement = [adjusted_rand_score(case.references[0], case.oracle_labels) for case in cases]
    assert close(agreement, {4: 0.987, 12: 0.971}[k_max])


@pytest.mark.parametrize("setting", CRP)
def test_crp_mixtures_have_exact_numbers_and_only_the_printed_scale_is_hopeless(setting: str) -> None:
    (n, k), scale = SIZES[setting.partition(" at ")[0]], setting.partition(" at ")[2]
    cases = [CRP[setting](index) for index in range(40)]
    for case in cases:
        assert case.points.shape == (n, 2)
        np.testing.assert_array_equal(np.unique(case.references[0]), np.arange(k))
    assert close([within_variance(case) for case in cases], CRP_SCALES[scale][1] ** 2)
    pairs = [(case.references[0], case.oracle_labels) for case in cases]
    nmi = np.mean([normalized_mutual_info_score(*pair, average_method="geometric") for pair in pairs])
    assert nmi < 0.45 if "printed" in scale else nmi > 0.9


def test_scales_of_chigac_and_those_that_a_setting_names() -> None:
    for setting, (n, k) in SIZES.items():
        cases = [CHIGAC[setting](index) for index in range(60)]
        assert all(case.points.shape == (n, 2) and case.references[0].max() < k for case in cases)
        # sigma = 0.25 exp(0.1 z), so that the mean of sigma^2 is 0.0625 exp(0.02)
        assert close([within_variance(case) for case in cases], 0.0625 * np.exp(0.02))
    for setting, draw in SCALES.items():
        cases = [draw(index) for index in range(40)]
        assert close(
            [within_variance(case) for case in cases], float(setting.split("sd ")[1]) ** 2 * np.exp(0.02)
        )


def test_many_clusters_and_many_features() -> None:
    *_, many, eight = find_suite("scales").data
    ks = [len(np.unique(many.draw(index).references[0])) for index in range(40)]
    assert many.draw(0).points.shape == (3000, 2)
    assert max(ks) > 30 and min(ks) < 8
    tilted = [eight.draw(index) for index in range(40)]
    assert tilted[0].points.shape == (1000, 8)
    assert 0.88 < np.mean([adjusted_rand_score(c.references[0], c.oracle_labels) for c in tilted]) < 0.97


@pytest.mark.parametrize("rows", ["2 features", "16 features", "1,000 rows"])
def test_one_gaussian_has_the_correlation_of_its_name(rows: str) -> None:
    for correlation in (0.0, 0.9):
        name = f"Gaussian, {rows}, correlation {correlation}"
        draw = next(data.draw for data in find_suite("one-cluster").data if data.name == name)
        points = np.concatenate([draw(index).points for index in range(10)])
        between = np.corrcoef(points.T)[np.triu_indices(points.shape[1], 1)]
        error = (1 - correlation**2) / np.sqrt(len(points))
        assert between.mean() == pytest.approx(correlation, abs=5 * error)
        np.testing.assert_allclose(points.std(axis=0), 1.0, atol=0.05)


def test_cases_are_reproducible_and_all_different() -> None:
    draws = [data.draw for name in NAMES for data in find_suite(name).data]
    for draw in draws:
        np.testing.assert_array_equal(draw(3).points, draw(3).points)
        assert draw(3).seed == 3
    all_points = {draw(index).points.tobytes() for draw in draws for index in range(3)}
    assert len(all_points) == 3 * len(draws)
