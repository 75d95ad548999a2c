"""Running a suite: every method on every data set in turn, whatever happens to one of them."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import clusterwise
from benchmarks.page import commit, write_page
from benchmarks.process import Processes, ThisProcess
from benchmarks.progress import Progress
from benchmarks.scores import score
from benchmarks.store import Key, Row, Store
from benchmarks.suite import BenchmarkError, Case, Data, Method, MissingDataError, Suite, find_suite
from benchmarks.summary import Rows
from benchmarks.worker import Reply, one_line

__all__ = ["run_suite"]

FINAL = ("ok", "timeout", "skipped")  # statuses that another try would not change; errors may be mended


def version_of(method: Method) -> str:
    """What a row depends on besides the data: the code or library, and the weights."""
    if method.kind in ("peer", "reference"):
        version = f"scikit-learn {importlib.metadata.version('scikit-learn')}"
    else:
        version = f"clusterwise {clusterwise.__version__} ({commit()})"
    if method.identity is None:
        return version
    try:
        return f"{version}, {method.identity()}"
    except Exception:  # missing weights, say: the status of the method's rows tells more
        return f"{version}, identity unknown"


def _select(suite: Suite, wanted: Sequence[str] | None) -> list[Method]:
    names = [method.name for method in suite.methods]
    for name in wanted or ():
        if name not in names:
            raise BenchmarkError(
                f"There is no method {name!r} in this suite: choose from {', '.join(names)}."
            )
    return [method for method in suite.methods if wanted is None or method.name in wanted]


class _Patience:
    """Counts time-outs and dead processes in a row, over the data sets of a kind or of a group."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._streaks: dict[tuple[str, str], int] = {}

    @staticmethod
    def _key(method: str, data: Data, index: int) -> tuple[str, str]:
        return method, f"{data.group}, {index}" if data.group else data.name

    def is_over(self, method: str, data: Data, index: int) -> bool:
        return self._streaks.get(self._key(method, data, index), 0) >= self._suite.patience

    def note(self, data: Data, row: Row) -> None:
        if row["status"].startswith("skipped"):
            return
        hopeless = row["status"] == "timeout" or row["status"].startswith("error: the process ended")
        hopeless |= float(row["seconds"]) > self._suite.too_long
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
        more = {} if suite.score is None else suite.score(case, reply.labels, reply.more)
    except Exception as error:
        return cells | {"status": one_line(error)}
    return cells | {name: f"{value:.8g}" for name, value in figures.items()} | dict(more)


def _measure(
    name: str,
    suite: Suite,
    methods: Sequence[Method],
    store: Store,
    processes: Processes | ThisProcess,
    write: Callable[[str], object],
) -> None:
    """Add the rows that are missing."""
    versions = {method.name: version_of(method) for method in methods}
    n_sets = max((data.n_sets for data in suite.data), default=0)
    # Kinds of data take turns, so that the estimate of the time left is fair.
    plan = [(index, data) for index in range(n_sets) for data in suite.data if index < data.n_sets]
    patience, progress = _Patience(suite), Progress(name, len(plan), write)
    for done, (index, data) in enumerate(plan, start=1):
        chosen = [method for method in methods if suite.measures(method, data, index)]
        case: Case | None = None
        for method in chosen:
            key = (data.name, method.name, index)
            row = store.get(key)
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
                cells = _cells(suite, case, reply) | {"version": versions[method.name]}
                row = store.add(dict(zip(("data", "method", "index"), key, strict=True)) | cells)
                if row["status"].startswith("error"):
                    write(f"{name}: {method.name}, {data.name}, {index}: {row['status']}")
            patience.note(data, row)
        progress.step(done, case is not None)


def run_suite(
    name: str,
    out: str | Path,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    write: Callable[[str], object] = print,
    *,
    redo: bool = False,
    here: bool = False,
    suite: Suite | None = None,
) -> Path:
    """Measure a suite; write its rows to ``NAME.csv`` and its page to ``NAME.md`` in ``out``.

    Rows that are there already are kept, so that a killed run goes on where it stopped and methods may be
    measured one after the other; errors are tried again. A quick run has files of its own, ``NAME.quick.*``.

    Parameters
    ----------
    name : str
        One of ``suite_names()``.
    out : path
        Directory of the results; made if needed.
    quick : bool
        Few and small data sets.
    methods : sequence of str or None
        Measure only these; the page shows all that have rows.
    write : callable
        Gets a line of text now and then.
    redo : bool
        Measure the methods again that have rows already.
    here : bool
        Run methods in this process, for a debugger.
    suite : Suite or None
        Instead of the one called ``name``.

    Returns
    -------
    Path
        The Markdown page.
    """
    chosen = find_suite(name, quick) if suite is None else suite
    selected = _select(chosen, methods)
    page = Path(out) / f"{name}{'.quick' if quick else ''}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    store = Store(page.with_suffix(".csv"), (*chosen.metrics, *chosen.columns))
    names = {method.name for method in selected}
    if redo:
        store.drop(lambda row: row["method"] in names)
    store.start()
    processes = ThisProcess() if here else Processes()
    try:
        _measure(name, chosen, selected, store, processes, write)
    finally:
        processes.close()
    store.finish(_order(chosen, store.rows()))
    rows = Rows(store.rows())
    if not len(rows):
        raise BenchmarkError(f"Nothing was measured for {name}: see the lines above.")
    write_page(page, chosen.title, chosen.report(rows, page), rows)
    write(f"{name}: rows in {store.path}, page in {page}")
    return page


def _order(suite: Suite, rows: Sequence[Row]) -> list[Key]:
    """All rows by data set and in the suite's order of methods, those that the suite does not know last."""
    data = {one.name: place for place, one in enumerate(suite.data)}
    methods = {one.name: place for place, one in enumerate(suite.methods)}
    keys = [(row["data"], row["method"], int(row["index"])) for row in rows]
    return sorted(
        keys, key=lambda k: (data.get(k[0], len(data)), methods.get(k[1], len(methods)), k[1], k[2])
    )
