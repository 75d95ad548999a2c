"""One thread for work in small pieces, which take longer to share out than to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


class Pool(NamedTuple):
    """The threads of one library."""

    get: Callable[[], int]
    set: Callable[[int], None]


_kept: dict[int, list[Pool]] = {}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy, scipy, scikit-learn and torch work in one thread; also a decorator, ``@one_thread()``.

    If another process is busy, threads that wait for each other after every small step make it many times
    slower. Afterwards each library has as many threads as before. Torch is not imported for this; where it
    is imported inside, it keeps its threads until the next time.
    """
    changed = [(pool, n) for pool in _found_pools() if (n := pool.get()) > 1]
    try:
        for pool, _ in changed:
            pool.set(1)
        yield
    finally:
        for pool, n in changed:
            pool.set(n)


def _found_pools() -> list[Pool]:
    """The pools of all libraries that are loaded.

    Looking for them takes milliseconds, so they are kept until another module has been imported, which may
    have brought a BLAS or an OpenMP of its own.
    """
    n_modules = len(sys.modules)
    pools = _kept.get(n_modules)
    if pools is None:
        libraries = ThreadpoolController().lib_controllers
        pools = [Pool(library.get_num_threads, library.set_num_threads) for library in libraries]
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):  # not while a thread is importing it
            # First, for it also sets the threads of an OpenMP that is in the list on its own.
            pools.insert(0, Pool(torch.get_num_threads, torch.set_num_threads))
        _kept.clear()
        _kept[n_modules] = pools
    return pools
