"""What is not asked for is not loaded: torch takes seconds to import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import clusterwise as cw
from clusterwise import estimators
from clusterwise.estimators import ESTIMATORS


def loaded_by(code: str) -> set[str]:
    """Return the names of the modules that a new process has loaded after this code."""
    lines = f"import sys, clusterwise as cw\n{code}\nsys.stderr.write('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    return set(done.stderr.split("\n"))


def estimator_modules(loaded: set[str]) -> set[str]:
    return loaded & set(ESTIMATORS.values())


def test_the_front_door_loads_nothing_heavy() -> None:
    loaded = loaded_by("")
    assert not {"torch", "sklearn", "scipy", "numpy"} & loaded
    assert not estimator_modules(loaded)


@pytest.mark.parametrize(
    ("name", "options"), [("DPMixture", {"n_warm_up": 5, "n_draws": 5}), ("GaussianSearch", {})]
)
def test_estimators_without_a_network_do_without_torch(name: str, options: dict[str, int]) -> None:
    points = "np.random.default_rng(0).normal(size=(30, 2))"
    code = f"import numpy as np; cw.{name}(random_state=0, **{options}).fit({points})"
    # Whether the chains of so small a fit converge is not the question.
    loaded = loaded_by(f"import warnings; warnings.simplefilter('ignore'); {code}")
    assert "torch" not in loaded
    assert estimator_modules(loaded) == {ESTIMATORS[name]}


EACH_ALONE = """
import json
import sys

loaded = {}
for name in sys.argv[1:]:
    for module in [module for module in sys.modules if module.partition(".")[0] == "clusterwise"]:
        del sys.modules[module]
    import clusterwise as cw

    getattr(cw, name)()
    loaded[name] = [m for m in sys.modules if m.startswith("clusterwise.") and m.endswith("estimator")]
sys.stderr.write(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded_by_each() -> dict[str, set[str]]:
    """The estimators' modules that each estimator loads, when nothing of clusterwise was there before.

    One process asks for all of them: what is imported again is this package, not torch.
    """
    command = [sys.executable, "-c", EACH_ALONE, *ESTIMATORS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: set(modules) for name, modules in json.loads(done.stderr).items()}


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_an_estimator_does_not_load_the_others(name: str, loaded_by_each: dict[str, set[str]]) -> None:
    assert estimator_modules(loaded_by_each[name]) == {ESTIMATORS[name]}


def test_weights_load_the_network_of_their_method_alone() -> None:
    loaded = loaded_by("cw.pretrained.get_weights('dac-anchored-2d')")
    assert "clusterwise.papers.dac" in loaded
    others = {f"clusterwise.papers.{method}" for method in ("amcp", "act_st", "chigac", "ncp")}
    assert not others & loaded


def test_words_about_weights_and_commands_need_no_torch() -> None:
    parts = [
        "assert cw.list_weights()",
        "[cw.pretrained.describe(name) for name in cw.list_weights()]",
        "from clusterwise.cli.app import app; app(['models'], standalone_mode=False)",
        "from clusterwise.cli.app import app; app(['cluster', '--help'], standalone_mode=False)",
    ]
    # Once torch is there it stays: one process shows for all of them that none brings it, and which one does.
    code = "\n".join(f"{part}\nassert 'torch' not in sys.modules, {part!r}" for part in parts)
    assert "torch" not in loaded_by(code)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_every_estimator_is_at_the_front_door(name: str) -> None:
    assert name in cw.__all__
    assert name in estimators.__all__
    assert getattr(cw, name) is getattr(estimators, name)
    assert getattr(cw, name).__module__ == ESTIMATORS[name]


def test_other_names_are_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'clusterwise' has no attribute 'KMeans'"):
        _ = cw.KMeans
    with pytest.raises(AttributeError, match=r"module 'clusterwise\.estimators' has no attribute 'KMeans'"):
        _ = estimators.KMeans
