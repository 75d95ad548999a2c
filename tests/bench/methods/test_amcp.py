"""AMCP's entries: who is measured where, and that an ablation changes what it says and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.bench.methods.amcp import ABLATIONS, BASE, EM_STEPS, NETWORK_ALONE, with_em_steps
from clusterwise.bench.registry import METHODS, Case, discover

discover()
ENTRIES = [name for name in METHODS if name.startswith(("AMCP,", "AMCP*")) or name == "AMCP"]


def options_of(name: str) -> dict[str, Any]:
    """Arguments of the estimator behind an entry."""
    return {key: value for key, value in METHODS[name].build.keywords.items() if key != "as_printed"}


def test_ablations_are_not_for_everywhere() -> None:
    everywhere = {name for name in ENTRIES if METHODS[name].everywhere}
    assert everywhere == {"AMCP", "AMCP, as printed", "AMCP*, as printed"}
    assert set(ENTRIES) == everywhere | set(ABLATIONS)


@pytest.mark.parametrize("name", ENTRIES)
def test_the_estimator_takes_these_options(name: str) -> None:
    estimator = cw.AMCP(**options_of(name))
    estimator._validate_params()
    assert ("*" in name or name == "AMCP") == estimator.update
    for key, value in NETWORK_ALONE.items():
        assert (getattr(estimator, key) == value) or name == "AMCP"


def test_a_user_types_no_options() -> None:
    assert options_of("AMCP") == {"weights": "amcp-2d"}
    assert cw.AMCP()._default_weights() == "amcp-2d"


@pytest.mark.parametrize("name", ABLATIONS)
def test_an_ablation_changes_one_thing(name: str) -> None:
    base, changed = options_of(BASE), options_of(name)
    differences = {key: value for key, value in changed.items() if value != base[key]}
    assert differences == {key: value for key, value in ABLATIONS[name].items() if value != base[key]}
    assert len(differences) == {BASE: 0, "AMCP*, Sinkhorn, balanced": 2}.get(name, 1)
    assert changed.keys() == base.keys()


def test_all_numbers_of_em_steps_are_there() -> None:
    assert [options_of(with_em_steps(n))["n_em_steps"] for n in EM_STEPS] == [1, 2, 3, 4, 5]


class StandIn:
    """Two partitions: one from the network, one from what follows it."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def set_params(self, random_state: int) -> StandIn:
        return self

    def fit(self, points: np.ndarray) -> StandIn:
        self.network_labels_ = np.zeros(len(points), dtype=np.int64)
        self.labels_ = np.ones(len(points), dtype=np.int64)
        return self

    def score(self, points: np.ndarray) -> float:
        return -1.0


def test_only_the_default_call_is_judged_after_polishing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cw, "AMCP", StandIn, raising=False)
    for name in ENTRIES:
        outcome = METHODS[name].build()(Case(np.zeros((5, 2)), 0, None))
        assert (outcome.labels == (1 if name == "AMCP" else 0)).all()
