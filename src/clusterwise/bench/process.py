"""The judge's side of a worker: processes for methods, ended and replaced when they hang or die."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO

from clusterwise.bench.registry import Case, Method, Outcome
from clusterwise.bench.worker import WARM_UP_POINTS, Question, Reply, Start, measure, one_line

__all__ = ["START_LIMIT", "InThisProcess", "MethodProcess", "Worker", "thread_environment"]

START_LIMIT = 300.0  # seconds for imports, weights and a warm-up: not what a benchmark is about
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def thread_environment(threads: int | None) -> dict[str, str]:
    """This process's environment, in which numerical libraries (torch among them) have ``threads`` threads.

    None leaves the number to the libraries.
    """
    others = {name: value for name, value in os.environ.items() if name not in _THREAD_VARIABLES}
    return others if threads is None else others | dict.fromkeys(_THREAD_VARIABLES, str(threads))


class InThisProcess:
    """A method in the judge's own process: no time limit, for debugging."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self._run: Callable[[Case], Outcome] | None = None

    def run(self, case: Case, limit: float) -> Reply:
        """Run the method on one data set; ``limit`` is not kept."""
        if self._run is None:
            try:
                self._run = self.method.build()
            except Exception as error:
                return Reply(one_line(error))
        return measure(self._run, case if self.method.sees_truth else case.blind())


class Worker:
    """A process in which one or several methods run."""

    def __init__(self, threads: int | None = 1) -> None:
        self.threads = threads
        self.built: set[str] = set()  # names of the methods that the process knows
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

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
        """Send a message and wait for the answer; a process that is late or dies is not kept."""
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
            ending = "" if expired.is_set() else self._last_words()
            self.close()
            if reply is None:
                reply = Reply(ending or "timeout", seconds=seconds)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        environment = thread_environment(self.threads)
        environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from clusterwise.bench.worker import serve; serve()"],
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


class MethodProcess:
    """A method in a process of its own, or in one that it shares with others."""

    def __init__(self, method: Method, threads: int | None = 1, worker: Worker | None = None) -> None:
        self.method = method
        self.broken: Reply | None = None  # why the method cannot be built, once that is known
        self._worker = Worker(threads) if worker is None else worker

    def __enter__(self) -> MethodProcess:
        return self

    def __exit__(self, *details: object) -> None:
        self._worker.close()

    def run(self, case: Case, limit: float) -> Reply:
        """Run the method on one data set within ``limit`` seconds; never raises for what a method does."""
        if self.broken is not None:
            return self.broken
        name, shown = self.method.name, case if self.method.sees_truth else case.blind()
        if name not in self._worker.built:
            reply = self._build(shown.head(WARM_UP_POINTS))
            if reply.status != "ok":
                return reply
        return self._worker.ask(pickle.dumps(Question(name, shown)), limit)

    def _build(self, case: Case) -> Reply:
        try:
            message = pickle.dumps(Start(self.method, case))
        except Exception as error:  # a lambda, an open file: pickle raises what it likes
            self.broken = Reply(one_line(error))
            return self.broken
        reply = self._worker.ask(message, START_LIMIT)
        if reply.status == "ok":
            self._worker.built.add(self.method.name)
        elif self._worker.is_alive:  # it answered: building would fail again
            self.broken = reply
        return reply
