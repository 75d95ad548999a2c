"""Compile what fits need, once, before anyone waits for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import numpy as np

__all__ = ["compile_backwards", "compiling_beside", "warm_up"]


def warm_up() -> None:
    """Fit a few small tables, so that all that the default method compiles is compiled and kept on disk."""
    from clusterwise import Clusterer

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody looks at these clusters
        for points in _tables():
            Clusterer(random_state=0).fit(points).predict(points)
    print(f"ready ({time.perf_counter() - started:.0f} s)")


def compile_backwards() -> None:
    """Compile what the default method needs, the last of it first; what is on disk is passed over."""
    from numba.core.sigutils import normalize_signature

    from clusterwise.cli.versions import VERSIONS

    gc.disable()  # compiling makes millions of small objects, and this process ends soon
    for module, function, types in reversed(VERSIONS):
        getattr(import_module(f"clusterwise.{module}"), function).compile(
            # the text itself would be another name on disk
            normalize_signature(types)[0]  # type: ignore[no-untyped-call]
        )


@contextmanager
def compiling_beside() -> Iterator[None]:
    """Where nothing has been compiled yet, let another process compile from the other end meanwhile.

    The first fit after an installation compiles its loops one after the other. The other process begins with
    the last of them, so that they meet half-way, however quick each of them is.
    """
    if _is_compiled():
        yield
        return
    gc.disable()  # see ``compile_backwards``; a tenth of the time
    try:
        if _n_cores() < 2:
            yield
            return
        command = [sys.executable, "-c", f"from {__name__} import compile_backwards; compile_backwards()"]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as other:
            try:
                yield
            finally:
                other.kill()  # what it has compiled is on disk
    finally:
        gc.enable()


def _n_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_compiled() -> bool:
    """Whether machine code of the default method is on disk; where it is kept is known to numba alone."""
    from clusterwise.trees.tree import _lay_out  # in a module that is imported quickly

    folder = _lay_out.stats.cache_path
    return folder is not None and any(Path(folder).glob("tree._lay_out-*.nbi"))


def _tables() -> list[np.ndarray]:
    """Gaussian clusters in few and many columns, bent clusters, and one cluster."""
    rng = np.random.default_rng(0)
    turns = np.pi * rng.random(150)
    arc = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    bent = np.concatenate([arc, [1.0, 0.4] - arc]) + 0.05 * rng.standard_normal((300, 2))
    centres = 5 * rng.standard_normal((4, 8))[rng.integers(0, 4, 300)]
    wide = centres + rng.standard_normal((300, 8))
    return [wide, wide[:, :3], bent, rng.standard_normal((200, 2))]
