"""The runner's side of a worker: processes for methods, ended and replaced when they hang or die."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import IO

from benchmarks.suite import Case, Method, Run
from benchmarks.worker import WARM_UP_FEATURES, WARM_UP_POINTS, Question, Reply, measure, one_line

__all__ = ["Processes", "ThisProcess", "thread_environment"]

START_LIMIT = 1800.0  # seconds for imports, weights and a warm-up: not what a benchmark is about
# Limits are CPU time, as a machine may be busy with other things; this many times longer on the wall clock, a
# process is taken for one that hangs.
PATIENCE = 20.0
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def thread_environment(threads: int | None) -> dict[str, str]:
    """This process's environment, in which numerical libraries (torch among them) have ``threads`` threads.

    None leaves the number to the libraries.
    """
    others = {name: value for name, value in os.environ.items() if name not in _THREAD_VARIABLES}
    return others if threads is None else others | dict.fromkeys(_THREAD_VARIABLES, str(threads))


def _shown(method: Method, case: Case) -> Case:
    return case if method.sees_truth else case.blind()


class ThisProcess:
    """Methods in the runner's own process, for debuggers and tests: no time limit, a crash is a crash."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def run(self, method: Method, case: Case, limit: float) -> Reply:
        """Run a method on one data set; ``limit`` is not kept."""
        if method.name not in self._runs:
            try:
                self._runs[method.name] = method.build()
            except Exception as error:
                return Reply(one_line(error))
        return measure(self._runs[method.name], _shown(method, case))

    def close(self) -> None:
        """Nothing to end."""


class _Worker:
    """One process in which one or several methods run."""

    def __init__(self, threads: int | None) -> None:
        self.threads = threads
        self.built: set[str] = set()  # names of the methods that the process knows
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        self.built.clear()
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, self._errors):
                if stream is not None:
                    with contextlib.suppress(OSError):  # unsent bytes for a process that is gone
                        stream.close()

    def ask(self, message: bytes, limit: float) -> Reply:
        """Send a question and wait for the answer; a process that is late or dies is not kept.

        ``limit`` is wall time; the process itself knows the limit of its CPU time.
        """
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        begin = time.perf_counter()
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(limit, expire)
        timer.daemon = True
        timer.start()
        reply: Reply | None = None
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
            reply = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            pass  # killed by the timer, or dead by itself
        finally:
            timer.cancel()
        if reply is None or expired.is_set():
            seconds = time.perf_counter() - begin
            late = expired.is_set() or process.wait() == -getattr(signal, "SIGXCPU", 0)
            ending = "timeout" if late else self._last_words()
            self.close()
            reply = reply or Reply(ending, seconds=seconds)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        environment = thread_environment(self.threads)
        environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from benchmarks.worker import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        return self._process

    def _last_words(self) -> str:
        process, errors = self._process, self._errors
        assert process is not None and errors is not None
        code = process.wait()
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
        return f"error: the process ended with code {code}{': ' + lines[-1] if lines else ''}"[:200]


class Processes:
    """Methods in processes of their own, or of their groups."""

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._broken: dict[str, Reply] = {}  # methods that cannot be built, and why

    def run(self, method: Method, case: Case, limit: float) -> Reply:
        """Run a method on one data set within ``limit`` seconds of CPU time; never raises."""
        if method.name in self._broken:
            return self._broken[method.name]
        worker = self._workers.setdefault(method.group or method.name, _Worker(method.threads))
        shown = _shown(method, case)
        if method.name not in worker.built:
            reply = self._build(method, shown.head(WARM_UP_POINTS, WARM_UP_FEATURES), worker)
            if reply.status != "ok":
                return reply
        of_all_threads = limit * (method.threads or os.cpu_count() or 1)
        message = pickle.dumps(Question(method.name, shown, of_all_threads))
        reply = worker.ask(message, PATIENCE * limit)
        return replace(reply, cpu_seconds=limit) if reply.status == "timeout" else reply

    def _build(self, method: Method, case: Case, worker: _Worker) -> Reply:
        try:
            message = pickle.dumps(Question(method.name, case, method=method))
        except Exception as error:  # a lambda, an open file: pickle raises what it likes
            reply = self._broken[method.name] = Reply(one_line(error))
            return reply
        reply = worker.ask(message, START_LIMIT)
        if reply.status == "ok":
            worker.built.add(method.name)
        elif worker.is_alive:  # it answered: building would fail again
            self._broken[method.name] = reply
        return reply

    def close(self, methods: Sequence[Method] | None = None) -> None:
        """End all processes, or those of some methods."""
        names = self._workers if methods is None else {m.group or m.name for m in methods}
        for name in list(names):
            if name in self._workers:
                self._workers[name].close()
