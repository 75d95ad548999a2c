"""What each part of DeepDPM is good for: Table 6 of the paper, on Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, Spread, mean_and_sd, measure, write_page
from clusterwise.bench.table import markdown_table

__all__ = ["VARIANTS", "run", "runs"]

TITLE = "DeepDPM with one part taken away at a time"
FILE = "umap/fashion_umap"
K_INITS = (3, 10, 30)
# Options, and the printed ACC for each K_init.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "No splits or merges": ({"splits": False, "merges": False}, ".29, .59, .46"),
    "No splits": ({"splits": False}, ".29, .59, .45"),
    "No merges": ({"merges": False}, ".46, .58, .47"),
    "2-means instead of subclustering nets": ({"subclusters": "2-means"}, ".61, .59, .56"),
    "No priors in the M-step": ({"prior_in_m_step": False}, ".58, .57, .58"),
    "Isotropic loss instead of KL": ({"cluster_loss": "isotropic"}, ".58, .58, .58"),
    "DeepDPM": ({}, ".62, .61, .62"),
}
ROWS, SEEDS = 20_000, 3
QUICK_ROWS, QUICK_SEEDS = 3_000, 1
INTRODUCTION = """\
Fashion-MNIST, UMAP features; {rows:,} random rows for each of {seeds} seeds. Mean ± standard deviation.
*Printed* is the ACC of Table 6 for the same three numbers of clusters at the start."""


def _name(k_init: int) -> str:
    return f"K_init = {k_init}"


def runs(quick: bool) -> list[Run]:
    """All runs; the data's name says how many clusters they start from."""
    n, seeds = (QUICK_ROWS, QUICK_SEEDS) if quick else (ROWS, SEEDS)
    return [
        Run(_name(k), FILE, variant, partial(deep_dpm, k_init=k, **options), seed, n)
        for variant, (options, _) in VARIANTS.items()
        for k in K_INITS
        for seed in range(seeds)
    ]


def _cells(spreads: list[Spread], variant: str, figure: str, digits: int) -> list[str]:
    of = {s.data: s.figures[figure] for s in spreads if s.method == variant}
    return ["{:.{d}f} ± {:.{d}f}".format(*of[_name(k)], d=digits) for k in K_INITS]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-ablations.csv``, ``.md`` and ``.png``."""
    name = "deepdpm-ablations.quick" if quick else "deepdpm-ablations"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    from clusterwise.bench.repeat_pictures import draw_by_start

    draw_by_start(spreads, [_name(k) for k in K_INITS], "acc", out / f"{name}.png")
    header = ["", *(_name(k) for k in K_INITS)]
    parts = [
        f"# {TITLE}",
        INTRODUCTION.format(rows=QUICK_ROWS if quick else ROWS, seeds=QUICK_SEEDS if quick else SEEDS),
        f"![{TITLE}]({name}.png)",
        "## ACC",
        markdown_table(
            [*header, "printed"],
            [[v, *_cells(spreads, v, "acc", 3), printed] for v, (_, printed) in VARIANTS.items()],
        ),
        "## Number of clusters",
        markdown_table(header, [[v, *_cells(spreads, v, "k", 1)] for v in VARIANTS]),
        "## NMI",
        markdown_table(header, [[v, *_cells(spreads, v, "nmi", 3)] for v in VARIANTS]),
    ]
    return write_page(out / f"{name}.md", parts)


register(Study("deepdpm-ablations", TITLE, run))
