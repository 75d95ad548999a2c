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


# Packages that bring a BLAS or an OpenMP of their own, as torch does; once loaded, they add to the pools.
BRINGERS = ("numpy", "scipy.linalg", "sklearn", "sknetwork", "ot")

_pools: dict[tuple[bool, ...], list[Pool]] = {}


@contextmanager
def one_thread() -> Iterator[None]:
    """Let numpy, scipy, scikit-learn and torch work in one thread; also a decorator, ``@one_thread()``.

    Beside another busy process, threads that wait for each other after every small step make it many times
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
    """The pools of all libraries that are loaded; looking for them takes milliseconds, so they are kept."""
    torch = sys.modules.get("torch")
    has_torch = hasattr(torch, "set_num_threads")  # not while another thread is importing it
    loaded = (has_torch, *[name in sys.modules for name in BRINGERS])
    if loaded not in _pools:
        libraries = ThreadpoolController().lib_controllers
        pools = [Pool(library.get_num_threads, library.set_num_threads) for library in libraries]
        if torch is not None and has_torch:
            # First, for it also sets the threads of an OpenMP that is in the list on its own.
            pools.insert(0, Pool(torch.get_num_threads, torch.set_num_threads))
        _pools[loaded] = pools
    return _pools[loaded]
