"""Compile what fits need, once, before anyone waits for it."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import typer

__all__ = ["compile_search", "compiling_beside", "warm_up"]


def warm_up() -> None:
    """Fit a few small tables, so that all that the default method compiles is compiled and kept on disk."""
    from clusterwise import Clusterer

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody looks at these clusters
        for points in _tables():
            Clusterer(random_state=0).fit(points).predict(points)
    typer.echo(f"ready ({time.perf_counter() - started:.0f} s)")


def compile_search() -> None:
    """Compile what comes late in a fit of the default method: the search, and then communities."""
    from sklearn.neighbors import kneighbors_graph

    from clusterwise import GaussianSearch
    from clusterwise.trees.communities import leiden

    points = _tables()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GaussianSearch(random_state=0).fit(points)
    graph = kneighbors_graph(points, 5)
    leiden(graph + graph.T, 1.0)


@contextmanager
def compiling_beside() -> Iterator[None]:
    """Where nothing has been compiled yet, let another process compile the second half meanwhile.

    The first fit after an installation compiles its loops one after the other, trees first. When it comes to
    the search it finds that on disk.
    """
    if joblib.cpu_count() < 2 or _is_compiled():
        yield
        return
    command = [sys.executable, "-c", f"from {__name__} import compile_search; compile_search()"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as other:
        try:
            yield
        finally:
            other.kill()  # what it has compiled is on disk


def _is_compiled() -> bool:
    """Whether machine code of the search is on disk; where it is kept is known to numba alone."""
    from clusterwise.search.em import expect

    folder = expect.stats.cache_path
    return folder is not None and any(Path(folder).glob("em.expect-*.nbi"))


def _tables() -> list[np.ndarray]:
    """Gaussian clusters in few and many columns, bent clusters, and one cluster."""
    rng = np.random.default_rng(0)
    turns = np.pi * rng.random(150)
    arc = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    bent = np.concatenate([arc, [1.0, 0.4] - arc]) + 0.05 * rng.standard_normal((300, 2))
    centres = 5 * rng.standard_normal((4, 8))[rng.integers(0, 4, 300)]
    wide = centres + rng.standard_normal((300, 8))
    return [wide, wide[:, :3], bent, rng.standard_normal((200, 2))]
