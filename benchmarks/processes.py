"""Methods in processes of their own, which are ended and replaced when they hang, die or take too long."""

import contextlib
import math
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite import Case, Method, Run

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

WARM_UP = 64, 10  # rows and features of a first call, which pays for lazy imports
START_LIMIT = 1800.0  # seconds for imports, weights and a warm-up: not what a benchmark is about
# Limits are CPU time, as a machine may be busy with other things; this many times longer on the wall clock, a
# process is taken for one that hangs.
PATIENCE = 20.0
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")  # read NAME_NUM_THREADS when they start


@dataclass(frozen=True)
class Reply:
    """What came of a method and a data set: ``status`` is "ok", "timeout", "skipped: ..." or "error: ..."."""

    status: str
    labels: np.ndarray | None = None
    log_likelihood: float = math.nan
    more: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = math.nan  # wall time
    cpu_seconds: float = math.nan  # of all threads of the process
    peak_memory_mb: float = math.nan


def one_line(error: BaseException) -> str:
    """Name an error so that it fits a cell of a table."""
    first = next(iter(str(error).splitlines()), "")
    return f"error: {type(error).__name__}: {first}"[:200].rstrip(": ")


def peak_memory_mb(reset: bool = False) -> float:
    """Return the peak resident memory in MB (10^6 bytes), interpreter and libraries included.

    With ``reset`` it begins anew from what is in use now. Outside Linux it is the peak since the start of the
    process; NaN if the system does not tell.
    """
    with contextlib.suppress(OSError, ValueError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        (line,) = re.findall(r"^VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)
        return int(line) * 1024 / 1e6
    if resource is None:
        return math.nan
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def timed(spent: defaultdict[str, float], kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with its seconds added to those that were ``spent`` on a kind of work."""

    def measured(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[kind] += time.perf_counter() - started

    return measured


def measure(run: Run, case: Case, sees_truth: bool = False) -> Reply:
    """Run a method on one data set. Time and memory are those of the partition, not of what comes after."""
    peak_memory_mb(reset=True)
    start, cpu = time.perf_counter(), time.process_time()
    try:
        with warnings.catch_warnings(action="ignore"):  # no convergence, say: the result counts all the same
            outcome = run(case if sees_truth else case.blind())
            seconds, cpu, peak = time.perf_counter() - start, time.process_time() - cpu, peak_memory_mb()
            labels = np.asarray(outcome.labels)
            n, got = len(case.points), f"shape {labels.shape} of {labels.dtype}"
            if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
                raise ValueError(f"labels must be {n} integers; got {got}")
            density = math.nan if outcome.log_likelihood is None else float(outcome.log_likelihood())
            more = {} if outcome.more is None else dict(outcome.more(case))
    except Exception as error:  # whatever a method raises is its result
        return Reply(one_line(error), seconds=time.perf_counter() - start, peak_memory_mb=peak_memory_mb())
    seconds = seconds if outcome.seconds is None else outcome.seconds
    return Reply("ok", labels, density, more, seconds, cpu, peak)


class ThisProcess:
    """Methods in this process; in the runner's own, for debuggers and tests: no limit, a crash is a crash."""

    def __init__(self) -> None:
        self._runs: dict[str, Run | Reply] = {}  # or why a method cannot be built

    def run(self, method: Method, case: Case, limit: float) -> Reply:
        if method.name not in self._runs:
            try:
                self._runs[method.name] = method.build()
            except Exception as error:
                self._runs[method.name] = Reply(one_line(error))
        run = self._runs[method.name]
        return run if isinstance(run, Reply) else measure(run, case, method.sees_truth)

    def close(self) -> None:
        """Nothing to end."""


def _leave_with(parent: Any) -> None:
    parent.join()
    os._exit(0)  # whatever the method is doing


def _serve(connection: Any) -> None:
    """Answer questions until the runner is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then ends us
    threading.Thread(target=_leave_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    warnings.simplefilter("ignore")
    methods = ThisProcess()
    while True:
        try:
            method, case, limit = connection.recv()
        except EOFError:
            return
        except Exception as error:  # a method that cannot be imported here
            connection.send(Reply(one_line(error)))
            continue
        if resource is not None:  # else the runner's wall clock remains
            most = resource.RLIM_INFINITY
            soft = most if math.isinf(limit) else math.ceil(time.process_time() + limit)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, most))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        connection.send(methods.run(method, case, limit))


@contextlib.contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Processes started now have ``threads`` threads in numerical libraries; None leaves it to these."""
    names = [f"{library}_NUM_THREADS" for library in LIBRARIES]
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update({} if threads is None else dict.fromkeys(names, str(threads)))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)


class _Worker:
    """One process in which one or several methods run."""

    def __init__(self, threads: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.alive, self.warm = True, set[str]()  # names of the methods that ran in the process
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,))
        with limited_threads(threads):
            self._process.start()
        other.close()  # so that its end is noticed here

    def run(self, method: Method, case: Case, limit: float, wall_limit: float) -> Reply:
        """Send a question and wait for the answer; without one the process is ended."""
        begin = time.perf_counter()
        with contextlib.suppress(OSError, EOFError):  # it died by itself, or at its limit of CPU time
            self._connection.send((method, case, limit))
            if self._connection.poll(wall_limit):
                return self._connection.recv()
        seconds = time.perf_counter() - begin
        self._process.join(0 if seconds >= wall_limit else 60)  # one that is late need not end by itself
        code = self._process.exitcode
        self.close()
        late = code is None or code == -getattr(signal, "SIGXCPU", 0)
        return Reply("timeout" if late else f"error: the process ended with code {code}", seconds=seconds)

    def close(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.join()
        self._connection.close()


class Processes:
    """Methods in processes of their own, or of their groups."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._kept: dict[str, Reply] = {}  # by methods that cannot travel

    def run(self, method: Method, case: Case, limit: float) -> Reply:
        """Run a method on one data set within ``limit`` seconds of CPU time; never raises."""
        try:
            pickle.dumps(method)
        except Exception as error:  # a lambda, an open file: pickle raises what it likes
            return self._kept.setdefault(method.name, Reply(one_line(error)))
        name = method.group or method.name
        worker = self._workers.get(name)
        if worker is None or not worker.alive:
            worker = self._workers[name] = _Worker(method.threads)
        if not method.fresh and method.name not in worker.warm:
            reply = worker.run(method, case.head(*WARM_UP), math.inf, START_LIMIT)
            if not worker.alive:
                return reply
            worker.warm.add(method.name)  # other failures show again
        of_all_threads = limit * (method.threads or os.cpu_count() or 1)
        reply = worker.run(method, case, of_all_threads, PATIENCE * limit)
        if method.fresh:
            worker.close()
        return replace(reply, cpu_seconds=limit) if reply.status == "timeout" else reply

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
