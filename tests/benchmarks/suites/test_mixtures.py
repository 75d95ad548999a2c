"""Test sets of mixtures: the right kind, the same every time, no two alike; who is measured on them."""

from __future__ import annotations

from collections.abc import Callable

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
    assert sizes.min() >= 0.3 * n_max
    assert sizes.max() <= n_max
    spread = 0.7 * n_max / np.sqrt(12)  # of a uniform distribution
    assert abs(sizes.mean() - 0.65 * n_max) < 5 * spread / np.sqrt(len(sizes))
    assert k.max() <= k_max
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
    nmi = [
        normalized_mutual_info_score(c.references[0], c.oracle_labels, average_method="geometric")
        for c in cases
    ]
    assert (np.mean(nmi) < 0.45) == ("printed" in scale)
    assert (np.mean(nmi) > 0.9) == ("printed" not in scale)


@pytest.mark.parametrize("setting", CHIGAC)
def test_sizes_and_scales_of_chigac(setting: str) -> None:
    n, k = SIZES[setting]
    cases = [CHIGAC[setting](index) for index in range(60)]
    assert all(case.points.shape == (n, 2) and case.references[0].max() < k for case in cases)
    # sigma = 0.25 exp(0.1 z), so that the mean of sigma^2 is 0.0625 exp(0.02)
    assert close([within_variance(case) for case in cases], 0.0625 * np.exp(0.02))


@pytest.mark.parametrize("setting", SCALES)
def test_clusters_have_the_scale_that_the_setting_names(setting: str) -> None:
    (n_max, k_max), sd = DAC_SIZES[setting.partition(", sd ")[0]], float(setting.partition(", sd ")[2])
    cases = [SCALES[setting](index) for index in range(40)]
    assert all(0.3 * n_max <= len(case.points) <= n_max for case in cases)
    assert max(len(np.unique(case.references[0])) for case in cases) <= k_max
    assert close([within_variance(case) for case in cases], sd**2 * np.exp(0.02))


def test_many_clusters_and_many_features() -> None:
    *_, many, eight = find_suite("scales").data
    ks = [len(np.unique(many.draw(index).references[0])) for index in range(40)]
    assert many.draw(0).points.shape == (3000, 2)
    assert max(ks) > 30
    assert min(ks) < 8
    tilted = [eight.draw(index) for index in range(40)]
    assert tilted[0].points.shape == (1000, 8)
    assert 0.88 < np.mean([adjusted_rand_score(c.references[0], c.oracle_labels) for c in tilted]) < 0.97


@pytest.mark.parametrize("rows", ["2 features", "16 features", "1,000 rows"])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_one_gaussian_has_the_correlation_of_its_name(rows: str, correlation: float) -> None:
    name = f"Gaussian, {rows}, correlation {correlation}"
    draw = next(data.draw for data in find_suite("one-cluster").data if data.name == name)
    points = np.concatenate([draw(index).points for index in range(10)])
    between = np.corrcoef(points.T)[np.triu_indices(points.shape[1], 1)]
    assert between.mean() == pytest.approx(correlation, abs=5 * (1 - correlation**2) / np.sqrt(len(points)))
    np.testing.assert_allclose(points.std(axis=0), 1.0, atol=0.05)


def test_cases_are_reproducible_and_all_different() -> None:
    draws: list[Callable[[int], Case]] = [d.draw for name in NAMES for d in find_suite(name).data]
    for draw in draws:
        np.testing.assert_array_equal(draw(3).points, draw(3).points)
        assert draw(3).seed == 3
    all_points = {draw(index).points.tobytes() for draw in draws for index in range(5)}
    assert len(all_points) == 5 * len(draws)


def test_networks_stay_in_the_plane_and_peers_have_components_enough() -> None:
    suite = find_suite("scales")
    eight, many = (next(d for d in suite.data if d.name.startswith(s)) for s in ("8 features", "(3000, 40)"))
    assert eight.methods is not None
    assert many.methods is not None
    assert not [name for name in eight.methods if "network" in name or "+ search" in name]
    assert {"GaussianSearch", "GMM + BIC", "BayesianGaussianMixture, full"} <= set(eight.methods)
    assert {"AMCP + search", "GMM + BIC (k to 50)", "BayesianGaussianMixture (60)"} <= set(many.methods)


def test_slow_methods_and_hopeless_settings_get_fewer_data_sets() -> None:
    counts = {data.name: data.n_sets for data in find_suite("crp").data}
    assert {count for name, count in counts.items() if "printed" in name} == {5}
    assert {count for name, count in counts.items() if "printed" not in name} == {30}
    caps = {method.name: method.max_sets for method in find_suite("mog").methods}
    assert caps["NCP + search"] == 10
    assert caps["GMM + BIC"] == 25
    assert caps["AMCP + search"] is None
