"""Every estimator is a method of the command line, and takes the options that it has parameters for."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import clusterwise as cw
from clusterwise import ESTIMATORS
from clusterwise.cli.choices import (
    METHODS,
    Filtering,
    Projection,
    Scaling,
    choose_method,
    make_estimator,
)
from clusterwise.exceptions import ClusterwiseError

AMORTIZED = ["amcp", "dac", "act-st", "ncp", "chigac"]
OWN_FIT = ["clusterer", "dp-mixture", "deep-dpm", "gaussian-search"]


def test_names():
    assert sorted(METHODS) == sorted(AMORTIZED + OWN_FIT)
    assert sorted(METHODS.values()) == sorted(ESTIMATORS)


def test_default_suits_the_table():
    assert choose_method(None, {}) == "clusterer"
    assert choose_method(None, {"project": Projection.PCA}) == "amcp"
    assert choose_method(None, {"filtering": Filtering.ANCHORED}) == "dac"
    assert choose_method("ncp", {}) == "ncp"


@pytest.mark.parametrize("method", [*AMORTIZED, *OWN_FIT])
def test_every_method_does_what_its_estimator_does(run, data, method):
    options = ["--columns", "x,y", "--method", method, "--seed", 4, "--raw", "--out", "labels.npy"]
    result = run("cluster", data, *options)
    assert result.exit_code == 0, result.output
    estimator = getattr(cw, METHODS[method])(random_state=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of two heaps need not agree on their k
        labels = estimator.fit_predict(pd.read_csv(data)[["x", "y"]].to_numpy())
    np.testing.assert_array_equal(np.load("labels.npy"), labels)
    head = result.stdout.splitlines()[0]
    assert f"({METHODS[method]}, " in head
    assert "None" not in head


@pytest.mark.parametrize("method", AMORTIZED)
def test_options_of_the_amortized_methods(method):
    options = {"weights": "none", "project": Projection.PCA, "scaling": Scaling.FEATURE, "filtering": None}
    estimator = make_estimator(method, 3, options)
    assert (estimator.weights, estimator.projection, estimator.scaling) == ("none", "pca", "feature")
    assert estimator.random_state == 3
    defaults = make_estimator(method, 3, dict.fromkeys(options)).get_params()
    assert defaults == type(estimator)(random_state=3).get_params()


def test_filtering_is_for_dac_alone():
    assert make_estimator("dac", 0, {"filtering": Filtering.ANCHORED}).filtering == "anchored"
    with pytest.raises(ClusterwiseError, match=r"--filtering is not an option of amcp; .* takes it: dac\.$"):
        make_estimator("amcp", 0, {"filtering": Filtering.ANCHORED})


@pytest.mark.parametrize("method", OWN_FIT)
@pytest.mark.parametrize(("option", "value"), [("--weights", "amcp-2d"), ("--project", "pca")])
def test_options_about_networks_do_not_apply_without_one(run, data, method, option, value):
    result = run("cluster", data, "--columns", "x,y", "--method", method, option, value)
    assert result.exit_code == 2
    assert result.stderr == (
        f"error: {option} is not an option of {method}; leave it out, or choose a --method that takes it: "
        "amcp, dac, act-st, ncp, chigac.\n"
    )


def test_scaling_where_the_estimator_scales():
    assert make_estimator("deep-dpm", 0, {"scaling": Scaling.JOINT}).scaling == "joint"
    assert make_estimator("deep-dpm", 0, {"scaling": None}).scaling == "pareto"
    with pytest.raises(ClusterwiseError, match="--scaling is not an option of dp-mixture"):
        make_estimator("dp-mixture", 0, {"scaling": Scaling.JOINT})
