"""How long ``fit`` takes: next to peers, on large tables, as rows and clusters grow, beside a busy core."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.ours import network, ours, with_search
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
from benchmarks.pictures import draw_curves
from benchmarks.stages import REST, STAGES, by_stages
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import METHODS, NETWORKS, chigac_case, mog_case, slow_methods
from benchmarks.summary import Rows, exponent
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "batched", "beside_a_busy_core", "draw_blobs", "draw_ten_features", "growth_table"]

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


# -- growth --------------------------------------------------------------------------------------------

TOO_LONG, LIMIT = 30.0, 120.0
GROWTH = f"""\
CPU seconds of `fit`, one thread, and in brackets the number of clusters found: a method that misses clusters
is quick. The exponent is the slope of log time over log size by least squares; 1 is linear. A method that
takes more than {TOO_LONG:.0f} s is not tried at the next size. Memory is the peak of the method's process at
the largest size, interpreter and libraries included. In the plane, clusters are round, of equal size, and at
least 8 standard deviations apart; in ten features they have all widths and orientations. Networks see a
sample of the rows, as always."""
IN_THE_PLANE = ("AMCP", "DAC", "GaussianSearch", "Clusterer", "BayesianGaussianMixture (60)", "HDBSCAN")
ANY_TABLE = (
    "Clusterer", "GaussianSearch", "DPMixture", "DeepDPM", "BayesianGaussianMixture (50), full", "HDBSCAN",
)  # fmt: skip


def draw_blobs(n: int, k: int, index: int) -> Case:
    """Draw n points of k round clusters of unit spread whose means are at least 8 apart."""
    rng = generator_of(Word.GROWTH, n, k, index)
    side = int(np.ceil(np.sqrt(2 * k)))  # half of the cells are empty: no lattice
    cells = rng.permutation(side * side)[:k]
    means = 12.0 * np.column_stack([cells % side, cells // side]) + rng.uniform(-2.0, 2.0, (k, 2))
    labels = rng.permutation(np.arange(n) % k)
    return Case(means[labels] + rng.standard_normal((n, 2)), index, (labels,))


def draw_ten_features(n: int, index: int) -> Case:
    """Draw n points of 20 Gaussians of all widths and orientations in ten dimensions, as in real features."""
    k, d = 20, 10
    rng = generator_of(Word.DP_SPEED, n, index)
    means = rng.normal(0.0, 2.0, (k, d))
    widths = np.exp(rng.uniform(np.log(0.3), np.log(1.5), (k, d)))
    axes, _ = np.linalg.qr(rng.standard_normal((k, d, d)))
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 4.0)))
    points = np.empty((n, d))
    for cluster in range(k):
        members = labels == cluster
        noise = rng.standard_normal((members.sum(), d)) * widths[cluster]
        points[members] = means[cluster] + noise @ axes[cluster].T
    return Case(points, index, (labels,))


def _seconds_and_k(rows: Rows) -> str:
    if not len(rows.good):
        return rows.names("status")[0].partition(":")[0] if len(rows) else NOTHING
    return f"{significant(rows.describe('cpu_seconds').median)} ({rows.describe('k').median:.0f})"


def growth_table(rows: Rows, sizes: dict[str, int]) -> tuple[str, dict[str, list[tuple[float, float]]]]:
    """A line for each method with its time at every size, by the name of the data; and the same as curves."""
    lines, curves = [], dict[str, list[tuple[float, float]]]()
    for method in rows.names("method"):
        of = {name: rows.of(method, name) for name in sizes}
        curves[method] = [
            (sizes[name], one.describe("cpu_seconds").median) for name, one in of.items() if len(one.good)
        ]
        slope = exponent(*zip(*curves[method], strict=True)) if curves[method] else float("nan")
        memory = [f"{float(row['peak_memory_mb']):.0f}" for one in of.values() for row in one.good]
        cells = [*map(_seconds_and_k, of.values()), NOTHING if np.isnan(slope) else f"{slope:.2f}"]
        lines.append([method, *cells, memory[-1] if memory else NOTHING])
    header = ["method", *(f"{size:,}" for size in sizes.values()), "exponent", "memory, MB"]
    return markdown_table(header, lines), curves


def growth(quick: bool) -> Suite:
    """How the time of ``fit`` grows with the number of rows and of clusters."""
    n_sizes = (500, 1_000) if quick else (1_000, 3_000, 10_000, 30_000, 100_000)
    n_of_k, k_sizes = (1_000, (2, 10)) if quick else (10_000, (2, 5, 10, 20, 50))
    groups: dict[str, tuple[dict[int, Callable[[int], Case]], tuple[str, ...]]] = {
        "10 clusters in the plane, by rows": ({n: partial(draw_blobs, n, 10) for n in n_sizes}, IN_THE_PLANE),
        f"{n_of_k:,} rows in the plane, by clusters": (
            {k: partial(draw_blobs, n_of_k, k) for k in k_sizes}, IN_THE_PLANE,
        ),
        "20 clusters in ten features, by rows": (
            {n: partial(draw_ten_features, n) for n in n_sizes}, ANY_TABLE,
        ),
    }  # fmt: skip
    data = [
        Data(f"{group}: {size:,}", draw, 1, names, group)
        for group, (draws, names) in groups.items()
        for size, draw in draws.items()
    ]
    networks = {"AMCP": "amcp-2d", "DAC": "dac-minimum-loss-2d"}
    methods = [network(name, name, weights, group=None) for name, weights in networks.items()]
    for name in dict.fromkeys((*IN_THE_PLANE[2:], *ANY_TABLE)):
        methods.append(replace(PEERS[name], group=None) if name in PEERS else ours(name))

    def report(rows: Rows, page: Path) -> list[str]:
        parts, panels = [GROWTH, f"![Growth]({page.stem}.png)"], {}
        for group, (draws, _) in groups.items():
            sizes = {f"{group}: {size:,}": size for size in draws}
            table, panels[group] = growth_table(rows.of_data(sizes), sizes)
            parts += [f"## {group}", table]
        draw_curves(panels, page.with_suffix(".png"), "CPU seconds")
        return parts

    return Suite(
        "Growth of the time of fit", data, methods, report, ("ARI", "k", "true k"), time_limit=LIMIT,
        patience=1, too_long=TOO_LONG,
    )  # fmt: skip


# -- busy ----------------------------------------------------------------------------------------------

BUSY = """\
Median seconds of `fit`, by the clock, with the numerical libraries' own number of threads while another
process keeps one core busy, and with one thread and nothing else running; *times* is the ratio of the two.
Run it on two cores that do nothing else."""
BESIDE = ", beside a busy core"


def beside_a_busy_core(build: Callable[[], Run]) -> Run:
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


def busy(quick: bool) -> Suite:
    """How much slower every estimator gets if another process uses one of the cores."""
    n = 300 if quick else 3_000
    plane, table = f"{n:,} rows in the plane", f"{n:,} rows, ten features"
    networks = ("AMCP", "DAC", "ACTST", "CHiGac", "NCP")
    own = {plane: (*networks, *ANY_TABLE[:4]), table: ANY_TABLE[:4]}
    names = {of: tuple(name + end for name in chosen for end in ("", BESIDE)) for of, chosen in own.items()}
    draws = {plane: partial(draw_blobs, n, 10), table: partial(draw_ten_features, n)}
    methods = []
    for method in map(ours, own[plane]):
        methods.append(replace(method, group="quiet"))
        build = partial(beside_a_busy_core, method.build)
        methods.append(replace(method, name=method.name + BESIDE, build=build, group="busy", threads=None))

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [BUSY]
        for of, chosen in own.items():
            lines = []
            for name in chosen:
                pair = [rows.of(one, of).describe("seconds").median for one in (name + BESIDE, name)]
                lines.append([name, *(significant(value) for value in (*pair, pair[0] / pair[1]))])
            parts += [f"## {of}", markdown_table(["estimator", "busy", "quiet", "times"], lines)]
        return parts

    data = [Data(of, draw, 1 if quick else 3, names[of]) for of, draw in draws.items()]
    return Suite("Beside a busy core", data, methods, report, ("ARI", "k"), time_limit=300.0)


SUITES = {"speed": speed, "table-speed": table_speed, "growth": growth, "busy": busy}
