"""How the time of ``fit`` grows with the number of points and of clusters, and what it is spent on.

Round clusters in the plane, so far apart that there is no doubt about K; every run has data of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.growth import Point, Stages, draw_growth, exponents, growth_page
from clusterwise.bench.methods.amortized import amortized, gaussian_search, weights_identity
from clusterwise.bench.methods.peers import bayesian_mixture, hdbscan
from clusterwise.bench.process import MethodProcess
from clusterwise.bench.registry import BenchmarkError, Case, Method, Outcome, Study, register
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.stages import stage_seconds
from clusterwise.bench.synthetic import Word, generator_of
from clusterwise.bench.worker import Reply

__all__ = ["CONTENDERS", "Contender", "Sizes", "draw_blobs", "run"]

TITLE = "Growth of the time of fit"
CELL, JITTER = 12.0, 2.0  # in standard deviations of a cluster: means are at least 8 apart
TOO_LONG = 60.0  # seconds; a method that took longer is not tried at the next size
LIMIT = 180.0  # seconds, after which a run is ended
MOST_CLUSTERS = 250  # of our estimators, so that their default cap does not end the loop
INTRODUCTION = f"""\
Median wall time of `fit`, one thread, each run on other data: round clusters in the plane, of equal size,
means at least {CELL - 2 * JITTER:.0f} standard deviations apart. Exponents are slopes of log time over log
size by least squares, over all sizes at which the method found the number of clusters within a tenth, and
over the upper half of these: who misses clusters is quick. A method that takes more than {TOO_LONG:.0f} s is
not tried at the next size, and a run ends after {LIMIT:.0f} s."""


@dataclass(frozen=True)
class Sizes:
    """What is measured: N at one K, K at one N, how often, and which fits are taken apart."""

    n: tuple[int, ...]
    k: tuple[int, ...]
    runs: int
    staged: tuple[tuple[int, int], ...]
    k_of_n: int = 10
    n_of_k: int = 10_000


FULL = Sizes(
    n=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    k=(2, 5, 10, 20, 50, 100),
    runs=3,
    staged=((1_000, 10), (10_000, 100), (1_000_000, 10)),
)
QUICK = Sizes(n=(1_000, 3_000, 10_000, 30_000), k=(2, 10, 30), runs=1, staged=((1_000, 10), (30_000, 10)))

# Functions are told by their names; those of a method that is not there are passed over.
_PIPELINE = "clusterwise.pipeline.fitting:Pipeline"
STAGES = {
    "checking": ("clusterwise.estimators.validation:as_points",),
    "prepare": (f"{_PIPELINE}.prepare",),
    "propose: encoder": ("clusterwise.models.amcp:AMCP.encode", "clusterwise.models.dac:DAC.encode"),
    "propose: loop": (f"{_PIPELINE}.propose",),
    "refine": (f"{_PIPELINE}.refine",),
    "describe": (f"{_PIPELINE}.describe",),
}


@dataclass(frozen=True)
class Contender:
    """A method for data with a known number of clusters."""

    name: str
    build: Callable[[int], Callable[[], Callable[[Case], Outcome]]]  # true k -> what a process builds
    note: str
    weights: str | None = None
    estimator: str | None = None  # its name in ``clusterwise``, to take its fit apart

    def is_there(self) -> bool:
        """Whether this build has the estimator and its weights."""
        if self.weights is None:
            return True
        import clusterwise

        return self.weights in clusterwise.list_weights()

    def identity(self) -> str:
        """What a measured time depends on besides the data."""
        if self.weights is not None:
            return weights_identity(self.weights)
        import sklearn

        from clusterwise import __version__

        return f"clusterwise {__version__}, scikit-learn {sklearn.__version__}"


def _ours(estimator: str, weights: str) -> Callable[[int], Callable[[], Callable[[Case], Outcome]]]:
    return lambda k: partial(amortized, estimator, weights, max_clusters=MOST_CLUSTERS)


CONTENDERS = (
    Contender("AMCP", _ours("AMCP", "amcp-2d"), "default options", "amcp-2d", "AMCP"),
    Contender(
        "DAC",
        _ours("DAC", "dac-minimum-loss-2d"),
        "minimum-loss filtering, default options",
        "dac-minimum-loss-2d",
        "DAC",
    ),
    Contender("GaussianSearch", lambda k: gaussian_search, "default options"),
    Contender(
        "BayesianGaussianMixture",
        lambda k: partial(bayesian_mixture, k + 10, "diag", 100),
        "K + 10 diagonal components, at most 100 iterations: it is told about how many clusters there are",
    ),
    Contender("HDBSCAN", lambda k: hdbscan, "min_cluster_size=10, allow_single_cluster=True"),
)


def draw_blobs(n: int, k: int, run: int) -> Case:
    """Draw n points of k round clusters of unit spread whose means are at least 8 apart."""
    rng = generator_of(Word.GROWTH, n, k, run)
    side = int(np.ceil(np.sqrt(2 * k)))  # half of the cells are empty: no lattice
    cells = rng.permutation(side * side)[:k]
    means = CELL * np.column_stack([cells % side, cells // side]) + rng.uniform(-JITTER, JITTER, (k, 2))
    labels = rng.permutation(np.arange(n) % k)
    return Case(means[labels] + rng.standard_normal((n, 2)), run, None)


COLUMNS = (
    "method", "n", "k", "run", "identity", "status", "seconds", "peak_memory_mb", "found_k",
)  # fmt: skip


def _n_clusters(reply: Reply) -> int | str:
    return "" if reply.labels is None else len(np.unique(reply.labels[reply.labels >= 0]))


def _measure_point(contender: Contender, n: int, k: int, runs: int, rows: RowFile) -> None:
    """Add the runs that are missing; one that took too long is not repeated."""
    method = Method(contender.name, contender.build(k))
    with MethodProcess(method) as process:
        for run in range(runs):
            known = rows.get((contender.name, n, k, run))
            if known is None:
                reply = process.run(draw_blobs(n, k, run), LIMIT)
                known = {
                    "method": contender.name, "n": str(n), "k": str(k), "run": str(run),
                    "identity": contender.identity(), "status": reply.status,
                    "seconds": f"{reply.seconds:.6g}",
                    "peak_memory_mb": f"{reply.peak_memory_mb:.5g}", "found_k": str(_n_clusters(reply)),
                }  # fmt: skip
                rows.add(known)
            if known["status"] != "ok" or float(known["seconds"]) > TOO_LONG:
                return


def _point(contender: Contender, n: int, k: int, runs: int, rows: RowFile) -> Point:
    found = [rows.get((contender.name, n, k, run)) for run in range(runs)]
    known = [row for row in found if row is not None]
    good = [row for row in known if row["status"] == "ok"]
    return Point(
        contender.name, n, k,
        tuple(float(row["seconds"]) for row in good),
        tuple(int(row["found_k"]) for row in good),
        float(np.median([float(row["peak_memory_mb"]) for row in good])) if good else float("nan"),
        known[-1]["status"],
    )  # fmt: skip


def _grow(
    contender: Contender,
    sizes: Sequence[tuple[int, int]],
    runs: int,
    rows: RowFile,
    write: Callable[[str], object],
) -> list[Point]:
    """Measure one size after the other, until one takes too long."""
    points: list[Point] = []
    for n, k in sizes:
        _measure_point(contender, n, k, runs, rows)
        point = _point(contender, n, k, runs, rows)
        points.append(point)
        seconds = f"{point.median:.3g} s, {max(point.found_k)} found" if point.seconds else point.status
        write(f"growth: {contender.name}, N = {n:,}, K = {k}: {seconds}")
        if point.status != "ok" or point.median > TOO_LONG:
            break
    return points


def _take_apart(contender: Contender, n: int, k: int) -> Stages:
    """Stages of one fit, in this process and with one thread."""
    import torch

    import clusterwise

    estimator: Any = getattr(clusterwise, str(contender.estimator))(
        random_state=0, max_clusters=MOST_CLUSTERS
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator.fit(draw_blobs(500, 5, 0).points)  # the first call pays for lazy imports
            points = draw_blobs(n, k, 0).points
            return Stages(contender.name, n, k, stage_seconds(lambda: estimator.fit(points), STAGES))
    finally:
        torch.set_num_threads(threads)


def run(
    out: Path,
    quick: bool,
    write: Callable[[str], object],
    contenders: Sequence[Contender] = CONTENDERS,
    sizes: Sizes | None = None,
) -> Path:
    """Measure, then write ``growth.md``, ``.png`` and three CSVs; raw rows are in ``growth.raw.csv``."""
    chosen = (QUICK if quick else FULL) if sizes is None else sizes
    present = [contender for contender in contenders if contender.is_there()]
    for contender in contenders:
        if contender not in present:
            write(f"growth: no {contender.name}, its weights {contender.weights} are not shipped")
    if not present:
        raise BenchmarkError("None of the methods is there; train weights first.")
    identities = {contender.name: contender.identity() for contender in present}

    def is_current(row: dict[str, str]) -> bool:
        same = identities.get(row["method"], row["identity"]) == row["identity"]
        return same and row["status"] in ("ok", "timeout")

    rows = RowFile(out / "growth.raw.csv", COLUMNS, 4, is_current)
    by_n: list[Point] = []
    by_k: list[Point] = []
    for contender in present:
        by_n += _grow(contender, [(n, chosen.k_of_n) for n in chosen.n], chosen.runs, rows, write)
        by_k += _grow(contender, [(chosen.n_of_k, k) for k in chosen.k], chosen.runs, rows, write)
    rows.finish()
    stages: list[Stages] = []
    for contender in present:
        if contender.estimator is not None:
            write(f"growth: taking the fit of {contender.name} apart")
            stages += [_take_apart(contender, n, k) for n, k in chosen.staged]
    notes = {c.name: f"{c.note}; {identities[c.name]}" for c in present}
    page = _publish(out, by_n, by_k, stages, notes)
    write(f"growth: raw rows in {rows.path}, page in {page}, picture in {page.with_suffix('.png')}")
    return page


def _publish(
    out: Path, by_n: Sequence[Point], by_k: Sequence[Point], stages: Sequence[Stages], notes: dict[str, str]
) -> Path:
    write_csv(
        out / "growth.csv",
        ("growing", "method", "n", "k", "runs", "median_seconds", "found_k", "peak_memory_mb", "status"),
        (
            (axis, p.method, p.n, p.k, len(p.seconds), f"{p.median:.6g}", " ".join(map(str, p.found_k)),
             f"{p.peak_memory_mb:.5g}", p.status)
            for axis, points in (("N", by_n), ("K", by_k))
            for p in points
        ),
    )  # fmt: skip
    write_csv(
        out / "growth.exponents.csv",
        ("growing", "method", "all_sizes", "upper_half"),
        (
            ("N" if points is by_n else "K", method, f"{slope:.4f}", f"{upper:.4f}")
            for points in (by_n, by_k)
            for method, (slope, upper) in exponents(points, "N" if points is by_n else "K").items()
        ),
    )
    write_csv(
        out / "growth.stages.csv",
        ("method", "n", "k", "stage", "seconds"),
        ((s.method, s.n, s.k, name, f"{value:.6g}") for s in stages for name, value in s.seconds.items()),
    )
    page, picture = out / "growth.md", out / "growth.png"
    with whole_or_nothing(picture) as temporary:
        draw_growth(by_n, by_k, [s for s in stages if s.method == stages[0].method], temporary)
    with whole_or_nothing(page) as temporary:
        temporary.write_text(growth_page(TITLE, INTRODUCTION, by_n, by_k, stages, notes), encoding="utf-8")
    return page


register(Study("growth", TITLE, run))
