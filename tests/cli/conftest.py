"""A folder to work in, a small file of data, and networks that were hardly trained."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from clusterwise.cli.app import app

RECIPE = """
name = "tiny"
method = "{method}"
description = "hardly trained"

[model]
width = 8
n_heads = 2
n_inducing = 4

[prior]
name = "mixture-of-gaussians"
k_max = 3

[sizes]
n_points = [32]
points_per_batch = 64

[optimizer]
steps = {steps}
warm_up = 2

[validation]
every = 100
n_sets = 2
n_points = 32
"""


@pytest.fixture(scope="session")
def make_weights(tmp_path_factory):
    """Return a maker of weights files by method."""
    from clusterwise.training import train

    folder = tmp_path_factory.mktemp("weights")

    def make(method: str) -> str:
        path = folder / method / "tiny.safetensors"
        if not path.exists():
            recipe = folder / f"{method}.toml"
            recipe.write_text(RECIPE.format(method=method, steps=20))
            train(recipe, path.parent, verbose=False)
        return str(path)

    return make


@pytest.fixture
def recipe(folder):
    """A recipe in the working folder that takes a second."""
    path = folder / "tiny.toml"
    path.write_text(RECIPE.format(method="dac", steps=5))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(folder):
    """Two heaps of points in a csv file with a text column."""
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [900.0, 400.0]], 30, axis=0) + rng.normal(0, 30, (60, 2))
    lines = [f"{x},{y},nest {i}" for i, (x, y) in enumerate(points)]
    path = folder / "data.csv"
    path.write_text("\n".join(["x,y,name", *lines]) + "\n")
    return path


@pytest.fixture
def run(folder):
    """Run the command line in the working folder."""

    def call(*arguments: object):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call
