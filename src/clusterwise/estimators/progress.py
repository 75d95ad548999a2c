"""Lines that say every few seconds how far a long fit is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from clusterwise.deepdpm.history import History
from clusterwise.pipeline.batches import Progress

__all__ = ["batch_progress", "chain_progress", "epoch_progress", "heard_by"]

SECONDS_BETWEEN = 2.0


def _every_few_seconds(verbose: int) -> Callable[[str], None]:
    """What prints a line if ``verbose`` asks for it and the last one was some time ago."""
    last = time.perf_counter()

    def say(line: str) -> None:
        nonlocal last
        if verbose and time.perf_counter() - last > SECONDS_BETWEEN:
            last = time.perf_counter()
            print(line, flush=True)

    return say


def chain_progress(name: str, verbose: int) -> Callable[[int], object]:
    """What to call with the number of clusters after every step of a chain."""
    say, steps = _every_few_seconds(verbose), 0

    def report(n_clusters: int) -> None:
        nonlocal steps
        steps += 1
        say(f"{name}: step {steps}, {n_clusters} clusters")

    return report


def epoch_progress(verbose: int) -> Callable[[History], object]:
    """What to call with the history after every epoch of DeepDPM."""
    say = _every_few_seconds(verbose)

    def report(history: History) -> None:
        say(
            f"DeepDPM: epoch {len(history)}, {history.n_clusters[-1]} clusters, "
            f"loss {history.loss[-1]:.4f}, {sum(history.splits)} splits and {sum(history.merges)} merges"
        )

    return report


def batch_progress(name: str, verbose: int) -> Progress:
    """What to call with the name of a pass over the rows, the rows done and the rows altogether."""
    listener = _listener.get()
    if listener is not None:
        return listener
    say = _every_few_seconds(verbose)

    def report(doing: str, done: int, n_rows: int) -> None:
        say(f"{name}: {doing}, {done:,} of {n_rows:,} rows")

    return report


_listener: ContextVar[Progress | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Progress) -> Iterator[None]:
    """Let somebody hear of all passes over rows inside, in place of lines that are printed."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
