"""Does it matter where DeepDPM starts? Figure 4 of the paper: from 1, 3, 10 and 30 clusters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, mean_and_sd, measure, spread_table, write_page
from clusterwise.bench.studies.deepdpm_figures import DATA

__all__ = ["run", "runs"]

TITLE = "DeepDPM from different numbers of clusters"
SETS = ("MNIST", "USPS", "Fashion-MNIST")
K_INITS = (1, 3, 10, 30)
ROWS, SEEDS = 20_000, 3
QUICK_ROWS, QUICK_SEEDS = 3_000, 1


def _name(k_init: int) -> str:
    return f"K_init = {k_init}"


def runs(quick: bool) -> list[Run]:
    """All runs; the method's name says how many clusters they start from."""
    n, seeds = (QUICK_ROWS, QUICK_SEEDS) if quick else (ROWS, SEEDS)
    return [
        Run(data, DATA[data][0], _name(k), partial(deep_dpm, k_init=k), seed, n)
        for data in SETS
        for k in K_INITS
        for seed in range(seeds)
    ]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-k-init.csv``, ``.md`` and ``.png``."""
    name = "deepdpm-k-init.quick" if quick else "deepdpm-k-init"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    from clusterwise.bench.repeat_pictures import draw_starts

    draw_starts(spreads, {_name(k): k for k in K_INITS}, out / f"{name}.png")
    rows = QUICK_ROWS if quick else ROWS
    parts = [f"# {TITLE}", f"At most {rows:,} random rows for each seed.", f"![{TITLE}]({name}.png)"]
    for data in SETS:
        chosen = [s for s in spreads if s.data == data]
        means = [s.figures["nmi"][0] for s in chosen]
        gap = f"The means of NMI lie within {max(means) - min(means):.3f} of each other."
        parts += [f"## {data}", spread_table(chosen), gap]
    return write_page(out / f"{name}.md", parts)


register(Study("deepdpm-k-init", TITLE, run))
