"""How long ``fit`` takes: next to peers, on large tables, next to another process."""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import clusterwise
from benchmarks import page
from benchmarks.ours import alone, ours
from benchmarks.page import NOTHING, significant
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.processes import timed
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import CHIGAC, METHODS, MOG, NETWORKS, slow_methods
from benchmarks.summary import Cell, Rows
from benchmarks.synthetic import Word, generator_of

BATCH_NAME = f"{alone('AMCP')}, fit_predict_many, {{}}".format
REFERENCE, BATCHED, STAGED = "BayesianGaussianMixture", alone("AMCP"), "AMCP, by stages"
STAGES, REST = ("sort", "cluster", "assign"), "checks, storing"
SPEED_SETS = {**MOG, "(200, 4)": CHIGAC["(200, 4)"]}


def stage_seconds(estimator: Any, points: np.ndarray) -> dict[str, float]:
    """Seconds of one ``fit`` on points (n, d) by stages, and of the rest: checks, attributes, warnings."""
    spent = defaultdict[str, float](float)
    base: Any = import_module("clusterwise.fitting.base")
    network: Any = import_module("clusterwise.papers.estimator")
    steps = (
        (base, "sort_rows", "sort"),
        (network.NetworkMethod, "cluster", "cluster"),
        (base, "assign_rows", "assign"),
    )
    plain = [getattr(holder, name) for holder, name, _ in steps]
    for (holder, name, stage), function in zip(steps, plain, strict=True):
        setattr(holder, name, timed(spent, stage, function))
    try:
        timed(spent, REST, estimator.fit)(points)
    finally:
        for (holder, name, _), function in zip(steps, plain, strict=True):
            setattr(holder, name, function)
    seconds = {name: spent[name] for name in STAGES}
    return seconds | {REST: spent[REST] - sum(seconds.values())}


def by_stages(name: str) -> Run:
    """One of our estimators whose ``more`` are the seconds of its stages."""
    model = getattr(clusterwise, name)(random_state=0)

    def run(case: Case) -> Outcome:
        seconds = stage_seconds(model, case.points)
        return Outcome(model.labels_, more=lambda case: seconds, seconds=sum(seconds.values()))

    return run


def batched(setting: str, n_sets: int) -> Run:
    """AMCP on all data sets of a setting at once; the labels are those of the case."""
    model = clusterwise.AMCP(random_state=0)
    many = [SPEED_SETS[setting](index).points for index in range(n_sets)]

    def run(case: Case) -> Outcome:
        started = time.perf_counter()
        labels = model.fit_predict_many(many)
        seconds = (time.perf_counter() - started) / len(many)
        return Outcome(np.resize(labels[case.seed], len(case.points)), seconds=seconds)

    return run


def _of_batch(rows: Rows) -> bool:
    return "fit_predict_many" in rows[0]["method"]


def _times_less(average: Callable[[list[float]], float], rows: Rows, everything: Rows) -> str:
    """How many times less an average over data sets is than the reference's on the same ones."""
    own, reference = rows.values("seconds"), everything.of(method=REFERENCE).values("seconds")
    if not _of_batch(rows):  # which is compared with the times on all data sets
        reference = {key: seconds for key, seconds in reference.items() if key in own}
    if not own or not reference:
        return NOTHING
    return significant(float(average(list(reference.values())) / average(list(own.values()))))


def speed(quick: bool) -> Suite:
    n_sets, slow = 5 if quick else 100, slow_methods(20, 20)
    names = (*NETWORKS, "GaussianSearch", REFERENCE, "HDBSCAN")
    own = partial(Method, kind="ours", group="speed")
    together = [replace(METHODS[name], group="speed", max_sets=slow.get(name)) for name in names]
    together.append(own(STAGED, partial(by_stages, "AMCP")))
    together += [own(BATCH_NAME(of), partial(batched, of, n_sets), max_sets=3) for of in SPEED_SETS]
    data = [Data(of, draw, n_sets, (*names, STAGED, BATCH_NAME(of))) for of, draw in SPEED_SETS.items()]
    on_each = page.ratio("seconds", REFERENCE, inverse=True)
    columns: dict[str, Cell] = {
        "sets": page.sets,
        "median ms": page.median("seconds", scale=1e3),
        "10 % to 90 %": page.span("seconds", scale=1e3),
        "times less, medians": partial(_times_less, np.median),
        "times less, in total": partial(_times_less, np.mean),
        "times less, median ratio": lambda rows, all_: NOTHING if _of_batch(rows) else on_each(rows, all_),
    }

    def report(rows: Rows, path: Path) -> list[str]:
        parts = []
        for setting in rows.names("data"):
            of = rows.of(data=setting)
            stages = {name: of.of(method=STAGED).describe(name).median for name in (*STAGES, REST)}
            whole = sum(stages.values())
            lines = [[name, significant(1e3 * t), page.percent(t / whole)] for name, t in stages.items()]
            parts += [f"## {setting}", page.method_table(of, (*names, BATCH_NAME(setting)), columns)]
            parts.append(f"Where the time of {BATCHED} goes, medians:")
            parts.append(page.markdown_table(["stage", "median ms", "share"], lines))
        return parts

    return Suite(data, together, report=report, metrics=("ARI", "k"), columns=(*STAGES, REST))


def clusters(n: int, d: int, index: int) -> Case:
    """Ten Gaussian clusters of n rows and d features, some of which touch."""
    rng = generator_of(Word.TABLE_SPEED, n, d, index)
    labels = rng.integers(0, 10, n)
    return Case(2 * rng.standard_normal((10, d))[labels] + rng.standard_normal((n, d)), index, (labels,))


def table_speed(quick: bool) -> Suite:
    sweep, batches = PEERS["GMM + BIC"], REFERENCES["MiniBatchKMeans (true k)"]
    methods = [replace(one, group="speed") for one in (ours("Clusterer"), sweep, batches)]
    small, large = partial(clusters, 2_000, 8), partial(clusters, 20_000 if quick else 1_000_000, 16)
    data = [
        Data("2,000 rows, 8 features", small, 2 if quick else 10, ("Clusterer", sweep.name)),
        Data("1,000,000 rows, 16 features", large, 1 if quick else 3, ("Clusterer", batches.name)),
    ]

    def times_peer(rows: Rows, everything: Rows) -> str:
        (peer,) = set(everything.names("method")) & {sweep.name, batches.name}
        return page.ratio("cpu_seconds", peer)(rows, everything)

    seconds = page.median("cpu_seconds")
    columns = {"sets": page.sets, "median s": seconds, "times the peer": times_peer, "ARI": page.mean("ARI")}
    return Suite(data, methods, columns, metrics=("ARI", "k"), time_limit=300.0)


BESIDE = ", next to another process"


def next_to_another_process(build: Callable[[], Run]) -> Run:
    """The same method while another process uses one core; the clock does not count its start."""
    run = build()

    def busy(case: Case) -> Outcome:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            try:
                started = time.perf_counter()
                outcome = run(case)
                return replace(outcome, seconds=time.perf_counter() - started)
            finally:
                other.kill()

    return busy


def _times_quiet(rows: Rows, everything: Rows) -> str:
    """Median seconds over those of the same method without the other process."""
    (name,) = rows.names("method")
    quiet = everything.of(method=name.removesuffix(BESIDE)).describe("seconds").median
    return significant(rows.describe("seconds").median / quiet) if name.endswith(BESIDE) else NOTHING


def busy(quick: bool) -> Suite:
    tables = ("Clusterer", "GaussianSearch", "DPMixture", "DeepDPM")
    plane = ("AMCP", "DAC", "ACTST", "CHiGac", "NCP", *tables)
    quiet = [replace(ours(name), group="quiet") for name in plane]
    methods = []
    for one in quiet:
        build = partial(next_to_another_process, one.build)
        methods += [one, Method(one.name + BESIDE, build, "ours", group="busy", threads=None)]
    of_tables = tuple(name + end for name in tables for end in ("", BESIDE))
    in_the_plane, n_sets = MOG["(1000, 4)" if quick else "(3000, 12)"], 1 if quick else 3
    wide = partial(clusters, 500 if quick else 3_000, 8)
    data = [Data("two features", in_the_plane, n_sets), Data("eight features", wide, n_sets, of_tables)]
    columns = {"median seconds": page.median("seconds"), "times": _times_quiet}
    return Suite(data, methods, columns, metrics=("ARI", "k"), time_limit=300.0)


SUITES = {"speed": speed, "table-speed": table_speed, "busy": busy}
