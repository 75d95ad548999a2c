"""Figures against loops, and their standard errors against repeated experiments."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import clusterwise as cw
from benchmarks.runner import run_suite
from benchmarks.suite import find_suite
from benchmarks.suites.calibration import (
    N_BINS,
    Record,
    bin_sums,
    calibration_error,
    figures,
    k_brier_score,
    k_sums,
    membership_brier_score,
    pooled_curve,
    record_of,
    wilson_errors,
)  # fmt: skip
from clusterwise.metrics import matched_points


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


def obvious_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error, decision by decision."""
    bins = np.array([min(int(c * N_BINS), N_BINS - 1) for c in confidence])
    inside = [bins == b for b in set(bins.tolist())]
    return float(sum(i.mean() * abs(right[i].mean() - confidence[i].mean()) for i in inside))


def test_sums_give_the_error_of_all_decisions() -> None:
    rng = np.random.default_rng(0)
    sets = [(rng.uniform(0, 1, n), rng.random(n) < 0.7) for n in (1, 30, 200)]
    sums = np.stack([bin_sums(*one) for one in sets])
    confidence, right = (np.concatenate(parts) for parts in zip(*sets, strict=True))
    assert calibration_error(sums.sum(axis=0)) == pytest.approx(obvious_error(confidence, right))
    np.testing.assert_allclose(calibration_error(sums), [obvious_error(*one) for one in sets])
    stated, accuracy, counts, _ = pooled_curve(sums)
    assert counts.sum() == 231
    assert counts @ stated == pytest.approx(confidence.sum())
    assert counts @ accuracy == pytest.approx(right.sum())


def test_probabilities_a_rounding_error_above_one_count_as_one() -> None:
    assert bin_sums([1 + 1e-12], [True])[0, -1] == 1


def test_figures_of_the_number_are_the_obvious_ones() -> None:
    made = records(np.random.default_rng(1), 80)
    found = figures(made)
    top = np.array([max(record.k_posterior.values()) for record in made])
    right = np.array([r.true_k == max(r.k_posterior, key=lambda k: r.k_posterior[k]) for r in made])
    assert found["k ECE"].value == pytest.approx(obvious_error(top, right))
    assert found["true k on top"].value == pytest.approx(right.mean())
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
    sums = np.stack([r.membership_sums for r in records(np.random.default_rng(4), 40)])
    np.testing.assert_allclose(pooled_curve(sums)[3], pooled_curve(10 * sums)[3])


def test_one_data_set_has_figures_without_errors() -> None:
    (one,) = records(np.random.default_rng(5), 1)
    assert k_sums([one]).shape == (1, 3, N_BINS)
    assert all(np.isfinite(figure.value) for figure in figures([one]).values())
    assert np.isnan(figures([one])["k ECE"].standard_error)


memberships = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(0, 1)
)


@given(memberships, st.data())
def test_membership_score_agrees_with_a_loop(values: np.ndarray, data: st.DataObject) -> None:
    sums = values.sum(axis=1)
    assume((sums > 1e-3).all())
    stated = values / sums[:, None]
    n, k = stated.shape
    y = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    winners = stated.argmax(axis=1)
    right = matched_points(y, winners)
    partner = {int(winners[i]): int(y[i]) for i in range(n) if right[i]}
    total = 0.0
    for i in range(n):
        mine = [c for c in range(k) if partner.get(c) == y[i]]
        total += sum((stated[i, c] - (c in mine)) ** 2 for c in range(k)) + (not mine)
    assert membership_brier_score(y, stated) == pytest.approx(total / n)


def test_scores_of_k() -> None:
    assert k_brier_score({3: 1.0}, 3) == 0.0
    assert k_brier_score({3: 1.0}, 4) == 2.0


def test_wilson_intervals_cover() -> None:
    rng = np.random.default_rng(6)
    truth, n = 0.9, 40
    drawn = rng.binomial(n, truth, 2000) / n
    down, up = wilson_errors(drawn, np.full(2000, n))
    assert 0.92 < np.mean((drawn - down <= truth) & (truth <= drawn + up)) < 0.98


def test_rows_are_the_estimators_probabilities(tmp_path: Path) -> None:
    whole = find_suite("calibration", quick=True)
    chosen = [method for method in whole.methods if method.name in ("AMCP", "GaussianSearch")]
    data = [replace(one, n_sets=3) for one in whole.data if one.name == "crp (200, 4) at NCP's scale"]
    suite = replace(whole, data=data, methods=chosen)
    page = run_suite("calibration", tmp_path, suite=suite, here=True, write=lambda line: None)
    with page.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3
    assert {row["status"] for row in rows} == {"ok"}
    for row in rows:
        case = data[0].draw(int(row["index"]))
        record = record_of(row)
        assert record.true_k == 4
        assert record.membership_sums[0].sum() == len(case.points)
        model = getattr(cw, row["method"])(random_state=int(row["index"])).fit(case.points)
        assert record.k_posterior == model.k_posterior_
        np.testing.assert_allclose(record.membership_sums[1].sum(), model.probabilities_.sum())
    value = figures([record_of(row) for row in rows if row["method"] == "AMCP"])["true k on top"].value
    table = page.read_text().split("## Number of clusters")[1].split("##")[0]
    assert next(line for line in table.splitlines() if " AMCP |" in line).count(f"{value:.3f}")
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
