"""Running a suite: every method on every data set in turn, whatever happens to one of them."""

from __future__ import annotations

import importlib.metadata
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import clusterwise
from benchmarks.page import commit, write_page
from benchmarks.processes import Processes, Reply, ThisProcess, one_line
from benchmarks.scores import score
from benchmarks.store import Row, Store
from benchmarks.suite import BenchmarkError, Case, Data, Method, MissingDataError, Suite, find_suite
from benchmarks.summary import Rows

__all__ = ["Progress", "duration", "run_suite"]

FINAL = ("ok", "timeout", "skipped")  # statuses that another try would not change; errors may be mended
Write = Callable[[str], object]


def version_of(method: Method) -> str:
    """What a row depends on besides the data: the code or library, and the weights."""
    version = f"clusterwise {clusterwise.__version__} ({commit()})"
    if method.kind in ("peer", "reference"):
        version = f"scikit-learn {importlib.metadata.version('scikit-learn')}"
    if method.identity is None:
        return version
    try:
        return f"{version}, {method.identity()}"
    except Exception:  # missing weights, say: the status of the method's rows tells more
        return f"{version}, identity unknown"


def duration(seconds: float) -> str:
    """Write a length of time in at most two units.

    >>> duration(5.2), duration(65), duration(3600 * 2 + 60 * 5 + 7)
    ('5 s', '1 min 05 s', '2 h 05 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Progress:
    """A line every ``interval`` seconds: done, elapsed, left."""

    def __init__(self, name: str, total: int, write: Write, interval: float = 10.0) -> None:
        self._name, self._total, self._write, self._interval = name, total, write, interval
        self._begin = self._last = self._first = time.monotonic()
        self._measured = 0

    def step(self, done: int, measured: bool) -> None:
        """Note that ``done`` data sets are through, the last one measured now or known from before."""
        now = time.monotonic()
        self._measured += measured
        if measured and self._measured == 1:  # it also pays for starting all methods: no guide to the rest
            self._first = now
        if now - self._last < self._interval and done < self._total:
            return
        self._last, left = now, ""
        if self._measured > 1 and done < self._total:
            each = (now - self._first) / (self._measured - 1)
            left = f", about {duration(each * (self._total - done))} left"
        elapsed = duration(now - self._begin)
        self._write(f"{self._name}: {done}/{self._total} data sets, {elapsed} elapsed{left}")


class _Patience:
    """Counts time-outs and dead processes in a row, over the data sets of a kind or of a group."""

    def __init__(self, suite: Suite) -> None:
        self._suite, self._streaks = suite, dict[tuple[str, str], int]()

    @staticmethod
    def _key(method: str, data: Data, index: int) -> tuple[str, str]:
        return method, f"{data.group}, {index}" if data.group else data.name

    def is_over(self, method: str, data: Data, index: int) -> bool:
        return self._streaks.get(self._key(method, data, index), 0) >= self._suite.patience

    def note(self, data: Data, row: Row) -> None:
        if row["status"].startswith("skipped"):
            return
        hopeless = row["status"] == "timeout" or row["status"].startswith("error: the process ended")
        hopeless |= float(row["cpu_seconds"] or "nan") > self._suite.too_long
        key = self._key(row["method"], data, int(row["index"]))
        self._streaks[key] = self._streaks.get(key, 0) + 1 if hopeless else 0


def _cells(suite: Suite, case: Case, reply: Reply) -> dict[str, object]:
    """Status, time and all figures of a reply; a score that fails is the method's error."""
    cells: dict[str, object] = {
        "status": reply.status,
        "seconds": f"{reply.seconds:.6g}",
        "cpu_seconds": f"{reply.cpu_seconds:.6g}",
        "peak_memory_mb": f"{reply.peak_memory_mb:.5g}",
    }
    if reply.labels is None:
        return cells
    try:
        figures = {name: score(name, case, reply.labels, reply.log_likelihood) for name in suite.metrics}
        more = reply.more if suite.score is None else suite.score(case, reply.labels, reply.more)
    except Exception as error:
        return cells | {"status": one_line(error)}
    cells |= {name: f"{value:.8g}" for name, value in figures.items()}
    return cells | {name: f"{v:.8g}" if isinstance(v, float) else v for name, v in more.items()}


def _measure(name: str, suite: Suite, store: Store, processes: Processes | ThisProcess, write: Write) -> None:
    """Add the rows that are missing."""
    versions = {method.name: version_of(method) for method in suite.methods}
    n_sets = max((data.n_sets for data in suite.data), default=0)
    # Kinds of data take turns, so that the estimate of the time left is fair.
    plan = [(index, data) for index in range(n_sets) for data in suite.data if index < data.n_sets]
    patience, progress = _Patience(suite), Progress(name, len(plan), write)
    for done, (index, data) in enumerate(plan, start=1):
        case: Case | None = None
        for method in suite.methods:
            if not suite.measures(method, data, index):
                continue
            row = store.get((data.name, method.name, index))
            if row is None or not row["status"].startswith(FINAL):
                try:
                    case = data.draw(index) if case is None else case
                except MissingDataError as error:
                    write(f"{name}: {data.name} is left out: {error}")
                    break
                if patience.is_over(method.name, data, index):
                    reply = Reply("skipped: too slow on the data sets before")
                elif method.max_points is not None and len(case.points) > method.max_points:
                    reply = Reply(f"skipped: more than {method.max_points:,} rows")
                else:
                    reply = processes.run(method, case, min(suite.time_limit, method.time_limit or math.inf))
                known = {"data": data.name, "method": method.name, "index": index}
                row = store.add(known | _cells(suite, case, reply) | {"version": versions[method.name]})
                if row["status"].startswith("error"):
                    write(f"{name}: {method.name}, {data.name}, {index}: {row['status']}")
            patience.note(data, row)
        progress.step(done, case is not None)


def _narrowed(suite: Suite, methods: Sequence[str] | None, sets: int | None) -> Suite:
    """The suite with some of its methods, and with at most ``sets`` data sets of each kind."""
    names = [method.name for method in suite.methods]
    for name in methods or ():
        if name not in names:
            known = ", ".join(names)
            raise BenchmarkError(f"There is no method {name!r} in this suite: choose from {known}.")
    most = math.inf if sets is None else sets
    return replace(
        suite,
        data=[replace(one, n_sets=int(min(one.n_sets, most))) for one in suite.data],
        methods=[method for method in suite.methods if methods is None or method.name in methods],
    )


def run_suite(
    name: str,
    out: str | Path,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    write: Write = print,
    *,
    sets: int | None = None,
    redo: bool = False,
    here: bool = False,
    suite: Suite | None = None,
) -> Path:
    """Measure a suite; write its rows to ``NAME.csv`` in ``out`` and return its page, ``NAME.md``.

    Rows that are there already are kept, so that a killed run goes on where it stopped and methods may be
    measured one after the other; errors are tried again. A quick run has files of its own, ``NAME.quick.*``.
    ``methods`` are the only ones to measure, ``sets`` the most data sets of each kind; ``redo`` measures
    methods again that have rows, ``here`` runs them in this process, for a debugger. ``write`` gets a line of
    text now and then; ``suite`` stands in for the one called ``name``.
    """
    whole = find_suite(name, quick) if suite is None else suite
    chosen = _narrowed(whole, methods, sets)
    page = Path(out) / f"{name}{'.quick' if quick else ''}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    store = Store(page.with_suffix(".csv"), (*whole.metrics, *whole.columns))
    if redo:
        store.drop({method.name for method in chosen.methods})
    store.start()
    processes = ThisProcess() if here else Processes()
    try:
        _measure(name, chosen, store, processes, write)
    finally:
        processes.close()
    store.finish([data.name for data in whole.data], [method.name for method in whole.methods])
    rows = Rows(store.rows())
    if not len(rows):
        raise BenchmarkError(f"Nothing was measured for {name}: see the lines above.")
    write_page(page, whole.title, whole.report(rows, page), rows)
    write(f"{name}: rows in {store.path}, page in {page}")
    return page
