"""The shipped data set is the one that its script draws."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np

from clusterwise.datasets import load_demo

SCRIPT = Path(__file__).parents[1] / "recipes" / "make_demo_data.py"


def test_script_draws_the_shipped_data():
    script = runpy.run_path(str(SCRIPT))
    points, colonies = script["draw"](np.random.default_rng(script["SEED"]))
    X, y = load_demo()
    np.testing.assert_array_equal(X, points)
    np.testing.assert_array_equal(y, colonies)
    assert np.issubdtype(y.dtype, np.integer)


def test_callers_cannot_spoil_each_others_copy():
    X, _ = load_demo()
    X[:] = 0
    assert load_demo()[0].min() > 0
