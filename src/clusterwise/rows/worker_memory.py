"""Memory of dask's workers while one of our tasks runs.

dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, so that they give memory back to the system as soon
as they can. Then the C library maps every larger array anew, and each of its pages costs a fault when it is
first written to: a third of the time of a pass. Batches of one task are alike, and may use the same memory.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["memory_kept"]

SETTING = "MALLOC_TRIM_THRESHOLD_"
# Numbers of the settings in malloc.h of glibc, and their values: the largest that it takes for arrays of
# their own, and more free memory than a task ever leaves.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST_ARRAY, MAX_FREE = 32 * 2**20, 2**30
DEFAULT_THRESHOLD = 128 * 1024  # what both are otherwise


@contextmanager
def memory_kept() -> Iterator[None]:
    """Use memory again within a task, and give it back at its end; no change where dask has made none."""
    library, threshold = _library(), os.environ.get(SETTING, "")
    if library is None or not threshold.isdigit():
        yield
        return
    library.mallopt(TRIM_THRESHOLD, MAX_FREE)
    library.mallopt(MMAP_THRESHOLD, LARGEST_ARRAY)
    try:
        yield
    finally:
        library.mallopt(TRIM_THRESHOLD, int(threshold))
        library.mallopt(MMAP_THRESHOLD, DEFAULT_THRESHOLD)
        library.malloc_trim(0)


@cache
def _library() -> Any:
    """The C library, if it is glibc."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
