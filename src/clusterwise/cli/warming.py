"""Compile what fits need, once, before anyone waits for it."""

from __future__ import annotations

import time
import warnings

import numpy as np
import typer

__all__ = ["warm_up"]


def warm_up() -> None:
    """Fit a few small tables, so that all that the default method compiles is compiled and kept on disk."""
    from clusterwise import Clusterer

    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody looks at these clusters
        for points in _tables():
            Clusterer(random_state=0).fit(points).predict(points)
    typer.echo(f"ready ({time.perf_counter() - started:.0f} s)")


def _tables() -> list[np.ndarray]:
    """Gaussian clusters in few and many columns, bent clusters, and one cluster."""
    rng = np.random.default_rng(0)
    turns = np.pi * rng.random(150)
    arc = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    bent = np.concatenate([arc, [1.0, 0.4] - arc]) + 0.05 * rng.standard_normal((300, 2))
    centres = 5 * rng.standard_normal((4, 8))[rng.integers(0, 4, 300)]
    wide = centres + rng.standard_normal((300, 8))
    return [wide, wide[:, :3], bent, rng.standard_normal((200, 2))]
