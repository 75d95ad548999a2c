"""Training data that take long to make: made once, a few tables to a file, and kept on disk."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from clusterwise._files import whole_or_nothing

__all__ = ["TABLES_PER_SHARD", "make_shards", "read_shard"]

TABLES_PER_SHARD = 200


def make_shards(
    directory: Path,
    n_tables: int,
    make: Callable[[range], Mapping[str, np.ndarray]],
    verbose: bool,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Path] | None:
    """Files of all tables; those that are there already are left alone, so that an interrupted run goes on.

    ``make`` turns numbers of tables to arrays. None if it ``is_over`` before all are there.
    """
    numbers = [
        range(start, min(start + TABLES_PER_SHARD, n_tables))
        for start in range(0, n_tables, TABLES_PER_SHARD)
    ]
    paths = [directory / f"{of_shard.start // TABLES_PER_SHARD:05d}.npz" for of_shard in numbers]
    missing = [(path, of_shard) for path, of_shard in zip(paths, numbers, strict=True) if not path.exists()]
    started = time.monotonic()
    for done, (path, of_shard) in enumerate(missing):
        if is_over():
            return None
        arrays = make(of_shard)
        with whole_or_nothing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        if verbose:
            left = (time.monotonic() - started) / (done + 1) * (len(missing) - done - 1) / 60
            print(
                f"tables: {of_shard.stop:,} of {n_tables:,}  {left:.1f} min left", file=sys.stderr, flush=True
            )
    return paths


def read_shard(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file."""
    with np.load(path) as arrays:
        return dict(arrays)
