"""What a fit says about itself with ``verbose=1``: every two seconds, how far it is."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from clusterwise.fitting.batches import Progress

if TYPE_CHECKING:
    from clusterwise.deepdpm.method import History

__all__ = ["bar", "batch_progress", "chain_progress", "epoch_progress", "heard_by", "stage_progress"]

SECONDS_BETWEEN = 2.0
WIDTH = 20


def bar(done: int, total: int) -> str:
    """A bar of characters.

    Examples
    --------
    >>> bar(1, 4)
    '[#####...............]'
    """
    filled = round(WIDTH * min(done, total) / total)
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}]"


def _every_few_seconds(verbose: int) -> Callable[[str], None]:
    """What prints a line if ``verbose`` asks for it and the last one was some time ago."""
    last = time.perf_counter()

    def say(line: str) -> None:
        nonlocal last
        if verbose and time.perf_counter() - last > SECONDS_BETWEEN:
            last = time.perf_counter()
            print(line, flush=True)

    return say


def chain_progress(name: str, verbose: int, n_steps: int) -> Callable[[int], object]:
    """What to call with the number of clusters after every one of at most ``n_steps`` steps of a chain."""
    say, steps = _every_few_seconds(verbose), 0

    def report(n_clusters: int) -> None:
        nonlocal steps
        steps += 1
        say(f"{name} {bar(steps, n_steps)} step {steps} of at most {n_steps}, {n_clusters} clusters")

    return report


def epoch_progress(verbose: int, n_epochs: int) -> Callable[[History], object]:
    """What to call with the history after every one of at most ``n_epochs`` epochs of DeepDPM."""
    say = _every_few_seconds(verbose)

    def report(history: History) -> None:
        say(
            f"DeepDPM {bar(len(history), n_epochs)} epoch {len(history)} of at most {n_epochs}, "
            f"{history.n_clusters[-1]} clusters, loss {history.loss[-1]:.4f}, {sum(history.splits)} splits "
            f"and {sum(history.merges)} merges"
        )

    return report


def batch_progress(name: str, verbose: int) -> Progress:
    """What to call with the name of a pass over the rows, the rows done and the rows altogether."""
    listener = _listener.get()
    if listener is not None:
        return listener
    say = _every_few_seconds(verbose)

    def report(doing: str, done: int, n_rows: int) -> None:
        say(f"{name} {bar(done, n_rows)} {doing}, {done:,} of {n_rows:,} rows")

    return report


_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def heard_by(listener: Progress) -> Iterator[None]:
    """Let somebody hear of all passes over rows inside, in place of lines that are printed."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def stage_progress(name: str, verbose: int, n_stages: int) -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each stage when it begins.

    Stages do not come back until they are done, so a thread says every two seconds where the fit is.
    """
    if not verbose:
        yield lambda stage: None
        return
    started, ended = time.perf_counter(), threading.Event()
    begun: list[str] = []

    def watch() -> None:
        while not ended.wait(SECONDS_BETWEEN):
            stage = begun[-1] if begun else "starting"
            seconds = time.perf_counter() - started
            print(f"{name} {bar(max(len(begun) - 1, 0), n_stages)} {stage}, {seconds:.0f} s", flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield begun.append
    finally:
        ended.set()
        watcher.join()
