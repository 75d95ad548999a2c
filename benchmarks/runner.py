"""Running a suite: every method on every data set in turn, whatever happens to one of them."""

import importlib.metadata
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import clusterwise
from benchmarks.page import commit, write_page
from benchmarks.processes import Processes, Reply, ThisProcess, one_line
from benchmarks.scores import score
from benchmarks.store import Store
from benchmarks.suite import BenchmarkError, Case, Method, MissingDataError, Suite, find_suite
from benchmarks.summary import Row, Rows

FINAL = ("ok", "timeout", "skipped")  # statuses that another try would not change; errors may be mended
HOPELESS = ("timeout", "error: the process ended")  # these count towards a suite's patience
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


def is_current(row: Row, versions: Mapping[str, str]) -> bool:
    """Whether a row was measured with what is here now, or skipped."""
    return row["version"] == versions[row["method"]] or row["status"].startswith("skipped: more")


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
            left = f", about {timedelta(seconds=round(each * (self._total - done)))} left"
        elapsed = timedelta(seconds=round(now - self._begin))
        self._write(f"{self._name}: {done}/{self._total} data sets, {elapsed} elapsed{left}")


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
    except Exception as error:
        return cells | {"status": one_line(error)}
    further = {**figures, **reply.more}
    return cells | {name: f"{v:.8g}" if isinstance(v, float) else v for name, v in further.items()}


def _measure(
    name: str, suite: Suite, store: Store, processes: Processes | ThisProcess, write: Write, stale: bool
) -> None:
    """Add the rows that are missing, and measure again what is ``stale``."""
    versions = {method.name: version_of(method) for method in suite.methods}
    n_sets = max((data.n_sets for data in suite.data), default=0)
    # Kinds of data take turns, so that the estimate of the time left is fair.
    plan = [(index, data) for index in range(n_sets) for data in suite.data if index < data.n_sets]
    progress = Progress(name, len(plan), write)
    hopeless: Counter[tuple[str, str]] = Counter()  # rows in a row, by method and kind of data
    for done, (index, data) in enumerate(plan, start=1):
        case: Case | None = None
        for method in suite.methods:
            if not suite.measures(method, data, index):
                continue
            streak = method.name, data.name
            row = store.rows.get((data.name, method.name, index))
            final = row is not None and row["status"].startswith(FINAL)
            if row is None or not final or (stale and not is_current(row, versions)):
                try:
                    case = data.draw(index) if case is None else case
                except MissingDataError as error:
                    write(f"{name}: {data.name} is left out: {error}")
                    break
                if hopeless[streak] >= suite.patience:
                    reply = Reply("skipped: too slow on the data sets before")
                elif method.max_points is not None and len(case.points) > method.max_points:
                    reply = Reply(f"skipped: more than {method.max_points:,} rows")
                else:
                    reply = processes.run(method, case, min(suite.time_limit, method.time_limit or math.inf))
                known = {"data": data.name, "method": method.name, "index": index}
                row = store.add(known | _cells(suite, case, reply) | {"version": versions[method.name]})
                if row["status"].startswith("error"):
                    write(f"{name}: {method.name}, {data.name}, {index}: {row['status']}")
            if not row["status"].startswith("skipped"):
                hopeless[streak] = hopeless[streak] + 1 if row["status"].startswith(HOPELESS) else 0
        progress.step(done, case is not None)


def _narrowed(suite: Suite, methods: Sequence[str] | None, sets: int | None) -> Suite:
    """The suite with some of its methods, and with at most ``sets`` data sets of each kind."""
    by_name = {method.name: method for method in suite.methods}
    for name in methods or ():
        if name not in by_name:
            raise BenchmarkError(
                f"There is no method {name!r} in this suite: choose from {', '.join(by_name)}."
            )
    data = [one if sets is None else replace(one, n_sets=min(one.n_sets, sets)) for one in suite.data]
    return replace(
        suite, data=data, methods=[by_name[name] for name in by_name if name in (methods or by_name)]
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
    stale: bool = False,
    here: bool = False,
    suite: Suite | None = None,
) -> Path:
    """Measure a suite; write its rows to ``NAME.csv.gz`` in ``out`` and return its page, ``NAME.md``.

    Rows that are there already are kept, so that a killed run goes on where it stopped; errors are tried
    again. Options are those of the command; ``suite`` stands in for the one called ``name``.
    """
    whole = find_suite(name, quick) if suite is None else suite
    chosen = _narrowed(whole, methods, sets)
    page = Path(out) / f"{name}{'.quick' if quick else ''}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    store = Store(page.with_suffix(".csv.gz"), (*whole.metrics, *whole.columns))
    if redo:
        store.drop({method.name for method in chosen.methods})
    store.start()
    processes = ThisProcess() if here else Processes()
    try:
        _measure(name, chosen, store, processes, write, stale)
    finally:
        processes.close()
    store.finish([data.name for data in whole.data], [method.name for method in whole.methods])
    rows = Rows(store.rows.values())
    if not rows:
        raise BenchmarkError(f"Nothing was measured for {name}: see the lines above.")
    write_page(page, name, whole, rows)
    write(f"{name}: rows in {store.path}, page in {page}")
    return page
