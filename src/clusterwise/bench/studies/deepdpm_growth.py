"""How DeepDPM's time grows with the rows of MNIST's UMAP features, beside its peers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.methods.peers import bayesian_mixture, hdbscan
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, measure, write_page
from clusterwise.bench.table import markdown_table, significant

__all__ = ["run", "runs"]

TITLE = "Growth of DeepDPM's time with the rows"
FILE = "umap/mnist_umap10"
SIZES = (1_000, 3_000, 10_000, 30_000, 70_000)
QUICK_SIZES = (1_000, 3_000)
METHODS: dict[str, Callable[[], Callable]] = {
    "DeepDPM": deep_dpm,
    "BayesianGaussianMixture (50)": partial(bayesian_mixture, 50, "full", 100),
    "HDBSCAN": hdbscan,
}
LIMIT = 600.0


def runs(quick: bool) -> list[Run]:
    """All runs, one for each method and size."""
    sizes = QUICK_SIZES if quick else SIZES
    return [
        Run("MNIST", FILE, method, build, 0, n, limit=LIMIT)
        for method, build in METHODS.items()
        for n in sizes
    ]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-growth.csv``, ``.md`` and ``.png``."""
    name = "deepdpm-growth.quick" if quick else "deepdpm-growth"
    rows = measure(runs(quick), out / f"{name}.csv", write)
    from clusterwise.bench.repeat_pictures import draw_times

    by_key = {(row["method"], int(row["n"])): row for row in rows}
    draw_times(by_key, out / f"{name}.png")
    sizes = QUICK_SIZES if quick else SIZES

    def cell(method: str, n: int) -> str:
        row = by_key[method, n]
        return (
            f"{significant(float(row['seconds']))} ({row['k']})" if row["status"] == "ok" else row["status"]
        )

    table = markdown_table(
        ["method", *(f"N = {n:,}" for n in sizes)], [[m, *(cell(m, n) for n in sizes)] for m in METHODS]
    )
    introduction = (
        "Seconds of `fit`, one thread, and in brackets the number of clusters found. "
        "An epoch of DeepDPM sees at most 65,536 rows."
    )
    return write_page(out / f"{name}.md", [f"# {TITLE}", introduction, f"![{TITLE}]({name}.png)", table])


register(Study("deepdpm-growth", TITLE, run))
