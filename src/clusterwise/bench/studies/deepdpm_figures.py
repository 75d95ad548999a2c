"""DeepDPM and its peers on the features of the DeepDPM paper, beside the printed figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.methods.dp_mixture import dp_mixture
from clusterwise.bench.methods.peers import bayesian_mixture, hdbscan
from clusterwise.bench.methods.references import k_means
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, mean_and_sd, measure, spread_table, write_page

__all__ = ["DATA", "UMAP_SETS", "run", "runs"]

TITLE = "DeepDPM on the features of its paper"
# Name in the tables, file, and NMI, ARI, ACC, K as printed.
DATA: dict[str, tuple[str, str]] = {
    "MNIST": ("umap/mnist_umap10", ".94, .95, .98, K 10.0"),
    "MNIST, imbalanced": ("umap/mnist_imb_umap10", ".95, .97, .98"),
    "USPS": ("umap/usps_umap10", ".88, .86, .89, K 9.2"),
    "Fashion-MNIST": ("umap/fashion_umap", ".68, .51, .62, K 10.2"),
    "Fashion-MNIST, imbalanced": ("umap/fashion_imb_umap", ".65, .50, .61"),
    "ImageNet-50 (MoCo, validation rows)": ("umap/imagenet50_moco_val", ".75, .49, .64, K 52"),
    "ImageNet-50, imbalanced (MoCo)": ("umap/imagenet50_imb_moco_val", ".74, .48, .58, K 43.7"),
}
# The others have 128 dimensions, in which DPMixture would take very long.
UMAP_SETS = tuple(data for data in DATA if "ImageNet" not in data)
SEEDS, QUICK_SEEDS, QUICK_ROWS = 5, 1, 3_000
PEER_LIMIT = 400.0  # seconds
INTRODUCTION = """\
Mean ± standard deviation over the seeds; NMI is normalized by the arithmetic mean, ACC is Hungarian matching.
One thread. DeepDPM with its default options on every data set. k-means is told the true number of clusters.
*Printed* are the figures of the paper: NMI, ARI, ACC, and K where it is given. The ImageNet-50 rows are the
validation part of the paper's features only."""


def runs(quick: bool) -> list[Run]:
    """All runs, DeepDPM first."""
    n = QUICK_ROWS if quick else None
    seeds = range(QUICK_SEEDS if quick else SEEDS)
    plan = [
        Run(data, file, "DeepDPM", deep_dpm, seed, n) for data, (file, _) in DATA.items() for seed in seeds
    ]
    for data, (file, _) in DATA.items():
        plan.append(Run(data, file, "k-means (true k)", k_means, 0, n, sees_truth=True, limit=PEER_LIMIT))
        plan.append(Run(data, file, "HDBSCAN", hdbscan, 0, n, limit=PEER_LIMIT))
        mixture = partial(bayesian_mixture, 50, "full", 100)
        plan.append(Run(data, file, "BayesianGaussianMixture (50)", mixture, 0, n, limit=PEER_LIMIT))
    for data in UMAP_SETS:
        file = DATA[data][0]
        plan.append(Run(data, file, "DPMixture", dp_mixture, 0, n, limit=PEER_LIMIT))
        weak = partial(dp_mixture, prior="weak")
        plan.append(Run(data, file, "DPMixture, weak prior", weak, 0, n, limit=PEER_LIMIT))
    return plan


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-figures.csv``, ``.md`` and ``.png``."""
    name = "deepdpm-figures.quick" if quick else "deepdpm-figures"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    from clusterwise.bench.repeat_pictures import draw_figures

    draw_figures([s for s in spreads if s.data in UMAP_SETS], out / f"{name}.png")
    parts = [f"# {TITLE}", INTRODUCTION, f"![{TITLE}]({name}.png)"]
    for data, (_, printed) in DATA.items():
        parts += [f"## {data}", f"Printed: {printed}.", spread_table([s for s in spreads if s.data == data])]
    return write_page(out / f"{name}.md", parts)


register(Study("deepdpm-figures", TITLE, run))
