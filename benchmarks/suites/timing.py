"""How long ``fit`` takes: beside peers, beside a busy core, and as data grow."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.ours import OURS, amortized, estimator, ours, weights_identity, with_search
from benchmarks.page import (
    NOTHING,
    Cell,
    markdown_table,
    median,
    method_table,
    ratio,
    sets,
    significant,
    span,
)  # fmt: skip
from benchmarks.peers import PEERS, bayesian_mixture
from benchmarks.plots import Curve, draw_curves
from benchmarks.scores import n_clusters
from benchmarks.stages import REST, STAGES, by_stages, stage_cells
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import METHODS, NETWORKS, chigac_case, mog_case, slow_methods
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "busy_cores", "draw_blobs", "draw_ten_features", "exponent", "n_threads"]


def n_threads() -> int:
    """Threads that the machine gives to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log time over log size by least squares; NaN for fewer than two sizes.

    >>> round(exponent([10, 100, 1000], [2.0, 20.0, 200.0]), 6)
    1.0
    """
    if len(set(sizes)) < 2:
        return math.nan
    return float(np.polynomial.Polynomial.fit(np.log(sizes), np.log(seconds), 1).convert().coef[1])


# -- speed ---------------------------------------------------------------------------------------------

REFERENCE, BATCHED = "BayesianGaussianMixture", with_search("AMCP")
SPEED_SETS = {
    "(1000, 4)": partial(mog_case, "(1000, 4)"),
    "(3000, 12)": partial(mog_case, "(3000, 12)"),
    "(200, 4)": partial(chigac_case, "(200, 4)"),
}
SPEED = """\
One thread, all methods in one process, taking turns. Seconds are wall times on one machine and mean little
elsewhere; *times less* is the time of BayesianGaussianMixture (20 diagonal components, at most 1000
iterations) over that of the method: of the medians, and the median of the ratios on each data set. Methods
with fewer sets are compared on these. *fit_predict_many* gets all sets of the setting at once; its time is
that of the whole divided by their number, the median of 3 runs."""


def _batch_name(setting: str) -> str:
    return f"{BATCHED}, fit_predict_many, {setting}"


def _times_less(rows: Rows, everything: Rows) -> str:
    """Median time of the reference over that of the method; on all data sets for a batch of all of them."""
    own = rows.values("seconds")
    reference = everything.of(method=REFERENCE).values("seconds")
    if rows.names("method") and "fit_predict_many" not in rows.names("method")[0]:
        reference = {key: seconds for key, seconds in reference.items() if key in own}
    if not own or not reference:
        return NOTHING
    return significant(float(np.median(list(reference.values())) / np.median(list(own.values()))))


def _ratio_on_each(rows: Rows, everything: Rows) -> str:
    """Median ratio on each data set; a batch has no time of its own for each."""
    if any("fit_predict_many" in name for name in rows.names("method")):
        return NOTHING
    return ratio("seconds", REFERENCE, inverse=True)(rows, everything)


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
    n_sets, staged, slow = 5 if quick else 100, "AMCP, by stages", slow_methods(20, 20)
    names = (*NETWORKS, "GaussianSearch", REFERENCE, "HDBSCAN")
    together = [replace(METHODS[name], group="speed", max_sets=slow.get(name)) for name in names]
    together.append(Method(staged, partial(by_stages, "AMCP"), kind="ours", group="speed"))
    batches = [
        Method(
            _batch_name(setting), partial(batched, setting, n_sets), kind="ours", group="speed", max_sets=3
        )
        for setting in SPEED_SETS
    ]
    data = [
        Data(setting, draw, n_sets, (*names, staged, _batch_name(setting)))
        for setting, draw in SPEED_SETS.items()
    ]
    columns: dict[str, Cell] = {
        "sets": sets,
        "median ms": median("seconds", scale=1e3),
        "10 % to 90 %": span("seconds", scale=1e3),
        "times less, medians": _times_less,
        "times less, median ratio": _ratio_on_each,
    }

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [SPEED]
        for setting in SPEED_SETS:
            of = rows.of(data=setting)
            stages = {name: of.of(method=staged).describe(name).median for name in (*STAGES, REST)}
            lines = [
                [name, significant(1e3 * value), f"{100 * value / sum(stages.values()):.0f} %"]
                for name, value in stages.items()
            ]
            parts += [f"## {setting}", method_table(of, (*names, _batch_name(setting)), columns)]
            parts.append(f"Where the time of {BATCHED} goes, medians:")
            parts.append(markdown_table(["stage", "median ms", "share"], lines))
        return parts

    return Suite(
        "Time per data set", data, [*together, *batches], report, ("ARI", "k"), (*STAGES, REST), stage_cells
    )


# -- busy ----------------------------------------------------------------------------------------------

# It ends with the process that started it, even if that was killed.
_SPIN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


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


def beside_busy_cores(name: str) -> Run:
    """An estimator while all cores but one are kept busy."""
    inner = estimator(name)

    def run(case: Case) -> Outcome:
        with busy_cores(max(n_threads() - 1, 1)):
            started = time.perf_counter()
            labels = inner(case).labels
            return Outcome(labels, seconds=time.perf_counter() - started)

    return run


def _ten_features(index: int) -> Case:
    return draw_ten_features(1000, index)


def busy(quick: bool) -> Suite:
    """How much slower ``fit`` gets where only one core is free and torch does not know it.

    A library that starts a thread for every core waits for the slowest of them at each small operation:
    beside a busy core that is many times slower than one thread.
    """
    in_plane = ("AMCP", "DAC", "ACTST", "NCP", "CHiGac", "GaussianSearch")
    elsewhere = ("DPMixture", "DeepDPM")
    quiet_name, busy_name = "{}, one thread, quiet".format, "{}, default threads, busy".format
    methods: list[Method] = []
    for name in (*in_plane, *elsewhere):
        methods.append(ours(quiet_name(name), name))
        loaded = partial(beside_busy_cores, name)
        methods.append(Method(busy_name(name), loaded, kind="ours", threads=None))

    def both(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(condition(name) for name in names for condition in (quiet_name, busy_name))

    repeats = 1 if quick else 5
    data = [
        Data("mog (3000, 12)", partial(mog_case, "(3000, 12)"), repeats, both(in_plane)),
        Data("1,000 rows, 10 features", _ten_features, repeats, both(elsewhere)),
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        lines = []
        for name in (*in_plane, *elsewhere):
            times = [rows.of(method=one(name)).describe("seconds").median for one in (quiet_name, busy_name)]
            where = (rows.of(method=quiet_name(name)).names("data") or [NOTHING])[0]
            lines.append([name, where, *map(significant, times), significant(times[1] / times[0], 2)])
        introduction = (
            f"Median seconds of `fit` over {repeats} data sets. *Quiet*: one thread, nothing else runs. "
            "*Busy*: as many threads as libraries choose by themselves, while other processes keep "
            f"{max(n_threads() - 1, 1)} of the {n_threads()} cores busy. More than 2 times slower would mean "
            "that threads wait for each other."
        )
        header = ["estimator", "data", "one thread, quiet", "default threads, busy", "times slower"]
        return [introduction, markdown_table(header, lines)]

    return Suite("Time beside a busy core", data, methods, report, ("k",), time_limit=300.0)


# -- DPMixture -----------------------------------------------------------------------------------------

N_CLUSTERS, N_FEATURES, MEAN_SD, WIDTHS = 20, 10, 2.0, (0.3, 1.5)
N_WARM_UP, N_DRAWS = 60, 100
ONE_CHAIN, MAPPED = "DPMixture, one chain", "DPMixture, one chain, memmap"
DP_SPEED = f"""\
Mixtures of {N_CLUSTERS} Gaussians in {N_FEATURES} dimensions, of unlike sizes, with standard deviations from
{WIDTHS[0]} to {WIDTHS[1]} along axes of their own; each method in its own process. *DPMixture* has its
defaults: full covariances, two chains one after the other, {N_WARM_UP} steps and {N_DRAWS} draws each.
*BayesianGaussianMixture* has 50 components and its defaults: full covariances, at most 100 iterations, raw
features. Wall times of one machine; what counts is their ratio in the same run. Memory is the peak of the
method's own process, interpreter and libraries included; pages of a mapped file count while they are in
memory."""


def draw_ten_features(n: int, index: int) -> Case:
    """Draw n points of 20 Gaussians of all widths and orientations in ten dimensions, as in real features."""
    rng = generator_of(Word.DP_SPEED, n, index)
    means = rng.normal(0.0, MEAN_SD, (N_CLUSTERS, N_FEATURES))
    widths = np.exp(rng.uniform(np.log(WIDTHS[0]), np.log(WIDTHS[1]), (N_CLUSTERS, N_FEATURES)))
    axes, _ = np.linalg.qr(rng.standard_normal((N_CLUSTERS, N_FEATURES, N_FEATURES)))
    labels = rng.choice(N_CLUSTERS, n, p=rng.dirichlet(np.full(N_CLUSTERS, 4.0)))
    points = np.empty((n, N_FEATURES))
    for cluster in range(N_CLUSTERS):
        members = labels == cluster
        noise = rng.standard_normal((members.sum(), N_FEATURES)) * widths[cluster]
        points[members] = means[cluster] + noise @ axes[cluster].T
    return Case(points, index, (labels,))


def mapped() -> Run:
    """DPMixture with one chain on a file that is mapped and not read."""
    from clusterwise.estimators import DPMixture

    def run(case: Case) -> Outcome:
        with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = Path(directory) / "points.npy"
            np.save(file, case.points)
            started = time.perf_counter()
            model = DPMixture(random_state=case.seed, n_chains=1).fit(np.load(file, mmap_mode="r"))
            return Outcome(model.labels_, seconds=time.perf_counter() - started)

    return run


def dp_speed(quick: bool) -> Suite:
    """Time of DPMixture beside BayesianGaussianMixture, and how it grows with the number of points."""
    sizes = {f"N = {n:,}": n for n in ((500, 1_000) if quick else (3_000, 10_000, 30_000, 100_000))}
    race = list(sizes)[-1]
    variational = PEERS["BayesianGaussianMixture (50), full"]
    methods = [ours(ONE_CHAIN, "DPMixture", n_chains=1)]
    for threads in dict.fromkeys((1, n_threads())):
        suffix = f", {threads} thread{'s' if threads > 1 else ''}"
        for method in (ours("DPMixture"), variational):
            methods.append(replace(method, name=method.name + suffix, group=None, threads=threads))
    methods.append(Method(MAPPED, mapped, kind="ours"))
    data = [
        Data(name, partial(draw_ten_features, n), 1, None if name == race else (ONE_CHAIN,), "points")
        for name, n in sizes.items()
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        steps = N_WARM_UP + N_DRAWS
        growth = rows.of(method=ONE_CHAIN).good
        times = {sizes[row["data"]]: float(row["seconds"]) / steps for row in growth if row["data"] in sizes}
        slope = exponent(list(times), list(times.values()))
        curve = [(n, 1e3 * t, 1e3 * t, 1e3 * t) for n, t in times.items()]
        panel = {f"one chain: exponent {slope:.2f}": curve}
        path = page.with_suffix(".png")
        draw_curves({"Milliseconds per sampler step, one thread": panel}, path, ["N"], ["ms"])

        def to_reference(of: Rows, everything: Rows) -> str:
            threads = of.names("method")[0].partition(" thread")[0][-1]
            threads = threads if threads.isdigit() else "1"
            same = [name for name in everything.names("method") if name.startswith(variational.name)]
            reference = next(
                (name for name in same if name.endswith(f"{threads} thread" + "s" * (threads != "1"))), ""
            )
            return ratio("seconds", reference)(of, everything)

        columns: dict[str, Cell] = {
            "seconds": median("seconds"),
            "of BayesianGaussianMixture's": to_reference,
            "K": median("k", 0),
            "ARI": median("ARI", 4),
            "peak memory, MB": median("peak_memory_mb"),
        }
        at_race = rows.of(data=race)
        lines = []
        for row in growth:
            milliseconds = significant(1e3 * times[sizes[row["data"]]])
            figures = [significant(float(row["peak_memory_mb"])), f"{float(row['k']):g}", row["ARI"][:6]]
            lines.append([row["data"], significant(float(row["seconds"])), milliseconds, *figures])
        header = ["one chain", "seconds", "milliseconds per step", "peak memory, MB", "K", "ARI"]
        return [
            DP_SPEED,
            f"![Milliseconds per step]({path.name})",
            f"## {race}",
            f"There are {N_CLUSTERS} clusters. The ratio is to BayesianGaussianMixture with as many threads.",
            method_table(at_race, at_race.names("method"), columns),
            "## Growth",
            "A step is one draw of all labels with its splits and merges. One chain, one thread. Exponent of "
            f"the seconds per step, by least squares: {slope:.2f}; 1 is linear.",
            markdown_table(header, lines),
        ]

    title, metrics = "Time of DPMixture", ("ARI", "k")
    return Suite(title, data, methods, report, metrics, time_limit=900.0, patience=1)


# -- growth --------------------------------------------------------------------------------------------

CELL, JITTER = 12.0, 2.0  # in standard deviations of a cluster: means are at least 8 apart
MOST_CLUSTERS = 250  # of our estimators, so that their default cap does not end the loop
TOO_LONG, LIMIT = 20.0, 60.0
GROWTH = f"""\
Median wall time of `fit`, one thread, each run on other data: round clusters in the plane, of equal size,
means at least {CELL - 2 * JITTER:.0f} standard deviations apart. Exponents are slopes of log time over log
size by least squares, over all sizes at which the method found the number of clusters within a tenth, and
over the upper half of these: who misses clusters is quick. A method that takes more than {TOO_LONG:.0f} s is
not tried at the next size, and a run ends after {LIMIT:.0f} s. BayesianGaussianMixture has K + 10 diagonal
components and at most 100 iterations: it is told about how many clusters there are."""


def draw_blobs(n: int, k: int, index: int) -> Case:
    """Draw n points of k round clusters of unit spread whose means are at least 8 apart."""
    rng = generator_of(Word.GROWTH, n, k, index)
    side = int(np.ceil(np.sqrt(2 * k)))  # half of the cells are empty: no lattice
    cells = rng.permutation(side * side)[:k]
    means = CELL * np.column_stack([cells % side, cells // side]) + rng.uniform(-JITTER, JITTER, (k, 2))
    labels = rng.permutation(np.arange(n) % k)
    return Case(means[labels] + rng.standard_normal((n, 2)), index, (labels,))


def told_mixture() -> Run:
    """BayesianGaussianMixture with ten components more than there are clusters."""
    return lambda case: bayesian_mixture(n_clusters(case.references[0]) + 10, "diag", 100)(case)


def growth(quick: bool) -> Suite:
    """How the time of ``fit`` grows with the number of points and of clusters, and what it is spent on."""
    n_sizes: tuple[int, ...]
    k_sizes: tuple[int, ...]
    if quick:
        n_sizes, k_sizes, runs, staged = (500, 1_000, 3_000), (2, 10, 20), 1, [(1_000, 10)]
        n_of_k = 1_000
    else:
        n_sizes, k_sizes = (
            (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
            (2, 5, 10, 20, 50, 100),
        )
        runs, staged, n_of_k = 3, [(1_000, 10), (10_000, 100), (1_000_000, 10)], 10_000
    by_n = {f"N = {n:,}, K = 10": (n, 10) for n in n_sizes}
    by_k = {f"N = {n_of_k:,}, K = {k}": (n_of_k, k) for k in k_sizes}
    named = {"AMCP": ("AMCP", "amcp-2d"), "DAC": ("DAC", "dac-minimum-loss-2d")}
    methods = [
        Method(
            name, partial(amortized, *of, max_clusters=MOST_CLUSTERS), kind="ours",
            identity=partial(weights_identity, of[1]),
        )
        for name, of in named.items()
    ]  # fmt: skip
    methods += [
        OURS["GaussianSearch"],
        Method("BayesianGaussianMixture (K + 10)", told_mixture, sees_truth=True),
        replace(PEERS["HDBSCAN"], group=None),
    ]
    compared = tuple(method.name for method in methods)
    stages = tuple(f"{name}, by stages" for name in named)
    for name, row in zip(named, stages, strict=True):
        taken_apart = partial(by_stages, name, max_clusters=MOST_CLUSTERS)
        methods.append(Method(row, taken_apart, kind="ours", max_sets=1))
    data = [
        Data(name, partial(draw_blobs, *size), runs, (*compared, *(stages if size in staged else ())), group)
        for group, sizes in (("N", by_n), ("K", by_k))
        for name, size in sizes.items()
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [GROWTH, f"![Growth]({page.stem}.png)"]
        panels: dict[str, dict[str, Curve]] = {}
        hollow: dict[str, dict[str, set[float]]] = {}
        for title, sizes, axis in (("10 clusters", by_n, 0), (f"{n_of_k:,} points", by_k, 1)):
            what = ("points", "clusters")[axis]
            panels[title], hollow[title] = {}, {}
            lines = []
            for method in compared:
                points = _points(rows.of(method=method), sizes, axis)
                right = [(size, low[1]) for size, low, is_right in points if is_right]
                slopes = [exponent(*zip(*chosen, strict=True)) if chosen else math.nan
                          for chosen in (right, right[len(right) // 2 :])]  # fmt: skip
                texts = [NOTHING if math.isnan(slope) else f"{slope:.2f}" for slope in slopes]
                label = f"{method}: {', '.join(texts)}"
                panels[title][label] = [(size, low[1], low[0], low[2]) for size, low, _ in points]
                hollow[title][label] = {size for size, _, is_right in points if not is_right}
                lines.append([method, *(_seconds(rows.of(method, name)) for name in sizes), *texts])
            header = [
                "method",
                *(name.split(", K")[0] if axis == 0 else name.split(", ")[-1] for name in sizes),
            ]
            table = markdown_table([*header, "exponent", "upper half"], lines)
            parts += [
                f"## Seconds against the number of {what}",
                "In brackets: how many clusters were found.",
                table,
            ]
        draw_curves(
            panels, page.with_suffix(".png"), ["number of points", "number of clusters"], ["seconds"] * 2,
            hollow=hollow,
        )  # fmt: skip
        memory = [
            [method, *(median("peak_memory_mb")(rows.of(method, name), rows) for name in by_n)]
            for method in compared
        ]
        parts += [
            "In the picture: exponents over all sizes and over their upper half; circles where K was missed "
            "by more than a tenth.",
            "## Peak memory",
            "In MB, of the method's own process while it worked: interpreter, libraries and data included.",
            markdown_table(["method", *by_n], memory),
        ]
        return parts + _stage_parts(rows, stages)

    return Suite(
        "Growth of the time of fit", data, methods, report, ("ARI", "k", "true k"), (*STAGES, REST),
        stage_cells, LIMIT, patience=1, too_long=TOO_LONG,
    )  # fmt: skip


def _points(
    rows: Rows, sizes: Mapping[str, tuple[int, int]], axis: int
) -> list[tuple[float, tuple[float, float, float], bool]]:
    """Size, (least, median, most) seconds, and whether K was found within a tenth, where runs ended well."""
    found = []
    for name, size in sizes.items():
        of = rows.of(data=name).good
        seconds = sorted(of.values("seconds").values())
        if seconds:
            spread = (seconds[0], of.describe("seconds").median, seconds[-1])
            k = of.describe("k").median
            found.append((float(size[axis]), spread, abs(k - size[1]) <= 0.1 * size[1]))
    return found


def _seconds(rows: Rows) -> str:
    if not len(rows.good):
        return rows.names("status")[0].partition(":")[0] if len(rows) else NOTHING
    k = rows.describe("k")
    found = f"{k.low:.0f}" if k.low == k.high else f"{k.low:.0f} to {k.high:.0f}"
    return f"{significant(rows.describe('seconds').median)} ({found})"


def _stage_parts(rows: Rows, methods: Sequence[str]) -> list[str]:
    bars = {
        f"{row['method'].partition(',')[0]}, {row['data']}": {
            name: max(float(row[name]), 0.0) for name in (*STAGES, REST)
        }
        for row in rows.good
        if row["method"] in methods
    }
    if not bars:
        return []
    lines = [
        [
            name,
            significant(sum(bar.values())),
            *(f"{100 * s / sum(bar.values()):.0f} %" for s in bar.values()),
        ]
        for name, bar in bars.items()
    ]
    table = markdown_table(["fit", "seconds", *STAGES, REST], lines)
    return ["## Where the time of fit goes", table]


SUITES = {"speed": speed, "busy": busy, "dp-speed": dp_speed, "growth": growth}
