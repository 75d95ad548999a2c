"""Rows that need not fit in memory: files, mapped arrays, and collections on other machines.

``source`` says what a source is and runs the batches of one machine, ``arrow`` and ``dask_rows`` are its
kinds that need a package, and ``batches`` turns batches into numbers and chooses rows of them.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from clusterwise._extras import import_extra
from clusterwise.rows.arrow import ArrowSource, open_parquet
from clusterwise.rows.source import ArraySource, Batch, RowSource

__all__ = ["ArraySource", "Batch", "RowSource", "as_source", "map_sets"]

# Arrays in files with fewer numbers are read whole: then they give what the same array in memory gives.
MIN_MAPPED = 1_000_000
# Packages whose collections are sources, and the module that says how.
COLLECTIONS = {"dask": "clusterwise.rows.dask_rows"}


def as_source(X: Any, always: bool = False) -> RowSource | None:
    """X as a source of rows if it is one that need not fit in memory; None for all else.

    With ``always`` arrays in memory are sources, too.
    """
    kind = type(X)
    if kind is np.ndarray or kind is list:
        return ArraySource(X) if always else None
    if isinstance(X, RowSource):
        return X
    if kind is np.memmap:
        large = X.ndim == 2 and X.size >= MIN_MAPPED and X.dtype.kind == "f"
        return ArraySource(X) if large else None
    if isinstance(X, (str, Path)):
        path = Path(X)
        return open_parquet(path) if path.is_dir() or path.suffix.lower() in (".parquet", ".pq") else None
    package = kind.__module__.partition(".")[0]
    if package == "pyarrow" and isinstance(X, import_extra("pyarrow.dataset", "datasets").Dataset):
        return ArrowSource(X)
    if package in COLLECTIONS:
        source: RowSource | None = import_module(COLLECTIONS[package]).as_source(X)
        return source
    return None


def map_sets(Xs: Any, function: Callable[..., list[Any]], n_jobs: int | None = None) -> Any:
    """What ``function`` makes of a list of data sets; of a collection of them, where they are.

    With ``n_jobs`` processes each gets a part of the list, and the number of its first data set.
    """
    package = type(Xs).__module__.partition(".")[0]
    if package in COLLECTIONS:
        return import_module(COLLECTIONS[package]).map_sets(Xs, function)
    sets = list(Xs)
    edges = np.linspace(0, len(sets), min(effective_n_jobs(n_jobs), max(1, len(sets))) + 1).astype(int)
    if len(edges) == 2:
        return function(sets)
    tasks = (delayed(_with_warnings)(function, sets[i:j], i) for i, j in itertools.pairwise(edges.tolist()))
    found = Parallel(len(edges) - 1)(tasks)
    for warning in (warning for _, warned in found for warning in warned):
        warnings.warn(warning, stacklevel=3)
    return [one for results, _ in found for one in results]


def _with_warnings(function: Callable[..., list[Any]], sets: list[Any], first: int) -> tuple[Any, list[Any]]:
    """Results and warnings of a process, which has nowhere else to warn."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = function(sets, first)
    return results, [one.message for one in caught]
