"""Lines that say every few seconds how far a long fit is."""

from __future__ import annotations

import time
from collections.abc import Callable

from clusterwise.deepdpm.history import History

__all__ = ["batch_progress", "chain_progress", "epoch_progress"]

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


def batch_progress(name: str, verbose: int) -> Callable[[str, int, int], object]:
    """What to call with the name of a pass over the rows, the rows done and the rows altogether."""
    say = _every_few_seconds(verbose)

    def report(doing: str, done: int, n_rows: int) -> None:
        say(f"{name}: {doing}, {done:,} of {n_rows:,} rows")

    return report
