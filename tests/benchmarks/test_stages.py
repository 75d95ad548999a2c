"""The clock around the stages of a fit: nothing is lost, nothing changes."""

from __future__ import annotations

import time

import numpy as np

import clusterwise as cw
from benchmarks.stages import REST, STAGES, by_stages, stage_seconds
from benchmarks.suite import Case


def test_stages_add_up_and_the_fit_is_the_same() -> None:
    points = np.random.default_rng(0).normal(size=(200, 2)) + np.repeat([[0.0, 0.0], [9.0, 0.0]], 100, axis=0)
    expected = cw.AMCP(random_state=0).fit_predict(points)
    model = cw.AMCP(random_state=0)
    started = time.perf_counter()
    seconds = stage_seconds(model, points)
    whole = time.perf_counter() - started
    assert list(seconds) == [*STAGES, REST]
    assert all(value > 0 for value in seconds.values())
    assert 0.5 * whole < sum(seconds.values()) <= whole
    np.testing.assert_array_equal(model.labels_, expected)
    assert "_pipeline" not in vars(model)
    outcome = by_stages("AMCP")(Case(points))
    np.testing.assert_array_equal(outcome.labels, expected)
    assert outcome.more is not None
    assert list(outcome.more()) == [*STAGES, REST]
