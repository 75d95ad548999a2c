"""Time of DPMixture beside BayesianGaussianMixture, and how it grows with the number of points.

Mixtures of 20 Gaussians of all widths and orientations in ten dimensions, as in real features.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise._files import whole_or_nothing
from clusterwise.bench.growth import exponent
from clusterwise.bench.methods.peers import bayesian_mixture
from clusterwise.bench.process import MethodProcess
from clusterwise.bench.registry import BenchmarkError, Case, Method, Outcome, Study, Truth, register
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.synthetic import Word, generator_of
from clusterwise.bench.table import markdown_table, significant
from clusterwise.plotting.palette import BASE, QUIET

__all__ = ["FULL", "QUICK", "Sizes", "draw_mixture", "run"]

TITLE = "Time of DPMixture"
N_CLUSTERS, N_FEATURES = 20, 10
MEAN_SD, WIDTHS = 2.0, (0.3, 1.5)
LIMIT = 900.0  # seconds, after which a run is ended

BOTH, ONE, MAPPED = "DPMixture", "DPMixture, one chain", "DPMixture, one chain, memmap"
VARIATIONAL = "BayesianGaussianMixture"
INTRODUCTION = f"""\
Mixtures of {N_CLUSTERS} Gaussians in {N_FEATURES} dimensions, of unlike sizes, with standard deviations from
{WIDTHS[0]} to {WIDTHS[1]} along axes of their own; each run on other data, each method in its own process.
*DPMixture* has its defaults: full covariances, two chains one after the other, 60 steps and 100 draws each.
*{VARIATIONAL}* has 50 components and its defaults: full covariances, at most 100 iterations, raw
features. Wall times of one machine; what counts is their ratio in the same run.

A step is one draw of all labels with its splits and merges. For growth one chain runs, which does the same
as either of two. The exponent is the slope of log seconds per step over log N by least squares."""


@dataclass(frozen=True)
class Sizes:
    """What is measured: growth over N, runs at each of them, and where the methods race."""

    n: tuple[int, ...]
    runs: int
    race: int
    many: int = 100_000  # from here on one run is enough
    n_warm_up: int = 60
    n_draws: int = 100

    def runs_at(self, n: int) -> int:
        """Runs at size n."""
        return self.runs if n < self.many else 1

    def n_steps(self, method: str) -> int:
        """Sampler steps of one fit; 0 for a method without any."""
        chains = {BOTH: 2, ONE: 1, MAPPED: 1}.get(method, 0)
        return chains * (self.n_warm_up + self.n_draws)


FULL = Sizes(n=(3_000, 10_000, 30_000, 100_000), runs=1, race=100_000)
QUICK = Sizes(n=(1_000, 3_000), runs=1, race=3_000)
COLUMNS = (
    "method", "n", "threads", "run", "version", "status", "seconds", "steps", "peak_memory_mb", "found_k",
    "ari",
)  # fmt: skip


def draw_mixture(n: int, run: int) -> Case:
    """Draw n points of 20 Gaussians in ten dimensions."""
    rng = generator_of(Word.DP_SPEED, n, run)
    means = rng.normal(0.0, MEAN_SD, (N_CLUSTERS, N_FEATURES))
    widths = np.exp(rng.uniform(np.log(WIDTHS[0]), np.log(WIDTHS[1]), (N_CLUSTERS, N_FEATURES)))
    axes, _ = np.linalg.qr(rng.standard_normal((N_CLUSTERS, N_FEATURES, N_FEATURES)))
    labels = rng.choice(N_CLUSTERS, n, p=rng.dirichlet(np.full(N_CLUSTERS, 4.0)))
    points = np.empty((n, N_FEATURES))
    for cluster in range(N_CLUSTERS):
        members = labels == cluster
        noise = rng.standard_normal((members.sum(), N_FEATURES)) * widths[cluster]
        points[members] = means[cluster] + noise @ axes[cluster].T
    return Case(points, run, Truth((labels,)))


# -- what runs in a process of its own ---------------------------------------------------------------


def sampled(file: str | None = None, **options: Any) -> Callable[[Case], Outcome]:
    """DPMixture; with ``file`` on as many rows of that file, mapped, as the case has."""
    from clusterwise.estimators import DPMixture

    def run(case: Case) -> Outcome:
        points = case.points if file is None else np.load(file, mmap_mode="r")[: len(case.points)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Outcome(DPMixture(random_state=case.seed, **options).fit_predict(points))

    return run


# -- measuring ---------------------------------------------------------------------------------------


def _builder(method: str, sizes: Sizes, file: str) -> Callable[[], Callable[[Case], Outcome]]:
    options: dict[str, Any] = {"n_warm_up": sizes.n_warm_up, "n_draws": sizes.n_draws}
    if method == VARIATIONAL:
        return partial(bayesian_mixture, 50, "full", 100)
    if method != BOTH:
        options["n_chains"] = 1
    return partial(sampled, file if method == MAPPED else None, **options)


def _measure(method: str, n: int, threads: int, run: int, sizes: Sizes) -> dict[str, object]:
    """Cells of one run in a process of its own."""
    case = draw_mixture(n, run)
    assert case.truth is not None
    truth = case.truth.references[0]
    with tempfile.TemporaryDirectory() as directory:
        file = str(Path(directory) / "points.npy")
        if method == MAPPED:
            np.save(file, case.points)
            case = Case(np.zeros((n, 1)), run, None)  # only says how many rows to read
        with MethodProcess(Method(method, _builder(method, sizes, file)), threads) as process:
            reply = process.run(case, LIMIT)
    found = reply.labels
    return {
        "method": method,
        "n": n,
        "threads": threads,
        "run": run,
        "version": _version(method),
        "status": reply.status,
        "seconds": f"{reply.seconds:.6g}",
        "steps": sizes.n_steps(method),
        "peak_memory_mb": f"{reply.peak_memory_mb:.5g}",
        "found_k": "" if found is None else len(np.unique(found)),
        "ari": "" if found is None else f"{adjusted_rand_score(truth, found):.5f}",
    }


def _version(method: str) -> str:
    import sklearn

    from clusterwise import __version__

    return f"scikit-learn {sklearn.__version__}" if method == VARIATIONAL else f"clusterwise {__version__}"


def n_threads() -> int:
    """Threads that the machine gives to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _plan(sizes: Sizes, threads: int) -> list[tuple[str, int, int, int]]:
    """Method, size, threads and number of all runs; the quickest first, the rivals side by side."""
    plan = [(ONE, n, 1, run) for n in sizes.n for run in range(sizes.runs_at(n)) if n <= sizes.race]
    plan += [(m, sizes.race, t, 0) for t in dict.fromkeys((1, threads)) for m in (BOTH, VARIATIONAL)]
    plan.append((MAPPED, sizes.race, 1, 0))
    return plan + [(ONE, n, 1, run) for n in sizes.n for run in range(sizes.runs_at(n)) if n > sizes.race]


def run(out: Path, quick: bool, write: Callable[[str], object], sizes: Sizes | None = None) -> Path:
    """Measure, then write ``dp-speed.csv``, ``.md`` and ``.png`` from ``dp-speed.raw.csv``."""
    chosen = (QUICK if quick else FULL) if sizes is None else sizes

    def is_current(row: dict[str, str]) -> bool:
        same = int(row["steps"]) == chosen.n_steps(row["method"]) and row["version"] == _version(
            row["method"]
        )
        return same and row["status"] in ("ok", "timeout")

    rows = RowFile(out / "dp-speed.raw.csv", COLUMNS, 4, is_current)
    plan = _plan(chosen, n_threads())
    for key in plan:
        if key in rows:
            continue
        row = _measure(*key, chosen)
        rows.add(row)
        method, n, threads, _ = key
        what = f"K = {row['found_k']}" if row["status"] == "ok" else str(row["status"])
        write(f"dp-speed: {method}, N = {n:,}, threads {threads}: {row['seconds']} s, {what}")
    rows.finish()
    found = [rows.get(key) for key in plan]
    page = _publish(out, [row for row in found if row is not None and row["status"] == "ok"], chosen)
    write(f"dp-speed: raw rows in {rows.path}, page in {page}, picture in {page.with_suffix('.png')}")
    return page


# -- the page ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Growth:
    """Medians over the runs of one chain at one size."""

    n: int
    runs: int
    seconds: float
    seconds_per_step: float
    peak_memory_mb: float
    found_k: float
    ari: float


def _growth(rows: Sequence[dict[str, str]]) -> list[Growth]:
    found = []
    for n in sorted({int(row["n"]) for row in rows if row["method"] == ONE}):
        of_size = [row for row in rows if row["method"] == ONE and int(row["n"]) == n]
        names = ("seconds", "peak_memory_mb", "found_k", "ari")
        middle = {name: float(np.median([float(row[name]) for row in of_size])) for name in names}
        per_step = float(np.median([float(row["seconds"]) / int(row["steps"]) for row in of_size]))
        found.append(Growth(n, len(of_size), seconds_per_step=per_step, **middle))
    return found


def _publish(out: Path, rows: Sequence[dict[str, str]], sizes: Sizes) -> Path:
    growth = _growth(rows)
    race = [row for row in rows if row["method"] != ONE and int(row["n"]) == sizes.race]
    if not growth and not race:
        raise BenchmarkError(f"No run ended well; see the statuses in {out / 'dp-speed.raw.csv'}.")
    slope = exponent([point.n for point in growth], [point.seconds_per_step for point in growth])
    write_csv(
        out / "dp-speed.csv",
        ("method", "n", "threads", "runs", "seconds", "seconds_per_step", "peak_memory_mb", "found_k", "ari"),
        [
            *((ONE, g.n, 1, g.runs, f"{g.seconds:.6g}", f"{g.seconds_per_step:.6g}",
               f"{g.peak_memory_mb:.5g}", f"{g.found_k:g}", f"{g.ari:.5f}") for g in growth),
            *((row["method"], row["n"], row["threads"], 1, row["seconds"], _per_step(row),
               row["peak_memory_mb"], row["found_k"], row["ari"]) for row in race),
        ],
    )  # fmt: skip
    page, picture = out / "dp-speed.md", out / "dp-speed.png"
    with whole_or_nothing(picture) as temporary:
        _draw_picture(growth, race, slope, sizes.race, temporary)
    with whole_or_nothing(page) as temporary:
        temporary.write_text(_page(growth, race, slope, sizes.race), encoding="utf-8")
    return page


def _per_step(row: dict[str, str]) -> str:
    return f"{float(row['seconds']) / int(row['steps']):.6g}" if int(row["steps"]) else ""


def _race_table(race: Sequence[dict[str, str]]) -> str:
    """Ratios are to BayesianGaussianMixture with as many threads."""
    reference = {row["threads"]: float(row["seconds"]) for row in race if row["method"] == VARIATIONAL}
    lines = []
    for row in race:
        seconds = float(row["seconds"])
        ratio = seconds / reference.get(row["threads"], float("nan"))
        lines.append(
            [row["method"], row["threads"], significant(seconds), significant(ratio, 2), row["found_k"],
             f"{float(row['ari']):.4f}", significant(float(row["peak_memory_mb"]))]
        )  # fmt: skip
    header = ["method", "threads", "seconds", f"of {VARIATIONAL}'s", "K", "ARI", "peak memory, MB"]
    return markdown_table(header, lines)


def _page(growth: Sequence[Growth], race: Sequence[dict[str, str]], slope: float, n: int) -> str:
    parts = [f"# {TITLE}", INTRODUCTION, f"![{TITLE}](dp-speed.png)"]
    parts += [
        f"## {n:,} points",
        f"There are {N_CLUSTERS} clusters. Memory is the peak of the method's own process, interpreter and "
        "libraries included; pages of a mapped file count while they are in memory.",
        _race_table(race),
    ]
    header = ["N", "runs", "seconds", "milliseconds per step", "peak memory, MB", "K", "ARI"]
    table = [
        [f"{g.n:,}", str(g.runs), significant(g.seconds), significant(1e3 * g.seconds_per_step),
         significant(g.peak_memory_mb), f"{g.found_k:g}", f"{g.ari:.4f}"]
        for g in growth
    ]  # fmt: skip
    parts += [
        "## Growth",
        f"One chain, one thread. Exponent: {slope:.2f}; 1 is linear.",
        markdown_table(header, table),
    ]
    return "\n\n".join(parts) + "\n"


def _draw_picture(
    growth: Sequence[Growth], race: Sequence[dict[str, str]], slope: float, n_race: int, path: Path
) -> None:
    """Seconds per step over N, and the race."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.1])
    sizes, times = [g.n for g in growth], [1e3 * g.seconds_per_step for g in growth]
    if growth:
        left.plot(
            [sizes[0], sizes[-1]], [times[-1] * sizes[0] / sizes[-1], times[-1]], color=QUIET, label="linear"
        )
        left.plot(sizes, times, "o-", color=BASE[0], markersize=5, label=f"DPMixture: exponent {slope:.2f}")
        left.set_xscale("log")
        left.set_yscale("log")
        left.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
        left.minorticks_off()
        left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left.legend(frameon=False, fontsize=8)
    left.set_xlabel("number of points N")
    left.set_title("Milliseconds per sampler step, one thread", fontsize=10, loc="left")
    left.grid(color="0.93", linewidth=0.8)
    left.set_axisbelow(True)
    seconds = [float(row["seconds"]) for row in race]
    colours = [BASE[1] if row["method"] == VARIATIONAL else BASE[0] for row in race]
    right.barh(range(len(race)), seconds, color=colours, height=0.65)
    for place, row in enumerate(race):
        note = f"{significant(seconds[place])} s, ARI {float(row['ari']):.3f}"
        right.text(seconds[place], place, "  " + note, va="center", fontsize=8)
    texts = [
        f"{row['method']}\n{row['threads']} thread{'s' if row['threads'] != '1' else ''}" for row in race
    ]
    right.set_yticks(range(len(race)), texts, fontsize=8)
    right.set_ylim(len(race) - 0.4, -0.6)
    right.set_xlim(0, 1.4 * max(seconds, default=1.0))
    right.set_xlabel("seconds of one fit")
    right.set_title(f"{n_race:,} points, {N_FEATURES} features", fontsize=10, loc="left")
    right.tick_params(axis="y", length=0)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


register(Study("dp-speed", TITLE, run))
