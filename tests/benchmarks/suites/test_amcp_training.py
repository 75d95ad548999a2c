"""The ladder from AMCP as printed to AMCP as shipped: each rung is one change, and each can be trained."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.suites.amcp_training import ENTRIES, FULL, trained, weights_of
from benchmarks.suites.mixtures import ABLATION_SETS

LADDER = [name for name in ENTRIES if name[0].isdigit()]
DEFAULTS = {"first_cluster": "learned", "update": True, "revision": False, "merged_share": 0.25}


def choices(name: str) -> dict[str, object]:
    model, loop = ENTRIES[name]
    return {**DEFAULTS, **model, **loop}


@pytest.mark.parametrize(("lower", "upper"), list(pairwise(LADDER)))
def test_a_rung_changes_one_thing(lower: str, upper: str) -> None:
    one, other = choices(lower), choices(upper)
    changed = {key for key in one | other if one.get(key) != other.get(key)}
    # The last rung is revision: a part of the network, and of the states in training.
    assert len(changed) == 1 or (upper == FULL and changed == {"merged_share", "revision"})


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
@pytest.mark.parametrize("name", [LADDER[0], FULL, "as shipped, but Sinkhorn"])
def test_entries_can_be_trained(name: str) -> None:
    case = ABLATION_SETS["crp (200, 4)"](0)
    run = trained(2, name)
    n_trained = weights_of.cache_info().misses
    assert run(case.blind()).labels.shape == (200,)
    options = ENTRIES[name][0]
    config = weights_of(2, tuple(sorted(options.items()))).model.config
    assert all(getattr(config, key) == value for key, value in options.items())
    assert weights_of.cache_info().misses == n_trained  # the clock does not see the training
