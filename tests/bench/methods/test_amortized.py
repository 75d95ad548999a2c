"""The rows of our networks: what each asks of its estimator, and which weights it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.bench.methods import amortized
from clusterwise.bench.methods.amcp import ABLATIONS, BASE, EM_STEPS, with_em_steps
from clusterwise.bench.methods.amortized import (
    FAMILIES,
    alone,
    find_weights,
    untrained,
    untrained_alone,
    weights_identity,
    with_search,
)
from clusterwise.bench.methods.chigac import AS_PRINTED
from clusterwise.bench.methods.lineup import NETWORKS, PEERS, TABLE
from clusterwise.bench.methods.ncp import ORDERS, with_orders
from clusterwise.bench.registry import METHODS, BenchmarkError, Case, discover

discover()
OURS = [
    name for name, method in METHODS.items() if getattr(method.build, "func", None) is amortized.amortized
]


def options_of(name: str) -> dict[str, Any]:
    """Arguments of the estimator behind an entry."""
    return METHODS[name].build.keywords


def is_trained(name: str) -> bool:
    return METHODS[name].build.args[2]


@pytest.mark.parametrize("name", OURS)
def test_the_estimator_takes_these_options(name: str) -> None:
    estimator, weights, _ = METHODS[name].build.args
    made = getattr(cw, estimator)(weights=find_weights(weights), **options_of(name))
    made._validate_params()  # raises where scikit-learn would refuse them in ``fit``
    assert made.get_params().items() >= options_of(name).items()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_rows_of_a_family_differ_in_one_thing(family: amortized.Family) -> None:
    name = family.name
    assert options_of(with_search(name)) == family.options | {"refine": "search"}
    assert options_of(untrained(name)) == options_of(with_search(name))
    assert options_of(alone(name)) == options_of(untrained_alone(name)) == family.options | {"refine": None}
    assert options_of(f"{alone(name)}, all rows") == options_of(alone(name)) | amortized.ALL_ROWS
    assert [is_trained(row(name)) for row in (alone, with_search, untrained, untrained_alone)] == [
        True, True, False, False,
    ]  # fmt: skip
    # A user who names no weights gets the same ones.
    assert getattr(cw, family.estimator)(**family.options)._default_weights() == family.weights


def test_the_table_has_the_same_rows_for_all_and_the_network_alone_first() -> None:
    for family in FAMILIES:
        places = [NETWORKS.index(row(family.name)) for row in (alone, untrained, with_search)]
        assert places == sorted(places)
    assert TABLE.count("GaussianSearch") == 1
    assert len(set(TABLE)) == len(TABLE)
    assert set(TABLE) <= set(METHODS)
    assert set(PEERS) < set(TABLE)


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_changes_one_thing(name: str) -> None:
    base, changed = options_of(BASE), options_of(name)
    differences = {key: value for key, value in changed.items() if value != base[key]}
    assert differences == {key: value for key, value in ABLATIONS[name].items() if value != base[key]}
    assert len(differences) == {BASE: 0, "AMCP*, Sinkhorn, balanced": 2}.get(name, 1)
    assert changed.keys() == base.keys()
    assert ("*" in name) == changed["update"]
    assert changed["refine"] is None


def test_other_loops_are_the_networks_own() -> None:
    assert [options_of(with_em_steps(n))["n_em_steps"] for n in EM_STEPS] == [1, 2, 3, 4, 5]
    assert [options_of(with_orders(n))["n_orders"] for n in ORDERS] == [1, 10, 50]
    for name in (*map(with_orders, ORDERS), AS_PRINTED):
        assert options_of(name)["refine"] is None
        assert options_of(name)["max_network_points"] >= 10_000
    assert options_of(AS_PRINTED)["stop"] == "empty"


def three_blobs() -> Case:
    rng = np.random.default_rng(3)
    points = rng.normal(size=(150, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 50, axis=0)
    return Case(points, 5, None)


@pytest.mark.parametrize("refine", ["search", None])
def test_outcomes_are_the_estimators(refine: str | None) -> None:
    case = three_blobs()
    outcome = amortized.amortized("AMCP", "amcp-2d", refine=refine)(case)
    estimator = cw.AMCP(refine=refine, random_state=5).fit(case.points)
    np.testing.assert_array_equal(outcome.labels, estimator.labels_)
    assert outcome.log_likelihood is not None
    assert outcome.log_likelihood() == pytest.approx(estimator.score(case.points))


def test_an_untrained_network_is_another_one() -> None:
    case, weights = three_blobs(), "amcp-2d"
    trained, control = (
        amortized.amortized("AMCP", weights, is_it, refine=None)(case) for is_it in (True, False)
    )
    assert not np.array_equal(trained.labels, control.labels)
    assert weights_identity(weights) + ", untrained" == weights_identity(weights, trained=False)


def test_weights_for_comparisons_are_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_weights("amcp-2d") == "amcp-2d"
    assert Path(find_weights("ncp-2d-mog")).is_file()
    assert weights_identity("ncp-2d-mog").startswith("ncp-2d-mog ")
    monkeypatch.setattr(amortized, "CHECKOUT", tmp_path)
    with pytest.raises(BenchmarkError, match="run this from a checkout"):
        find_weights("ncp-2d-mog")


def test_the_search_needs_no_network() -> None:
    outcome = METHODS["GaussianSearch"].build()(three_blobs())
    assert len(np.unique(outcome.labels)) == 3
    assert outcome.log_likelihood is not None
    assert np.isfinite(outcome.log_likelihood())
