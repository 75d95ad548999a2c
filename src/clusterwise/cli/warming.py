"""Compile what fits need, once, before anyone waits for it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["compile_backwards", "compiling_beside", "warm_up"]

# Fits that compile what the default method does without; the longest comes first.
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("AMCP", {"refine": None}),
    ("AMCP", {}),
    ("DAC", {"weights": "dac-warped-2d"}),
    ("DPMixture", {"n_draws": 2}),
    ("GaussianSearch", {}),
    *((name, {}) for name in ("DAC", "ACTST", "NCP", "CHiGac")),
)


def warm_up(everything: bool = False) -> None:
    """Fit a few small tables, so that all that the default method compiles is compiled and kept on disk.

    ``everything``: then what the other methods compile, in one process for each core.
    """
    started = time.perf_counter()
    for points in _tables():
        _fit_quietly("Clusterer", {}, points)
    if everything:
        processes = get_context("spawn")  # torch has threads, which a fork would not survive
        with ProcessPoolExecutor(min(_n_cores(), len(OTHERS)), processes) as pool:
            for done in [pool.submit(_fit_quietly, *each, _tables()[2]) for each in OTHERS]:
                done.result()
    print(f"ready ({time.perf_counter() - started:.0f} s)")


def _fit_quietly(name: str, options: dict[str, Any], points: np.ndarray) -> None:
    import clusterwise

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody looks at these clusters
        getattr(clusterwise, name)(random_state=0, **options).fit(points).predict(points)


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
    from clusterwise.clusterer.tree import _lay_out  # in a module that is imported quickly

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
