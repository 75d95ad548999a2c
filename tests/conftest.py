"""Settings that all tests share, and networks that were trained for a second."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings

# No deadline: how long an example takes depends on the machine. Derandomized: a run that passes
# passes again; new examples come with a change of the test.
settings.register_profile("clusterwise", deadline=None, derandomize=True)
settings.load_profile("clusterwise")

TINY_FLOW = {"n_flow_blocks": 2, "flow_width": 16, "n_context": 16}
TINY_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny-minimum-loss": ("dac", {"filtering": "minimum-loss", "n_decoder_blocks": 1}),
    "tiny-anchored": ("dac", {"filtering": "anchored", "n_anchors": 4, "n_decoder_blocks": 1}),
    "tiny-flow": (
        "dac",
        {"filtering": "anchored", "density": "flow", "n_anchors": 4, "n_decoder_blocks": 1, **TINY_FLOW},
    ),
    "tiny-without-density": ("dac", {"density": "none", "n_decoder_blocks": 1}),
    "tiny-act-st": ("act-st", {"k_max": 3, "n_decoder_blocks": 1}),
    "tiny-amcp": ("amcp", {"n_coordinates": 8, "revision": True}),
    "tiny-chigac": ("chigac", {"n_coordinates": 16, "n_hidden": 8, "n_summaries": 2, "n_inner_steps": 2}),
    "tiny-ncp": ("ncp", {"width": 32, "h_size": 16, "u_size": 16, "g_size": 16, "points_per_position": 2}),
}

if find_spec("torch") is None:  # `make test-without-torch`: what lacks torch, and nothing else, is skipped

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.failed and any(
            words in report.longreprtext
            for words in ("No module named 'torch'", "torch, which is not installed")
        ):
            report.outcome = "skipped"
            report.longrepr = (__file__, 0, "needs torch")
        return report

    pytest_runtest_makereport = pytest_make_collect_report


@pytest.fixture(scope="session")
def tiny_networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``<name>.safetensors`` for each of TINY_NETWORKS.

    Small and hardly trained, but they tell some clusters apart: good for promises that hold for any weights.
    Processes that run tests side by side share them: each is trained by the first that comes to it.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        folder = tmp_path_factory.mktemp("networks")
    else:
        folder = tmp_path_factory.getbasetemp().parent / "networks"
        folder.mkdir(exist_ok=True)
    names = list(TINY_NETWORKS)
    started = int((worker or "gw0").removeprefix("gw")) * len(names) // 2 % len(names)
    for name in names[started:] + names[:started]:  # the second process starts in the middle
        with FileLock(folder / f"{name}.lock"):
            if not (folder / f"{name}.safetensors").exists():
                _train_tiny(name, folder)
    return folder


def _train_tiny(name: str, folder: Path) -> None:
    from clusterwise.papers.methods import model_class
    from clusterwise.training import train  # torch: only for the tests that need it
    from clusterwise.training.recipe import recipe_from_dict

    method, options = TINY_NETWORKS[name]
    size = {"width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1}
    known = {field.name for field in dataclasses.fields(model_class(method).config_class)}
    own_size = {key: value for key, value in size.items() if key in known}
    steps = 150 if options.get("filtering") == "anchored" else 100  # before it sees more than one cluster
    recipe = {
        "name": name,
        "method": method,
        "seed": 1,
        "description": "a network for tests",
        "model": {"n_features": 2, "n_wavelengths": 4, **own_size, **options},
        "prior": {"name": "mixture-of-gaussians", "n_features": 2, "k_max": 4},
        "sizes": {"n_points": [64], "points_per_batch": 1024},
        "optimizer": {"steps": steps, "learning_rate": 0.005, "warm_up": 10, "average_decay": 0.95},
        "validation": {"every": 1000, "n_sets": 2, "n_points": 64},
    }
    train(recipe_from_dict(recipe), folder, verbose=False)
