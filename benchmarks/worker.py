"""The process in which methods run: it builds each once, then answers data set after data set.

Messages are pickles inside pickled bytes: the outer ones can be read by a thread that does nothing else, so
that this process notices the end of the runner even while a method is busy or hangs.
"""

from __future__ import annotations

import math
import os
import pickle
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from benchmarks.memory import peak_memory_mb, reset_peak_memory
from benchmarks.suite import Case, Method, Run

__all__ = [
    "WARM_UP_FEATURES",
    "WARM_UP_POINTS",
    "Question",
    "Reply",
    "limit_cpu",
    "measure",
    "one_line",
    "serve",
]

WARM_UP_POINTS, WARM_UP_FEATURES = 64, 10
NAN = float("nan")


@dataclass(frozen=True)
class Question:
    """A data set for a method, which comes along when it is to be built first."""

    name: str
    case: Case
    limit: float = float("inf")  # seconds of CPU time, after which the system ends the process
    method: Method | None = None


@dataclass(frozen=True)
class Reply:
    """What came of one question: ``status`` is "ok", "timeout", "skipped: ..." or "error: ..."."""

    status: str
    labels: np.ndarray | None = None
    log_likelihood: float = NAN
    more: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = NAN  # wall time
    cpu_seconds: float = NAN  # of all threads of the process
    peak_memory_mb: float = NAN


def one_line(error: BaseException) -> str:
    """Name an error so that it fits a cell of a table."""
    first = next(iter(str(error).splitlines()), "")
    return f"error: {type(error).__name__}: {first}"[:200].rstrip(": ")


def _checked_labels(labels: np.ndarray, n: int) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be {n} integers; got shape {labels.shape} of {labels.dtype}")
    return labels


def measure(run: Run, case: Case) -> Reply:
    """Run a method on one data set. Time and memory are those of the partition, not of what comes after."""
    reset_peak_memory()
    start, cpu = time.perf_counter(), time.process_time()
    try:
        outcome = run(case)
        seconds, cpu, peak = time.perf_counter() - start, time.process_time() - cpu, peak_memory_mb()
        labels = _checked_labels(outcome.labels, len(case.points))
        density = NAN if outcome.log_likelihood is None else float(outcome.log_likelihood())
        more = {} if outcome.more is None else dict(outcome.more())
    except Exception as error:  # whatever a method raises is its result
        return Reply(one_line(error), seconds=time.perf_counter() - start, peak_memory_mb=peak_memory_mb())
    if outcome.seconds is not None:
        seconds = outcome.seconds
    return Reply("ok", labels, density, more, seconds, cpu, peak)


def _build(method: Method, case: Case) -> tuple[Reply, Run | None]:
    try:
        run = method.build()
    except Exception as error:
        return Reply(one_line(error)), None
    if method.warm_up:
        measure(run, case)  # first calls pay for lazy imports; a failure shows again on a real data set
    return Reply("ok"), run


def limit_cpu(seconds: float) -> None:
    """Let the system end this process after this many more seconds of CPU time, where it can."""
    try:
        import resource
    except ImportError:  # Windows: the runner's wall clock remains
        return
    most = resource.RLIM_INFINITY
    soft = most if seconds == float("inf") else math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(source: BinaryIO, inbox: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            inbox.put(pickle.load(source))
    except (EOFError, OSError, pickle.UnpicklingError):
        os._exit(0)  # the runner is gone or done: leave, whatever the method is doing


def serve() -> None:
    """Answer questions from standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then closes us
    warnings.simplefilter("ignore")
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a method prints must not get between the replies
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox), daemon=True).start()
    runs: dict[str, Run] = {}
    while True:
        try:
            question: Question = pickle.loads(inbox.get())
        except Exception as error:  # a method that cannot be imported here
            reply = Reply(one_line(error))
        else:
            limit_cpu(question.limit)
            if question.method is not None:
                reply, run = _build(question.method, question.case)
                if run is not None:
                    runs[question.name] = run
            else:
                reply = measure(runs[question.name], question.case)
        pickle.dump(reply, replies)
        replies.flush()
