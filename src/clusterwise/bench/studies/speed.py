"""Time per data set, every method on the same sets in the same process, one thread; where AMCP's time goes.

Run it on a machine that does nothing else: the judge's own times come from runs of hours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.benchmarks import chigac, mog
from clusterwise.bench.methods.amortized import with_search
from clusterwise.bench.methods.lineup import NETWORKS, slow_methods
from clusterwise.bench.progress import Progress
from clusterwise.bench.registry import METHODS, Case, Outcome, Study, register
from clusterwise.bench.rows import RowFile
from clusterwise.bench.summary import describe, paired_ratios
from clusterwise.bench.table import markdown_table, significant
from clusterwise.bench.versions import versions_of

__all__ = ["BATCHED", "REFERENCE", "REST", "STAGES", "run", "stage_seconds"]

TITLE = "Time per data set"
REFERENCE = "BayesianGaussianMixture"
ONE_BY_ONE = (*NETWORKS, "GaussianSearch", REFERENCE, "HDBSCAN")
BATCHED = with_search("AMCP")  # in batches too, and stage by stage
STAGES, REST = ("prepare", "propose", "refine", "describe"), "checks, storing"
# DAC's test sets, and the smaller ones of CHiGac.
DRAW_CASE = dict.fromkeys(mog.SETTINGS, mog.draw_case) | {"(200, 4)": chigac.draw_case}
N_SETS, QUICK_N_SETS, N_WARM_UP, N_BATCHES = 100, 10, 3, 3
SLOW = slow_methods(networks=20, mixtures=20)
INTRODUCTION = """\
One thread, all methods in one process, taking turns. Seconds are wall times on one machine and mean little
elsewhere; *times less* is the time of BayesianGaussianMixture (20 diagonal components, at most 1000
iterations) over that of the method: of the medians, and the median of the ratios on each data set. Of methods
with fewer sets both are taken on these. *fit_predict_many* gets all sets of the setting at once; its time is
that of the whole divided by their number, the median of {batches} runs."""

COLUMNS = ("setting", "method", "part", "index", "identity", "seconds")


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


class _Timed:
    """An estimator's pipeline, with a clock for each stage."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline, self.seconds = pipeline, dict.fromkeys(STAGES, 0.0)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.pipeline, name)
        if name not in STAGES:
            return found

        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            result = found(*args)
            self.seconds[name] += time.perf_counter() - started
            return result

        return timed


def stage_seconds(estimator: Any, points: np.ndarray) -> dict[str, float]:
    """Seconds of one ``fit`` on points (n, d) by stages, and of the rest: checks, attributes, warnings."""
    clock = _Timed(estimator._pipeline())
    estimator._pipeline = lambda: clock
    try:
        whole = _seconds(partial(estimator.fit, points))
    finally:
        del estimator._pipeline  # which the class has, too
    return clock.seconds | {REST: whole - sum(clock.seconds.values())}


class _Measurement:
    """One setting: its data sets, and the rows that are there already."""

    def __init__(
        self, setting: str, cases: Sequence[Case], rows: RowFile, identities: dict[str, str]
    ) -> None:
        import clusterwise

        self.setting, self.cases, self.rows, self.identities = setting, cases, rows, identities
        self.estimator = clusterwise.AMCP(random_state=0)

    def is_known(self, method: str, part: str, index: int) -> bool:
        return (self.setting, method, part, index) in self.rows

    def add(self, method: str, part: str, index: int, seconds: float) -> None:
        key = (self.setting, method, part, index, self.identities[method], f"{seconds:.6g}")
        self.rows.add(dict(zip(COLUMNS, key, strict=True)))

    def missing(self, index: int, methods: Sequence[str]) -> list[str]:
        wanted = (name for name in methods if index < SLOW.get(name, index + 1))
        return [name for name in wanted if not self.is_known(name, "fit", index)]

    def one_by_one(self, index: int, runners: dict[str, Callable[[Case], Outcome]]) -> bool:
        """Every method on one data set; whether anything was left to do."""
        case, missing = self.cases[index], self.missing(index, list(runners))
        for name in missing:
            self.add(name, "fit", index, _seconds(partial(runners[name], case)))
        without_stages = not self.is_known(BATCHED, STAGES[0], index)
        if without_stages:
            for stage, seconds in stage_seconds(self.estimator, case.points).items():
                self.add(BATCHED, stage, index, seconds)
        return bool(missing) or without_stages

    def batches(self) -> None:
        sets = [case.points for case in self.cases]
        for index in range(N_BATCHES):
            # How many sets there are decides the time of each, so that a quick run's batches are its own.
            part = f"batch of {len(sets)}"
            if not self.is_known(BATCHED, part, index):
                seconds = _seconds(partial(self.estimator.fit_predict_many, sets))
                self.add(BATCHED, part, index, seconds / len(sets))


def _identity(method: str) -> str:
    found = METHODS[method].identity
    return "" if found is None else found()


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write the raw rows to ``speed.csv`` and the page to ``speed.md``."""
    identities = {name: _identity(name) for name in ONE_BY_ONE}
    rows = RowFile(
        out / "speed.csv", COLUMNS, 4, lambda row: identities.get(row["method"]) == row["identity"]
    )
    n_sets = QUICK_N_SETS if quick else N_SETS
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runners = {name: METHODS[name].build() for name in ONE_BY_ONE}
        progress = Progress("speed", n_sets * len(DRAW_CASE), write)
        for done, (setting, draw_case) in enumerate(DRAW_CASE.items()):
            cases = [draw_case(setting, index).blind() for index in range(n_sets)]
            measurement = _Measurement(setting, cases, rows, identities)
            if any(measurement.missing(index, ONE_BY_ONE) for index in range(n_sets)):
                for case in cases[:N_WARM_UP]:
                    for runner in runners.values():
                        runner(case)
            for index in range(n_sets):
                progress.step(done * n_sets + index + 1, measurement.one_by_one(index, runners))
            measurement.batches()
    page = out / "speed.md"
    with whole_or_nothing(page) as temporary:
        temporary.write_text(_page(rows.finish(), n_sets), encoding="utf-8")
    write(f"speed: raw rows in {rows.path}, page in {page}")
    return page


# -- the page ----------------------------------------------------------------------------------------

Times = dict[str, dict[int, float]]  # by method or part, then by data set


def _times(rows: Sequence[dict[str, str]], setting: str, n_sets: int) -> tuple[Times, Times]:
    """Seconds of fits by method, and of AMCP's other parts."""
    fits: Times = {}
    parts: Times = {}
    for row in rows:
        index, seconds = int(row["index"]), float(row["seconds"])
        if row["setting"] == setting and index < n_sets:
            if row["part"] == "fit":
                fits.setdefault(row["method"], {})[index] = seconds
            else:
                parts.setdefault(row["part"], {})[index] = seconds
    return fits, parts


def _table(fits: Times, batches: dict[int, float]) -> str:
    reference, lines = fits[REFERENCE], []
    for name, seconds in fits.items():
        statistic = describe(seconds.values())
        ratios = describe(paired_ratios(reference, seconds)[0])
        of_medians = describe(reference[index] for index in seconds).median / statistic.median
        spread = f"{significant(1e3 * statistic.low)} to {significant(1e3 * statistic.high)}"
        cells = [str(statistic.count), significant(1e3 * statistic.median), spread]
        lines.append([name, *cells, f"{of_medians:.2f}", f"{ratios.median:.2f}"])
    if batches:
        each = describe(batches.values()).median
        ratio = describe(reference.values()).median / each
        count = str(len(reference))
        lines.append(
            [f"{BATCHED}, fit_predict_many", count, significant(1e3 * each), "–", f"{ratio:.2f}", "–"]
        )
    header = [
        "method",
        "sets",
        "median ms",
        "10 % to 90 %",
        "times less, medians",
        "times less, median ratio",
    ]
    return markdown_table(header, lines)


def _breakdown(parts: Times) -> str:
    """Medians over the data sets, and each as a share of their sum."""
    medians = {part: describe(parts[part].values()).median for part in (*STAGES, REST)}
    whole = sum(medians.values())
    return markdown_table(
        ["stage", "median ms", "share"],
        [[part, significant(1e3 * value), f"{100 * value / whole:.0f} %"] for part, value in medians.items()],
    )


def _page(rows: Sequence[dict[str, str]], n_sets: int) -> str:
    parts = [f"# {TITLE}", INTRODUCTION.format(batches=N_BATCHES)]
    for setting in DRAW_CASE:
        fits, others = _times(rows, setting, n_sets)
        parts += [f"## {setting}, {n_sets} data sets"]
        parts += [_table(fits, others.get(f"batch of {n_sets}", {}))]
        parts += [f"Where the time of {BATCHED} goes, medians:", _breakdown(others)]
    identities = dict.fromkeys(row["identity"].removesuffix(", untrained") for row in rows if row["identity"])
    parts += ["## Versions", f"{versions_of(METHODS[REFERENCE], 1)}; weights {', '.join(identities)}."]
    return "\n\n".join(parts) + "\n"


register(Study("speed", TITLE, run))
