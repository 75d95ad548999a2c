"""Posteriors side by side, on tiny chains and a tiny network."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks.runner import run_suite
from benchmarks.suite import Case, find_suite
from benchmarks.suites import posteriors
from benchmarks.suites.posteriors import TRUTH, Posterior, chain, compared, scored, total_variation


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OtherKWarning")
def test_a_run_leaves_a_page_with_all_posteriors(
    tmp_path: Path, tiny_networks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SIZES": (6, 9), "N_WARM_UP": 4, "N_DRAWS": 6, "N_PARTITIONS": 8}.items():
        monkeypatch.setattr(posteriors, name, value)
    suite = find_suite("posteriors", quick=True)
    tiny = partial(partial, compared, "NCP", weights=str(tiny_networks / "tiny-ncp.safetensors"))
    methods = [
        replace(method, build=tiny, identity=None) if method.name == "NCP" else method
        for method in suite.methods
    ]
    page = run_suite(
        "posteriors", tmp_path, suite=replace(suite, methods=methods), here=True, write=lambda line: None
    )
    text = page.read_text()
    assert "Not finished" not in text
    for method in methods:
        assert text.count(f"| {method.name} ") == 2


def test_the_known_model_is_the_true_posterior() -> None:
    """Of two points P(one cluster) has a closed form; a mixture told something else would miss it."""
    points = np.array([[3.0, -1.0], [5.5, 0.5]])

    def log_normal(x: np.ndarray, variances: np.ndarray) -> float:
        return float((-0.5 * np.log(2 * np.pi * variances) - x**2 / (2 * variances)).sum())

    prior, noise = posteriors.MEAN_SD**2, posteriors.SD**2
    apart = sum(log_normal(point, np.full(2, prior + noise)) for point in points)
    mean, difference = points.mean(axis=0), (points[0] - points[1]) / np.sqrt(2)
    together = log_normal(np.sqrt(2) * mean, np.full(2, 2 * prior + noise)) + log_normal(
        difference, np.full(2, noise)
    )
    odds = np.exp(together - apart) / posteriors.ALPHA  # of one cluster against two
    expected = odds / (1 + odds)
    found = [chain(points, seed, **TRUTH).k.get(1, 0.0) for seed in range(2)]
    error = np.sqrt(expected * (1 - expected) / (2 * posteriors.N_DRAWS))
    assert abs(np.mean(found) - expected) < 8 * error  # draws of a chain are correlated


def test_figures_of_posteriors_that_are_right_and_wrong() -> None:
    labels = np.array([0, 0, 1])
    right = Posterior(labels, {2: 1.0}, np.array([1.0, 0.0, 0.0]))
    wrong = Posterior(np.arange(3), {3: 1.0}, np.zeros(3))
    case = Case(np.zeros((3, 2)), 0, (labels,))
    of_right, of_wrong = (scored(case, one) for one in (right, wrong))
    assert (of_right["P(true K)"], of_right["Brier of pairs"], of_right["mean K"]) == (1.0, 0.0, 2.0)
    assert (of_wrong["P(true K)"], of_wrong["Brier of pairs"]) == (0.0, pytest.approx(1 / 3))
    assert total_variation({1: 0.25, 2: 0.75}, {1: 0.5, 2: 0.5}) == 0.25
