"""The process in which methods run: it builds each once, then answers data set after data set.

Messages are pickles inside pickled bytes: the outer ones can be read by a thread that does nothing
else, so that this process notices the end of the judge even while a method is busy or hangs.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from clusterwise.bench.memory import peak_memory_mb, reset_peak_memory
from clusterwise.bench.registry import Case, Method, Outcome

__all__ = ["WARM_UP_POINTS", "Question", "Reply", "Start", "measure", "one_line", "serve"]

WARM_UP_POINTS = 64


@dataclass(frozen=True)
class Start:
    """First message about a method, and a data set to try it on before the clock runs."""

    method: Method
    case: Case


@dataclass(frozen=True)
class Question:
    """Every further message: the name of a method, and a data set to run it on."""

    method: str
    case: Case


@dataclass(frozen=True)
class Reply:
    """What came of one message: ``status`` is "ok", "timeout" or "error: ..."."""

    status: str
    labels: np.ndarray | None = None
    log_likelihood: float | None = None
    seconds: float = float("nan")
    peak_memory_mb: float = float("nan")


def one_line(error: BaseException) -> str:
    """Name an error so that it fits a cell of a table."""
    first = next(iter(str(error).splitlines()), "")
    return f"error: {type(error).__name__}: {first}"[:200].rstrip(": ")


def _checked_labels(labels: np.ndarray, n: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be {n} integers; got shape {labels.shape} of {labels.dtype}")
    return labels


def measure(run: Callable[[Case], Outcome], case: Case) -> Reply:
    """Run a method on one data set. Time and memory are those of the partition, not of the density."""
    reset_peak_memory()
    start = time.perf_counter()
    try:
        outcome = run(case)
        seconds, peak = time.perf_counter() - start, peak_memory_mb()
        labels = _checked_labels(outcome.labels, len(case.points))
        density = None if outcome.log_likelihood is None else float(outcome.log_likelihood())
    except Exception as error:  # whatever a method raises is its result
        return Reply(one_line(error), None, None, time.perf_counter() - start, peak_memory_mb())
    return Reply("ok", labels, density, seconds, peak)


def _build(start: Start) -> tuple[Reply, Callable[[Case], Outcome] | None]:
    try:
        run = start.method.build()
    except Exception as error:
        return Reply(one_line(error)), None
    measure(run, start.case)  # first calls pay for lazy imports; a failure shows again on a real data set
    return Reply("ok"), run


def _read(source: BinaryIO, inbox: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            inbox.put(pickle.load(source))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)  # the judge is gone or done: leave, whatever the method is doing


def serve() -> None:
    """Answer messages from standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the judge, which then closes us
    warnings.simplefilter("ignore")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints must not get between the replies
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox), daemon=True).start()
    runs: dict[str, Callable[[Case], Outcome]] = {}
    while True:
        try:
            message: Start | Question = pickle.loads(inbox.get())
        except Exception as error:  # a method that cannot be imported here
            reply = Reply(one_line(error))
        else:
            if isinstance(message, Start):
                reply, run = _build(message)
                if run is not None:
                    runs[message.method.name] = run
            else:
                reply = measure(runs[message.method], message.case)
        pickle.dump(reply, replies)
        replies.flush()
