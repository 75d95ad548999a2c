"""Compile what fits need, once, before anyone waits for it."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

__all__ = ["OTHERS", "warm_up"]

# Fits that compile what the default method does without.
OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("AMCP", {}),
    ("DAC", {}),
    ("DAC", {"weights": "dac-warped-2d"}),
    ("ACTST", {}),
    ("NCP", {}),
    ("CHiGac", {}),
    ("DPMixture", {"n_draws": 2}),
    ("GaussianSearch", {}),
)


def warm_up(everything: bool = False) -> None:
    """Fit small tables, so that what the default method compiles, or ``everything``, is kept on disk."""
    import clusterwise

    started = time.perf_counter()
    tables = _tables()
    fits: list[tuple[str, dict[str, Any], np.ndarray]] = [("Clusterer", {}, points) for points in tables]
    fits += [(name, options, tables[2]) for name, options in OTHERS if everything]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody looks at these clusters
        for name, options, points in fits:
            getattr(clusterwise, name)(random_state=0, **options).fit(points).predict(points)
    print(f"ready ({time.perf_counter() - started:.0f} s)")


def _tables() -> list[np.ndarray]:
    """Gaussian clusters in few and many columns, bent clusters, and one cluster."""
    rng = np.random.default_rng(0)
    turns = np.pi * rng.random(150)
    arc = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    bent = np.concatenate([arc, [1.0, 0.4] - arc]) + 0.05 * rng.standard_normal((300, 2))
    centres = 5 * rng.standard_normal((4, 8))[rng.integers(0, 4, 300)]
    wide = centres + rng.standard_normal((300, 8))
    return [wide, wide[:, :3], bent, rng.standard_normal((200, 2))]
