"""What a fit says about itself with ``verbose=1``: every two seconds, how far it is."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from clusterwise.fitting.protocol import Progress

__all__ = ["bar", "progress_of", "redirected"]

SECONDS_BETWEEN = 2.0
WIDTH = 20


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


@contextlib.contextmanager
def redirected(callback: Progress) -> Iterator[None]:
    """Let ``callback`` have the progress of all fits inside, in place of lines that are printed."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@contextlib.contextmanager
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
