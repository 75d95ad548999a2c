"""What is not asked for is not loaded: torch takes seconds to import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import clusterwise as cw
from clusterwise import ESTIMATORS

# What may be done without torch, one after the other in one process, and what has been loaded after each.
WITHOUT_TORCH = {
    "import": "import clusterwise as cw",
    "words about weights": "assert all(cw.pretrained.describe(name) for name in cw.list_weights())",
    "search": "cw.GaussianSearch(random_state=0).fit(X)",
    "chains": "cw.DPMixture(n_warm_up=5, n_draws=5, random_state=0).fit(X)",
    "command": "from clusterwise.cli.app import app; app(['models'], standalone_mode=False)",
    "help": "app(['cluster', '--help'], standalone_mode=False)",
}
EACH_STEP = """
import json, sys, warnings
warnings.simplefilter("ignore")  # whether the chains of so small a fit converge is not the question
found = {}
for name, code in json.loads(sys.argv[1]).items():
    exec(code, globals())
    found[name] = sorted(sys.modules)
    if name == "import":
        import numpy as np
        X = np.random.default_rng(0).normal(size=(30, 2))
sys.stderr.write(json.dumps(found))
"""
EACH_ALONE = """
import json, sys
found = {}
for code in sys.argv[1:]:
    for module in [module for module in sys.modules if module.partition(".")[0] == "clusterwise"]:
        del sys.modules[module]
    import clusterwise as cw
    eval(code)
    found[code] = [module for module in sys.modules if module.startswith("clusterwise.")]
sys.stderr.write(json.dumps(found))
"""
OF_WEIGHTS = "cw.pretrained.get_weights('dac-anchored-2d')"


def loaded_by(code: str, *arguments: str) -> dict[str, set[str]]:
    """The modules that a new process has loaded after each of its steps."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    return {name: set(modules) for name, modules in json.loads(done.stderr).items()}


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    loaded = loaded_by(EACH_STEP, json.dumps(WITHOUT_TORCH))
    assert not {"torch", "sklearn", "scipy", "numpy", *ESTIMATORS.values()} & loaded["import"]
    for name, modules in loaded.items():
        assert "torch" not in modules, name


@pytest.fixture(scope="module")
def loaded_by_each() -> dict[str, set[str]]:
    """Our modules that each estimator loads, when nothing of ours was there before: torch stays."""
    pytest.importorskip("torch")
    return loaded_by(EACH_ALONE, *(f"cw.{name}()" for name in ESTIMATORS), OF_WEIGHTS)


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_an_estimator_is_at_the_front_door_and_does_not_load_the_others(
    name: str, loaded_by_each: dict[str, set[str]]
) -> None:
    assert name in cw.__all__
    assert getattr(cw, name).__module__ == ESTIMATORS[name]
    assert loaded_by_each[f"cw.{name}()"] & set(ESTIMATORS.values()) == {ESTIMATORS[name]}


def test_weights_load_the_network_of_their_method_alone(loaded_by_each: dict[str, set[str]]) -> None:
    loaded = loaded_by_each[OF_WEIGHTS]
    assert any(module.startswith("clusterwise.papers.dac") for module in loaded)
    others = tuple(f"clusterwise.papers.{method}" for method in ("amcp", "act_st", "chigac", "ncp"))
    assert not [module for module in loaded if module.startswith(others)]


def test_other_names_are_an_error() -> None:
    with pytest.raises(AttributeError, match="module 'clusterwise' has no attribute 'KMeans'"):
        _ = cw.KMeans


def test_what_needs_torch_says_so_where_it_is_absent() -> None:
    """In a process of its own, where torch cannot be found."""
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError('No module named torch', name='torch')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import numpy as np, clusterwise as cw\n"
        "X = np.random.default_rng(0).standard_normal((60, 2))\n"
        "for name in ('Clusterer', 'GaussianSearch', 'DPMixture'):\n"
        "    print(getattr(cw, name)(random_state=0).fit(X).n_clusters_ >= 1)\n"
        "print(len([cw.pretrained.describe(name) for name in cw.list_weights()]) > 5)\n"
        "for name in ('AMCP', 'DeepDPM', 'train'):\n"
        "    try:\n"
        "        getattr(cw, name)\n"
        "    except cw.exceptions.MissingDependencyError as error:\n"
        "        print(error)\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert lines[:4] == ["True"] * 4, run.stderr
    expected = "needs torch, which is not installed; run: pip install 'clusterwise[networks]'"
    assert lines[4:] == [f"clusterwise.{name} {expected}" for name in ("AMCP", "DeepDPM", "train")]
