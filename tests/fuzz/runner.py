"""Runs inputs, each in a process of its own with limits, and says what was wrong with how it ended."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.inputs import SECRET, Input

__all__ = ["Outcome", "Sandbox"]

MAX_SECONDS = 10.0  # of the processor: others may be busy
MAX_WAIT = 120.0
MAX_BYTES = 10**9
HARD_BYTES = 4 * 10**9  # of address space, so that the machine survives what is found
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Outcome:
    """How one input ended; ``fault`` is None if it was an answer or one sentence."""

    fault: str | None
    seconds: float
    n_bytes: int  # of memory, beyond what the program had before
    output: str


class Sandbox:
    """A folder to work in with a secret beside it, and whoever opens the secret is seen."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.secret = self.folder / SECRET
        self.secret.mkdir()
        (self.secret / "secret.bin").write_bytes(b"\x01" * 64)
        self._write_secret()
        self.watch = _watch(self.secret)

    def _write_secret(self) -> None:
        import h5py

        with h5py.File(self.secret / "secret.h5", "w") as file:
            file["data"] = [[1.0, 2.0]] * 4

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)

    def run(self, input: Input, whole: bool = False) -> Outcome:
        """Run one input; ``whole``: the fit, too."""
        for old in self.folder.iterdir():
            if old != self.secret:
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        (self.folder / input.name).write_bytes(input.data)
        _opened(self.watch)
        log = self.folder / "log"
        started = time.perf_counter()
        child = os.fork()
        if child == 0:
            _child(self.folder, log, input, whole)
        status, usage = _wait(child, started)
        seconds = usage.ru_utime + usage.ru_stime
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        n_bytes = max(0, usage.ru_maxrss - before) * 1024
        output = log.read_text(encoding="utf-8", errors="surrogateescape")
        return Outcome(self._fault(status, seconds, n_bytes, output), seconds, n_bytes, output)

    def _fault(self, status: int, seconds: float, n_bytes: int, output: str) -> str | None:
        code = os.waitstatus_to_exitcode(status)
        if seconds > MAX_SECONDS:
            return f"slow: {seconds:.1f} s"
        if code < 0:
            return f"signal {signal.Signals(-code).name}"
        if "Traceback" in output or code not in (0, 2):
            return f"traceback: {output.strip().splitlines()[-1][:200] if output.strip() else code}"
        if n_bytes > MAX_BYTES:
            return f"memory: {n_bytes / 1e9:.1f} GB"
        if found := CONTROL.search(output):
            return f"terminal: {found.group()!r}"
        if opened := _opened(self.watch):
            return f"read {opened}"
        errors = [line for line in output.splitlines() if line.startswith("error:")]
        if code == 2 and (len(errors) != 1 or not errors[0].rstrip().endswith(".")):
            return f"no sentence: {output[-300:]!r}"
        if len(output) > 20_000:
            return f"{len(output)} letters of output"
        return None


def _wait(child: int, started: float) -> tuple[int, resource.struct_rusage]:
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            return status, usage
        if time.perf_counter() - started > MAX_WAIT:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _child(folder: Path, log: Path, input: Input, whole: bool) -> None:
    """Run the input and end the process."""
    code = 1
    try:
        os.chdir(folder)
        out = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = os.fdopen(1, "w", errors="surrogateescape", closefd=False)
        sys.stderr = os.fdopen(2, "w", errors="surrogateescape", closefd=False)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + HARD_BYTES,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (int(1.5 * MAX_SECONDS),) * 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = _use(input, whole)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _use(input: Input, whole: bool) -> int:
    """What the command line does with an input, and its exit code; without the fit unless it is ``whole``."""
    import typer

    from clusterwise.cli.app import app
    from clusterwise.cli.messages import one_line_errors, one_line_warnings

    arguments = {
        "table": ["cluster", input.name, "--append", "--out", "out.csv"],
        "weights": ["cluster", "good.csv", "--weights", input.name, "--out", "out.csv"],
        "recipe": ["train", input.name, "--minutes", "0", "--out", "trained"],
    }[input.use]
    if input.use == "weights":
        Path("good.csv").write_text("a,b\n" + "".join(f"{i % 5 * 1.5},{i % 3}\n" for i in range(20)))
    if whole or input.use == "weights":
        try:
            return int(app(arguments, standalone_mode=False) or 0)
        except typer.Exit as ended:
            return ended.exit_code
    try:
        with one_line_errors(), one_line_warnings():
            _read_and_write(input)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def _read_and_write(input: Input) -> None:
    """Read and prepare a table, write it with labels, and read that again; or read a recipe."""
    import numpy as np

    from clusterwise._files import write_tables
    from clusterwise.cli.clustering import Task, _open_in_parts, _with_results
    from clusterwise.tables import TablePreparation, read_table
    from clusterwise.training import read_recipe
    from clusterwise.training.loop import check_recipe

    path = Path(input.name)
    if input.use == "recipe":
        check_recipe(read_recipe(path), Path("trained"))
        return
    _open_in_parts(path)
    table = read_table(path)
    TablePreparation().fit_transform(table)
    if not hasattr(table, "column_names"):
        return
    n = table.num_rows
    task = Task(path, Path("out.csv"), None, None, True, None, {}, 0)  # type: ignore[arg-type]
    results = _with_results(table, task, None, 0, np.zeros(n, np.int64), np.ones(n), np.zeros(n))
    flat = [name for name in results.column_names if not _is_nested(results.schema.field(name).type)]
    write_tables(task.out, [results.select(flat)], n)
    assert read_table(task.out).num_columns == len(flat), "what was written cannot be read again"


def _is_nested(kind: object) -> bool:
    import pyarrow.types as kinds

    return any(kinds.__dict__[f"is_{name}"](kind) for name in ("nested", "binary", "large_binary"))


# -- who opens the secret ----------------------------------------------------------------------------

IN_OPEN = 0x20


def _watch(folder: Path) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    handle: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    library.inotify_add_watch(handle, str(folder).encode(), IN_OPEN)
    return handle


def _opened(watch: int) -> list[str]:
    """Names of the files below the secret folder that were opened since the last call."""
    try:
        events = os.read(watch, 65536)
    except BlockingIOError:
        return []
    return sorted({name.decode() for name in re.findall(rb"secret\.[a-z0-9]+", events)})
