"""What goes on around a fit: threads of libraries and of our own, and one that says how far it is."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = [
    "Progress",
    "bar",
    "in_threads",
    "n_threads",
    "one_thread",
    "progress_of",
    "redirected",
    "use_threads",
]

Item = TypeVar("Item")
Result = TypeVar("Result")
# Gets what is being done, how many steps or rows of it are done, and how many there are altogether.
Progress = Callable[[str, int, int], object]
SECONDS_BETWEEN = 2.0
WIDTH = 20


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


# -- pieces of our own work ------------------------------------------------------------------------

# Threads do not inherit it: what a piece of work shares out in turn is done in its own thread.
_n_threads: ContextVar[int] = ContextVar("n_threads", default=1)


@contextmanager
def use_threads(n_jobs: int | None) -> Iterator[None]:
    """Let ``in_threads`` use this many threads inside: None is one, -1 one for each core, as everywhere."""
    n = 1 if n_jobs is None else n_jobs
    token = _n_threads.set(n if n > 0 else max(1, (os.cpu_count() or 1) + 1 + n))
    try:
        yield
    finally:
        _n_threads.reset(token)


def n_threads() -> int:
    """Threads that there are for pieces of work."""
    return _n_threads.get()


def in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function's results for all items, in their order: the same however many threads share the work."""
    items = list(items)
    n = min(_n_threads.get(), len(items))
    if n <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(function, items))


# -- how far a fit is, every two seconds ------------------------------------------------------------


def bar(done: int, total: int) -> str:
    """A bar of characters.

    Examples
    --------
    >>> bar(1, 4)
    '[#####...............]'
    """
    n_full = round(WIDTH * min(done, total) / max(total, 1))
    return f"[{'#' * n_full}{'.' * (WIDTH - n_full)}]"


_callback: ContextVar[Progress | None] = ContextVar("callback", default=None)


@contextmanager
def redirected(callback: Progress) -> Iterator[None]:
    """Let ``callback`` have the progress of all fits inside, in place of lines that are printed."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@contextmanager
def progress_of(name: str, verbose: int) -> Iterator[Progress]:
    """Yield what a method calls with what it does, how many steps of that are done, and how many there are.

    Some steps do not come back until they are done, so a thread prints a line every two seconds.
    """
    callback = _callback.get()
    if callback is not None or not verbose:
        yield callback or _ignore
        return
    started, ended = time.perf_counter(), threading.Event()
    last = ("starting", 0, 0)

    def keep(doing: str, done: int, total: int) -> None:
        nonlocal last
        last = (doing, done, total)

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN):
            doing, done, total = last
            count = f" {done:,} of {total:,}" if total > 1 else ""
            seconds = time.perf_counter() - started
            print(f"{name} {bar(done, total)} {doing}{count}, {seconds:.0f} s", flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield keep
    finally:
        ended.set()
        watcher.join()


def _ignore(doing: str, done: int, total: int) -> None:
    pass
