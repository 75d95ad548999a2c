"""Running a benchmark: every method on every data set in turn, whatever happens to one of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clusterwise._files import whole_or_nothing
from clusterwise.bench.picture import draw_picture
from clusterwise.bench.process import InThisProcess, MethodProcess, Worker
from clusterwise.bench.progress import Progress
from clusterwise.bench.registry import (
    BENCHMARKS,
    METHODS,
    METRICS,
    Benchmark,
    BenchmarkError,
    Case,
    Method,
    Study,
    discover,
    look_up,
)
from clusterwise.bench.results import Key, Result, Results
from clusterwise.bench.scores import score
from clusterwise.bench.summary import Summary, summarize
from clusterwise.bench.table import markdown_page
from clusterwise.bench.versions import versions_of
from clusterwise.bench.worker import Reply, one_line
from clusterwise.exceptions import MissingDependencyError

__all__ = ["PATIENCE", "benchmark_names", "run_benchmark"]

PATIENCE = 5  # time-outs or dead processes in a row before a method is spared the rest of a setting


def benchmark_names() -> list[str]:
    """Names of all benchmarks and studies."""
    discover()
    return list(BENCHMARKS)


def _select_methods(benchmark: Benchmark, wanted: Sequence[str] | None) -> list[Method]:
    names = list(benchmark.methods)
    if wanted is not None:
        chosen = {look_up(METHODS, name, "method").name for name in wanted}
        names = [name for name in METHODS if name in chosen or name == benchmark.oracle]
    return [look_up(METHODS, name, "method") for name in names]


@dataclass
class _Patience:
    """Counts time-outs and dead processes in a row, per method and setting."""

    streaks: dict[tuple[str, str], int] = field(default_factory=dict)

    def is_over(self, method: str, setting: str) -> bool:
        return self.streaks.get((method, setting), 0) >= PATIENCE

    def note(self, method: str, setting: str, status: str) -> None:
        hopeless = status == "timeout" or status.startswith("error: the process ended")
        self.streaks[method, setting] = self.streaks.get((method, setting), 0) + 1 if hopeless else 0


def _judge(reply: Reply, case: Case, metrics: Sequence[str], versions: str) -> Result:
    values, status = dict.fromkeys(metrics, float("nan")), reply.status
    if reply.labels is not None:
        try:
            for name in metrics:
                values[name] = score(METRICS[name], case, reply.labels, reply.log_likelihood)
        except Exception as error:
            values, status = dict.fromkeys(metrics, float("nan")), one_line(error)
    return Result(values, reply.seconds, reply.peak_memory_mb, status, versions)


def _measure_all(
    benchmark: Benchmark,
    methods: Sequence[Method],
    metrics: Sequence[str],
    n_sets: int,
    results: Results,
    processes: dict[str, MethodProcess | InThisProcess],
    versions: dict[str, str],
    limit: float,
    write: Callable[[str], object],
) -> list[Key]:
    """Fill ``results``; return the keys of this run in order."""
    patience = _Patience()
    counts = {setting: benchmark.sets_of(setting, n_sets) for setting in benchmark.settings}
    progress = Progress(benchmark.name, sum(counts.values()), write)
    order: list[Key] = []
    done = 0
    for index in range(n_sets):
        for setting, count in counts.items():  # in turn, so that the estimate of the time left is fair
            if index >= count:
                continue
            case: Case | None = None
            for method in methods:
                if not benchmark.measures(method.name, setting, index):
                    continue
                key = (method.name, setting, index)
                order.append(key)
                result = results.get(key)
                if result is None or not result.is_final:
                    if case is None:
                        case = benchmark.draw(setting, index)
                    if patience.is_over(method.name, setting):
                        reply = Reply(f"skipped: {PATIENCE} time-outs or crashes in a row")
                    else:
                        reply = processes[method.name].run(case, limit)
                    result = _judge(reply, case, metrics, versions[method.name])
                    results.add(key, result)
                    if index == 0 and result.status != "ok":
                        write(f"{benchmark.name}: {method.name}, {setting}: {result.status}")
                if not result.status.startswith("skipped"):
                    patience.note(method.name, setting, result.status)
            done += 1
            progress.step(done, case is not None)
    return order


def run_benchmark(
    name: str,
    out: str | Path,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    write: Callable[[str], object] = print,
    *,
    n_sets: int | None = None,
    time_limit: float | None = None,
    threads: int = 1,
    redo: Sequence[str] = (),
    isolated: bool = True,
) -> Path:
    """Measure methods on a benchmark; write ``NAME.csv.gz``, ``NAME.md`` and ``NAME.png`` to ``out``.

    Results that ``out`` already holds are kept, so a killed run goes on where it stopped and a quick
    one is the beginning of a full one; errors are tried again.

    Parameters
    ----------
    name : str
        One of ``benchmark_names()``. A study takes ``out``, ``quick`` and ``write`` only.
    out : path
        Directory of the results; made if needed.
    quick : bool
        Only the first few data sets of every setting.
    methods : sequence of str or None
        Only these, and the oracle.
    write : callable
        Gets a line of text now and then.
    n_sets : int or None
        Data sets per setting, instead of the benchmark's own number; the benchmark may hold a setting
        to fewer.
    time_limit : float or None
        Seconds for one method on one data set, instead of the benchmark's own limit.
    threads : int
        Threads that numerical libraries may use, the same for every method.
    redo : sequence of str
        Methods whose earlier results are dropped.
    isolated : bool
        Whether methods have processes of their own, or of their group. False runs them here, for a
        debugger: no time-outs, a crash is a crash, and memory is that of everything together.

    Returns
    -------
    Path
        The Markdown page.
    """
    discover()
    benchmark = look_up(BENCHMARKS, name, "benchmark")
    if importlib.util.find_spec("matplotlib") is None:  # now, not after hours
        raise MissingDependencyError("The picture needs matplotlib: pip install 'clusterwise[bench]'.")
    if isinstance(benchmark, Study):
        if methods is not None or n_sets is not None or time_limit is not None or redo:
            raise BenchmarkError(f"{name} is a study with methods and sizes of its own; choose none for it.")
        Path(out).mkdir(parents=True, exist_ok=True)
        return benchmark.run(Path(out), quick, write)
    chosen = _select_methods(benchmark, methods)
    everywhere = [name for name, metric in METRICS.items() if metric.everywhere]
    metrics = everywhere if benchmark.metrics is None else list(benchmark.metrics)
    for metric in metrics:
        look_up(METRICS, metric, "metric")
    count = n_sets if n_sets is not None else benchmark.quick_n_sets if quick else benchmark.n_sets
    if count < 1 or threads < 1:
        raise BenchmarkError(f"n_sets and threads must be at least 1; got {count} and {threads}.")
    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)

    results = Results(directory, name, metrics)
    results.forget(look_up(METHODS, method, "method").name for method in redo)
    results.start()
    limit = benchmark.time_limit if time_limit is None else time_limit
    versions = {method.name: versions_of(method, threads) for method in chosen}
    older = {key[0] for key, result in results if result.is_final and result.versions != versions.get(key[0])}
    if older & versions.keys():
        names = ", ".join(sorted(older & versions.keys()))
        write(f"{name}: keeping results of {names} from other versions; delete {results.path} to renew")
    with ExitStack() as stack:
        processes: dict[str, MethodProcess | InThisProcess] = {}
        workers: dict[str, Worker] = {}
        for method in chosen:
            if isolated:
                group = method.group or method.name
                if group not in workers:
                    workers[group] = stack.enter_context(Worker(threads))
                processes[method.name] = MethodProcess(method, threads, workers[group])
            else:
                processes[method.name] = InThisProcess(method)
        order = _measure_all(benchmark, chosen, metrics, count, results, processes, versions, limit, write)
    results.finish(order)
    page = _publish(benchmark, metrics, results, directory)
    write(f"{name}: results in {results.path}, table in {page}, picture in {page.with_suffix('.png')}")
    return page


def _publish(benchmark: Benchmark, metrics: Sequence[str], results: Results, directory: Path) -> Path:
    summaries = summarize(results, benchmark, metrics)
    versions: dict[str, set[str]] = {}
    for (method, _, _), result in results:
        versions.setdefault(result.versions, set()).add(method)
    page = directory / f"{benchmark.name}.md"
    drawings: dict[Path, Callable[[Sequence[Summary], Path], None]] = {
        page.with_suffix(".png"): partial(draw_picture, benchmark)
    }
    if benchmark.second_picture is not None:
        drawings[directory / f"{benchmark.name}-2.png"] = benchmark.second_picture
    for picture, draw in drawings.items():
        with whole_or_nothing(picture) as temporary:
            draw(summaries, temporary)
    with whole_or_nothing(page) as temporary:
        text = markdown_page(benchmark, summaries, metrics, versions, [picture.name for picture in drawings])
        temporary.write_text(text, encoding="utf-8")
    return page
