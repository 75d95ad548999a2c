"""How long ``fit`` takes: compared with peers, while another process is busy, and on large tables."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.ours import estimator, ours, with_search
from benchmarks.page import (
    NOTHING,
    Cell,
    markdown_table,
    mean,
    median,
    method_table,
    percent,
    ratio,
    sets,
    significant,
    span,
)  # fmt: skip
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.stages import REST, STAGES, by_stages
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.growth import draw_ten_features, n_threads
from benchmarks.suites.mixtures import METHODS, NETWORKS, chigac_case, mog_case, slow_methods
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "busy_cores"]

# -- speed ---------------------------------------------------------------------------------------------

REFERENCE, BATCHED, STAGED = "BayesianGaussianMixture", with_search("AMCP"), "AMCP, by stages"
SPEED_SETS = {
    "(1000, 4)": partial(mog_case, "(1000, 4)"),
    "(3000, 12)": partial(mog_case, "(3000, 12)"),
    "(200, 4)": partial(chigac_case, "(200, 4)"),
}
SPEED = """\
One thread, all methods in one process, taking turns. Seconds are wall times on one machine and mean little
elsewhere; *times less* is the time of BayesianGaussianMixture (20 diagonal components, at most 1000
iterations) over that of the method: of the medians, of the sums over all data sets, and the median of the
ratios on each data set. Methods with fewer sets are compared on these. *fit_predict_many* gets all sets of
the setting at once; its time is that of the whole divided by their number, the median of 3 runs. So *in
total* compares it with its like, and *medians* its mean with a median."""


def _batch_name(setting: str) -> str:
    return f"{BATCHED}, fit_predict_many, {setting}"


def _is_batch(rows: Rows) -> bool:
    """A batch is compared with the times on all data sets, and has none of its own for each."""
    return any("fit_predict_many" in name for name in rows.names("method"))


def _times_less(average: Callable[[list[float]], float], rows: Rows, everything: Rows) -> str:
    """How many times less an average over data sets is than the reference's on the same ones."""
    own, reference = rows.values("seconds"), everything.of(method=REFERENCE).values("seconds")
    if not _is_batch(rows):
        reference = {key: seconds for key, seconds in reference.items() if key in own}
    if not own or not reference:
        return NOTHING
    return significant(float(average(list(reference.values())) / average(list(own.values()))))


def _ratio_on_each(rows: Rows, everything: Rows) -> str:
    return NOTHING if _is_batch(rows) else ratio("seconds", REFERENCE, inverse=True)(rows, everything)


def batched(setting: str, n_sets: int) -> Run:
    """AMCP on all data sets of a setting at once; the labels are those of the case."""
    import clusterwise

    model = clusterwise.AMCP(random_state=0)
    many = [SPEED_SETS[setting](index).points for index in range(n_sets)]

    def run(case: Case) -> Outcome:
        started = time.perf_counter()
        labels = model.fit_predict_many(many)
        seconds = (time.perf_counter() - started) / len(many)
        return Outcome(np.resize(labels[case.seed], len(case.points)), seconds=seconds)

    return run


def speed(quick: bool) -> Suite:
    """Time per data set, every method on the same sets in the same process; where AMCP's time goes.

    Run it on a machine that does nothing else: other suites' times come from runs of hours.
    """
    n_sets, slow = 5 if quick else 100, slow_methods(20, 20)
    names = (*NETWORKS, "GaussianSearch", REFERENCE, "HDBSCAN")
    together = [replace(METHODS[name], group="speed", max_sets=slow.get(name)) for name in names]
    own = partial(Method, kind="ours", group="speed")
    together.append(own(STAGED, partial(by_stages, "AMCP")))
    together += [own(_batch_name(of), partial(batched, of, n_sets), max_sets=3) for of in SPEED_SETS]
    data = [
        Data(setting, draw, n_sets, (*names, STAGED, _batch_name(setting)))
        for setting, draw in SPEED_SETS.items()
    ]
    columns: dict[str, Cell] = {
        "sets": sets,
        "median ms": median("seconds", scale=1e3),
        "10 % to 90 %": span("seconds", scale=1e3),
        "times less, medians": partial(_times_less, np.median),
        "times less, in total": partial(_times_less, np.mean),
        "times less, median ratio": _ratio_on_each,
    }

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [SPEED]
        for setting in rows.names("data"):
            of = rows.of(data=setting)
            stages = {name: of.of(method=STAGED).describe(name).median for name in (*STAGES, REST)}
            lines = [
                [name, significant(1e3 * value), percent(value / sum(stages.values()))]
                for name, value in stages.items()
            ]
            parts += [f"## {setting}", method_table(of, (*names, _batch_name(setting)), columns)]
            parts.append(f"Where the time of {BATCHED} goes, medians:")
            parts.append(markdown_table(["stage", "median ms", "share"], lines))
        return parts

    return Suite("Time per data set", data, together, report, ("ARI", "k"), (*STAGES, REST))


# -- busy ----------------------------------------------------------------------------------------------

# It ends with the process that started it, even if that was killed.
_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
BUSY = """\
Median seconds of `fit`. *Quiet*: one thread, nothing else runs. *Busy*: as many threads as libraries choose
by themselves, while other processes keep {busy} of the {cores} cores busy. More than 2 times slower would
mean that threads wait for each other."""


@contextmanager
def busy_cores(count: int) -> Iterator[None]:
    """Keep ``count`` cores busy."""
    processes = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def with_busy_cores(name: str) -> Run:
    """An estimator while all cores but one are kept busy."""
    inner = estimator(name)

    def run(case: Case) -> Outcome:
        with busy_cores(max(n_threads() - 1, 1)):
            started = time.perf_counter()
            labels = inner(case).labels
            return Outcome(labels, seconds=time.perf_counter() - started)

    return run


def busy(quick: bool) -> Suite:
    """How much slower ``fit`` gets where only one core is free and torch does not know it.

    A library that starts a thread for every core waits for the slowest of them at each small operation:
    that is many times slower than one thread if a core is busy.
    """
    conditions = "{}, one thread, quiet", "{}, default threads, busy"
    names = {
        "mog (3000, 12)": ("AMCP", "DAC", "ACTST", "NCP", "CHiGac", "GaussianSearch"),
        "1,000 rows, 10 features": ("DPMixture", "DeepDPM"),
    }
    draws = partial(mog_case, "(3000, 12)"), partial(draw_ten_features, 1000)
    methods = [
        method
        for name in (name for of in names.values() for name in of)
        for method in (
            ours(conditions[0].format(name), name),
            Method(conditions[1].format(name), partial(with_busy_cores, name), kind="ours", threads=None),
        )
    ]
    data = [
        Data(setting, draw, 1 if quick else 5, tuple(c.format(name) for name in of for c in conditions))
        for (setting, of), draw in zip(names.items(), draws, strict=True)
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        lines = []
        for setting, name in ((setting, name) for setting, of in names.items() for name in of):
            times = [rows.of(method=c.format(name)).describe("seconds").median for c in conditions]
            lines.append([name, setting, *map(significant, times), significant(times[1] / times[0], 2)])
        header = ["estimator", "data", "one thread, quiet", "default threads, busy", "times slower"]
        cores = n_threads()
        return [BUSY.format(busy=max(cores - 1, 1), cores=cores), markdown_table(header, lines)]

    return Suite("Time while other cores are busy", data, methods, report, ("k",), time_limit=300.0)


# -- tables --------------------------------------------------------------------------------------------

TABLE_SPEED = """\
One thread, all methods in one process on the same tables: ten Gaussian clusters, some of which touch.
MiniBatchKMeans is told the number of clusters. Run it on a machine that does nothing else."""


def clusters(n: int, d: int, index: int) -> Case:
    """Ten Gaussian clusters of n rows and d features."""
    rng = generator_of(Word.TABLE_SPEED, n, d, index)
    labels = rng.integers(0, 10, n)
    return Case(2 * rng.standard_normal((10, d))[labels] + rng.standard_normal((n, d)), index, (labels,))


def table_speed(quick: bool) -> Suite:
    """Time of `cw.Clusterer`, a sweep of Gaussian mixtures, and MiniBatchKMeans, which is given k."""
    sweep, batches = PEERS["GMM + BIC"], REFERENCES["MiniBatchKMeans (true k)"]
    methods = [replace(one, group="speed") for one in (ours("Clusterer"), sweep, batches)]
    references = {"2,000 rows, 8 features": sweep.name, "1,000,000 rows, 16 features": batches.name}
    sizes = (2_000, 8), (20_000 if quick else 1_000_000, 16)
    data = [
        Data(name, partial(clusters, *size), n_sets, ("Clusterer", reference))
        for (name, reference), size, n_sets in zip(
            references.items(), sizes, (2, 1) if quick else (10, 3), strict=True
        )
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [TABLE_SPEED]
        for name, reference in references.items():
            columns: dict[str, Cell] = {
                "sets": sets,
                "median s": median("cpu_seconds"),
                f"times {reference}": ratio("cpu_seconds", reference),
                "ARI": mean("ARI"),
            }
            parts += [f"## {name}", method_table(rows.of(data=name), None, columns)]
        return parts

    return Suite("Time of cw.Clusterer", data, methods, report, ("ARI", "k"), time_limit=300.0)


SUITES = {"speed": speed, "busy": busy, "table-speed": table_speed}
