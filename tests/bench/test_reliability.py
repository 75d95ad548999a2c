"""Figures over data sets agree with the metrics, and their standard errors with repeated experiments."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.bench.calibration_metrics import (
    expected_calibration_error,
    reliability_curve,
    top_k_hit_rate,
)
from clusterwise.bench.reliability import (
    N_BINS,
    Record,
    bin_sums,
    calibration_error,
    figures,
    k_sums,
    pooled_curve,
)


def records(rng: np.random.Generator, n_sets: int, sharpness: float = 1.0, n: int = 50) -> list[Record]:
    """Data sets with an honest forecaster of k for sharpness 1, too sure a one for more; labels likewise."""
    made = []
    for _ in range(n_sets):
        p = rng.uniform(0.5, 1)
        stated = p**sharpness / (p**sharpness + (1 - p) ** sharpness)
        true_k = 3 if rng.random() < p else 4
        confidence = rng.uniform(0.5, 1, n)
        shift = rng.normal(0.0 if sharpness == 1 else -0.2, 0.1)  # a good or a bad data set
        right = rng.random(n) < np.clip(confidence + shift, 0, 1)
        made.append(Record(true_k, {3: stated, 4: 1 - stated}, 0.1, bin_sums(confidence, right)))
    return made


def test_sums_give_the_error_of_the_metric() -> None:
    rng = np.random.default_rng(0)
    sets = [(rng.uniform(0, 1, n), rng.random(n) < 0.7) for n in (1, 30, 200)]
    sums = np.stack([bin_sums(*one) for one in sets])
    everything = tuple(np.concatenate(parts) for parts in zip(*sets, strict=True))
    assert calibration_error(sums.sum(axis=0)) == pytest.approx(
        expected_calibration_error(*everything, n_bins=N_BINS)
    )
    np.testing.assert_allclose(
        calibration_error(sums), [expected_calibration_error(*one, n_bins=N_BINS) for one in sets]
    )
    expected = reliability_curve(*everything, n_bins=N_BINS)
    for mine, other in zip(pooled_curve(sums)[0], expected, strict=True):
        np.testing.assert_allclose(mine, other)


def test_probabilities_a_rounding_error_above_one_count_as_one() -> None:
    assert bin_sums([1 + 1e-12], [True])[0, -1] == 1


def test_figures_of_the_number_are_those_of_the_metrics() -> None:
    made = records(np.random.default_rng(1), 80)
    found = figures(made)
    top = [max(record.k_posterior.values()) for record in made]
    right = [record.true_k == max(record.k_posterior, key=record.k_posterior.get) for record in made]
    assert found["k ECE"].value == pytest.approx(expected_calibration_error(top, right, n_bins=N_BINS))
    rate = top_k_hit_rate([record.k_posterior for record in made], [record.true_k for record in made])
    assert found["true k on top"].value == pytest.approx(rate)
    assert found["k overconfidence"].value == pytest.approx(np.mean(top) - np.mean(right))
    assert found["P(true k)"].value == pytest.approx(np.mean([r.k_posterior[r.true_k] for r in made]))


def test_honest_and_too_sure_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    honest, sure = figures(records(rng, 300)), figures(records(rng, 300, sharpness=4.0))
    floor = honest["k ECE if calibrated"]
    assert abs(honest["k ECE"].value - floor.value) < 5 * floor.standard_error
    floor = sure["k ECE if calibrated"]
    assert sure["k ECE"].value > floor.value + 5 * floor.standard_error
    assert abs(honest["k overconfidence"].value) < 5 * honest["k overconfidence"].standard_error
    assert sure["k overconfidence"].value > 5 * sure["k overconfidence"].standard_error


@pytest.mark.parametrize(
    "name", ["true k on top", "P(true k)", "k ECE", "k Brier", "membership ECE", "membership overconfidence"]
)
def test_standard_errors_are_the_spread_over_repeated_experiments(name: str) -> None:
    """Far from calibrated, where the error is no absolute value of noise."""
    rng = np.random.default_rng(3)
    runs = [figures(records(rng, 60, sharpness=6.0))[name] for _ in range(60)]
    spread = np.std([run.value for run in runs], ddof=1)
    stated = np.median([run.standard_error for run in runs])
    assert 0.6 < stated / spread < 1.6  # the spread of 60 runs is known to a tenth


def test_errors_of_a_curve_count_data_sets_not_points() -> None:
    """Points of a data set are right or wrong together: ten copies of each point change nothing."""
    rng = np.random.default_rng(4)
    sums = np.stack([r.membership_sums for r in records(rng, 40)])
    once, tenfold = pooled_curve(sums)[1], pooled_curve(10 * sums)[1]
    np.testing.assert_allclose(once, tenfold)


def test_one_data_set_has_figures_without_errors() -> None:
    (one,) = records(np.random.default_rng(5), 1)
    assert k_sums([one]).shape == (1, 3, N_BINS)
    assert all(np.isfinite(figure.value) for figure in figures([one]).values())
    assert np.isnan(figures([one])["k ECE"].standard_error)
