"""The rows of our networks: what each asks of its estimator, and which weights it takes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from benchmarks import ours
from benchmarks.ours import (
    FAMILIES,
    OURS,
    Family,
    alone,
    configured,
    estimator,
    find_weights,
    untrained_alone,
    weights_identity,
)  # fmt: skip
from benchmarks.suite import BenchmarkError, Case, Method
from benchmarks.suites.mixtures import AS_PRINTED, METHODS, NETWORKS, ORDERS, TABLE


def build_of(method: Method) -> partial[Any]:
    assert isinstance(method.build, partial)
    return method.build


def options_of(name: str) -> dict[str, Any]:
    """Arguments of the estimator behind a row."""
    return build_of(METHODS[name]).keywords


def test_the_estimators_take_these_options() -> None:
    for name, method in METHODS.items():
        if method.group == "networks":
            kind, weights, _ = build_of(method).args
            options = dict(options_of(name))
            of_network = options.pop("network", {})  # of its configuration
            made = getattr(cw, kind)(weights=find_weights(weights), **options)
            made._validate_params()  # raises where scikit-learn would refuse them in ``fit``
            assert made.get_params().items() >= options.items()
            config = configured(made._weights(), of_network).model.config
            assert vars(config).items() >= of_network.items()


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_rows_of_a_family_differ_in_one_thing(family: Family) -> None:
    name = family.name
    assert options_of(alone(name)) == options_of(untrained_alone(name)) == family.options
    assert options_of(f"{alone(name)}, all rows") == options_of(alone(name)) | ours.ALL_ROWS
    assert [build_of(OURS[row(name)]).args[2] for row in (alone, untrained_alone)] == [True, False]
    assert [OURS[row(name)].kind for row in (alone, untrained_alone)] == ["ours", "control"]
    # A user who names no weights gets the same ones.
    assert getattr(cw, family.estimator)(**family.options)._default_weights() == family.weights
    places = [NETWORKS.index(row(name)) for row in (alone, untrained_alone)]
    assert places == sorted(places) and len(set(TABLE)) == len(TABLE)


def test_other_loops_are_the_networks_own() -> None:
    assert [options_of(name)["n_orders"] for name in ORDERS] == [1, 10, 50]
    for name in (*ORDERS, AS_PRINTED):
        assert options_of(name)["max_network_points"] >= 10_000
    assert options_of(AS_PRINTED)["network"]["stop"] == "empty"


@pytest.fixture(scope="module")
def blobs() -> Case:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(150, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 50, axis=0)
    return Case(points, 5)


def test_outcomes_are_the_estimators(blobs: Case) -> None:
    outcome = estimator("AMCP", "amcp-2d")(blobs)
    model = cw.AMCP(random_state=5).fit(blobs.points)
    np.testing.assert_array_equal(outcome.labels, model.labels_)
    assert outcome.log_likelihood is not None
    assert outcome.log_likelihood() == pytest.approx(model.score(blobs.points))


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
def test_an_untrained_network_is_another_one(blobs: Case) -> None:
    trained, control = (estimator("AMCP", "amcp-2d", is_it)(blobs) for is_it in (True, False))
    assert not np.array_equal(trained.labels, control.labels)
    assert weights_identity("amcp-2d") + ", untrained" == weights_identity("amcp-2d", trained=False)


def test_weights_that_nobody_has_are_an_error() -> None:
    assert find_weights("amcp-2d") == "amcp-2d"
    with pytest.raises(BenchmarkError, match="train them"):
        find_weights("amcp-3d")
