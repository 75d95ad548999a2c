"""How the time of ``fit`` grows with the number of rows and of clusters."""

from __future__ import annotations

import math
import os
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.ours import OURS, network, ours
from benchmarks.page import (
    NOTHING,
    Cell,
    markdown_table,
    median,
    method_table,
    percent,
    ratio,
    significant,
)  # fmt: skip
from benchmarks.peers import PEERS, bayesian_mixture, true_k
from benchmarks.pictures import Curve, draw_curves
from benchmarks.stages import REST, STAGES, by_stages
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows, exponent
from benchmarks.synthetic import Word, generator_of

__all__ = ["SUITES", "draw_blobs", "draw_ten_features", "n_threads"]


def n_threads() -> int:
    """Threads that the machine gives to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    """Time of DPMixture and of BayesianGaussianMixture, and how it grows with the number of points."""
    sizes = {f"N = {n:,}": n for n in ((500, 1_000) if quick else (3_000, 10_000, 30_000, 100_000))}
    race, steps = list(sizes)[-1], N_WARM_UP + N_DRAWS
    variational = PEERS["BayesianGaussianMixture (50), full"]
    methods, references = [ours(ONE_CHAIN, "DPMixture", n_chains=1)], {}
    for threads in dict.fromkeys((1, n_threads())):
        suffix = f", {threads} thread{'s' if threads > 1 else ''}"
        for method in (ours("DPMixture"), variational):
            methods.append(replace(method, name=method.name + suffix, group=None, threads=threads))
            references[methods[-1].name] = variational.name + suffix
    methods.append(Method(MAPPED, mapped, kind="ours"))
    data = [
        Data(name, partial(draw_ten_features, n), 1, None if name == race else (ONE_CHAIN,), "points")
        for name, n in sizes.items()
    ]

    def to_reference(rows: Rows, everything: Rows) -> str:
        reference = references.get(rows.names("method")[0], f"{variational.name}, 1 thread")
        return ratio("seconds", reference)(rows, everything)

    def report(rows: Rows, page: Path) -> list[str]:
        growth = rows.of(method=ONE_CHAIN).of_data(sizes).good
        times = {sizes[row["data"]]: float(row["seconds"]) / steps for row in growth}
        slope = exponent(list(times), list(times.values()))
        curve = [(n, 1e3 * t, 1e3 * t, 1e3 * t) for n, t in times.items()]
        panel = {f"one chain: exponent {slope:.2f}": curve}
        draw_curves(
            {"Milliseconds per sampler step, one thread": panel}, page.with_suffix(".png"), ["N"], ["ms"]
        )
        columns: dict[str, Cell] = {
            "seconds": median("seconds"),
            "of BayesianGaussianMixture's": to_reference,
            "K": median("k", 0),
            "ARI": median("ARI", 4),
            "peak memory, MB": median("peak_memory_mb"),
        }
        cells = {
            "seconds": median("seconds"),
            "milliseconds per step": median("seconds", scale=1e3 / steps),
            "peak memory, MB": median("peak_memory_mb"),
            "K": median("k", 0),
            "ARI": median("ARI", 4),
        }
        lines = ([name, *(cell(growth.of(data=name), growth) for cell in cells.values())] for name in sizes)
        return [
            DP_SPEED,
            f"![Milliseconds per step]({page.stem}.png)",
            f"## {race}",
            f"There are {N_CLUSTERS} clusters. The ratio is to BayesianGaussianMixture with as many threads.",
            method_table(rows.of(data=race), None, columns),
            "## Growth",
            "A step is one draw of all labels with its splits and merges. One chain, one thread. Exponent of "
            f"the seconds per step, by least squares: {slope:.2f}; 1 is linear.",
            markdown_table(["one chain", *cells], lines),
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
components and at most 100 iterations: it is told about how many clusters there are.

In the picture: exponents over all sizes and over their upper half; circles where K was missed by more than a
tenth."""


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
    return lambda case: bayesian_mixture(true_k(case) + 10, "diag", 100)(case)


def growth(quick: bool) -> Suite:
    """How the time of ``fit`` grows with the number of points and of clusters, and what it is spent on."""
    n_sizes, k_sizes, n_of_k = (
        (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        (2, 5, 10, 20, 50, 100),
        10_000,
    )
    staged = [(1_000, 10), (10_000, 100), (1_000_000, 10)]
    if quick:
        n_sizes, k_sizes, n_of_k = (500, 1_000, 3_000), (2, 10, 20), 1_000  # type: ignore[assignment]
    by_n = {f"N = {n:,}, K = 10": (n, 10) for n in n_sizes}
    by_k = {f"N = {n_of_k:,}, K = {k}": (n_of_k, k) for k in k_sizes}
    named = {"AMCP": "amcp-2d", "DAC": "dac-minimum-loss-2d"}
    methods = [
        *(network(name, name, of, group=None, max_clusters=MOST_CLUSTERS) for name, of in named.items()),
        OURS["GaussianSearch"],
        Method("BayesianGaussianMixture (K + 10)", told_mixture, sees_truth=True),
        replace(PEERS["HDBSCAN"], group=None),
    ]
    compared = tuple(method.name for method in methods)
    stages = tuple(f"{name}, by stages" for name in named)
    methods += [
        Method(row, partial(by_stages, name, max_clusters=MOST_CLUSTERS), kind="ours", max_sets=1)
        for name, row in zip(named, stages, strict=True)
    ]
    data = [
        Data(name, partial(draw_blobs, *size), 1 if quick else 3,
             (*compared, *(stages if size in staged else ())), group)
        for group, sizes in (("N", by_n), ("K", by_k))
        for name, size in sizes.items()
    ]  # fmt: skip

    def report(rows: Rows, page: Path) -> list[str]:
        parts = [GROWTH, f"![Growth]({page.stem}.png)"]
        panels: dict[str, dict[str, Curve]] = {}
        hollow: dict[str, dict[str, set[float]]] = {}
        for title, sizes, axis in (("10 clusters", by_n, 0), (f"{n_of_k:,} points", by_k, 1)):
            panels[title], hollow[title], lines = {}, {}, []
            for method in compared:
                points = _points(rows.of(method=method), sizes, axis)
                right = [point[:2] for point, is_right in points if is_right]
                halves = right, right[len(right) // 2 :]
                slopes = [exponent(*zip(*half, strict=True)) if half else math.nan for half in halves]
                texts = [NOTHING if math.isnan(slope) else f"{slope:.2f}" for slope in slopes]
                label = f"{method}: {', '.join(texts)}"
                panels[title][label] = [point for point, _ in points]
                hollow[title][label] = {point[0] for point, is_right in points if not is_right}
                lines.append([method, *(seconds_and_k(rows.of(method, name)) for name in sizes), *texts])
            header = [
                "method",
                *(name.split(", K")[0] if axis == 0 else name.split(", ")[-1] for name in sizes),
            ]
            parts.append(f"## Seconds against the number of {('points', 'clusters')[axis]}")
            parts.append("In brackets: how many clusters were found.")
            parts.append(markdown_table([*header, "exponent", "upper half"], lines))
        axes = ["number of points", "number of clusters"]
        draw_curves(panels, page.with_suffix(".png"), axes, ["seconds"] * 2, hollow=hollow)
        memory = [
            [method, *(median("peak_memory_mb")(rows.of(method, name), rows) for name in by_n)]
            for method in compared
        ]
        parts.append("## Peak memory")
        parts.append(
            "In MB, of the method's own process while it worked: interpreter and libraries included."
        )
        parts.append(markdown_table(["method", *by_n], memory))
        shares = []
        for row in rows.good:
            if row["method"] in stages:
                bar = [max(float(row[name]), 0.0) for name in (*STAGES, REST)]
                name = f"{row['method'].partition(',')[0]}, {row['data']}"
                shares.append([name, significant(sum(bar)), *(percent(part / sum(bar)) for part in bar)])
        table = markdown_table(["fit", "seconds", *STAGES, REST], shares)
        return [*parts, *(["## Where the time of fit goes", table] if shares else [])]

    return Suite(
        "Growth of the time of fit", data, methods, report, ("ARI", "k", "true k"), (*STAGES, REST),
        time_limit=LIMIT, patience=1, too_long=TOO_LONG,
    )  # fmt: skip


def _points(
    rows: Rows, sizes: Mapping[str, tuple[int, int]], axis: int
) -> list[tuple[tuple[float, float, float, float], bool]]:
    """(size; median, least, most seconds), and whether K was found within a tenth, where runs ended well."""
    found = []
    for name, size in sizes.items():
        of = rows.of(data=name).good
        if len(of):
            seconds, k = of.values("seconds").values(), of.describe("k").median
            point = float(size[axis]), of.describe("seconds").median, min(seconds), max(seconds)
            found.append((point, abs(k - size[1]) <= 0.1 * size[1]))
    return found


def seconds_and_k(rows: Rows) -> str:
    """Median seconds and, in brackets, the clusters found; the status if no run ended well."""
    if not len(rows.good):
        return rows.names("status")[0].partition(":")[0] if len(rows) else NOTHING
    k = rows.describe("k")
    found = f"{k.low:.0f}" if k.low == k.high else f"{k.low:.0f} to {k.high:.0f}"
    return f"{significant(rows.describe('seconds').median)} ({found})"


SUITES = {"dp-speed": dp_speed, "growth": growth}
