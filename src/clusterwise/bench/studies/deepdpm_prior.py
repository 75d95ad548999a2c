"""How fine DeepDPM's clusters are: the one choice that the data cannot make."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, mean_and_sd, measure, spread_table, write_page
from clusterwise.bench.studies.deepdpm_figures import DATA, UMAP_SETS

__all__ = ["run", "runs"]

TITLE = "DeepDPM with wider and narrower priors"
SHARES = (5e-6, 1e-5, 2.5e-5, 5e-5)
SEEDS, QUICK_SEEDS, QUICK_ROWS = 2, 1, 3_000
INTRODUCTION = """\
`scatter_share` is the share of the data's scatter that the prior of a cluster is worth; 2.5e-05 is the
default. All rows, {seeds} seeds. The default was chosen on these data sets with their classes known, so the
table shows how much that choice matters, not what to choose on other data."""


def _name(share: float) -> str:
    return f"scatter_share = {share:g}"


def runs(quick: bool) -> list[Run]:
    """All runs; the method's name says how wide the prior is."""
    n = QUICK_ROWS if quick else None
    return [
        Run(data, DATA[data][0], _name(share), partial(deep_dpm, scatter_share=share), seed, n)
        for data in UMAP_SETS
        for share in SHARES
        for seed in range(QUICK_SEEDS if quick else SEEDS)
    ]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-prior.csv`` and ``.md``."""
    name = "deepdpm-prior.quick" if quick else "deepdpm-prior"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    parts = [f"# {TITLE}", INTRODUCTION.format(seeds=QUICK_SEEDS if quick else SEEDS)]
    for data in UMAP_SETS:
        parts += [f"## {data}", spread_table([s for s in spreads if s.data == data])]
    return write_page(out / f"{name}.md", parts)


register(Study("deepdpm-prior", TITLE, run))
