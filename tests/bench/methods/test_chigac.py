"""CHiGac's entries: their options, and where they are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.bench.registry import METHODS, Case, discover

discover()
ENTRIES = [name for name in METHODS if name.startswith("CHiGac")]


def options_of(name: str) -> dict[str, Any]:
    """Arguments of the estimator behind an entry."""
    return {key: value for key, value in METHODS[name].build.keywords.items() if key != "as_printed"}


@pytest.mark.parametrize("name", ENTRIES)
def test_the_estimator_takes_these_options(name: str) -> None:
    estimator = cw.CHiGac(**options_of(name))
    estimator._validate_params()
    assert estimator.merge == (name == "CHiGac")
    assert (estimator.stop == "empty") == (name == "CHiGac, as printed") == (estimator.recentre == 0)


def test_who_is_measured_everywhere() -> None:
    assert [name for name in ENTRIES if METHODS[name].everywhere] == ["CHiGac", "CHiGac, as printed"]


@pytest.mark.parametrize("name", ENTRIES)
def test_as_printed_is_what_the_loop_left(name: str, tiny_networks: Path) -> None:
    points = np.random.default_rng(3).normal(size=(60, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 20, axis=0)
    weights = tiny_networks / "tiny-chigac.safetensors"
    method = METHODS[name].build.func
    keywords = {**METHODS[name].build.keywords, "weights": weights}
    outcome = method(*METHODS[name].build.args, **keywords)(Case(points, 5, None))
    estimator = cw.CHiGac(**{**options_of(name), "weights": weights, "random_state": 5}).fit(points)
    expected = estimator.labels_ if name == "CHiGac" else estimator.network_labels_
    np.testing.assert_array_equal(outcome.labels, expected)
    assert outcome.log_likelihood is not None
    assert np.isfinite(outcome.log_likelihood())
