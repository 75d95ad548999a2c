"""DeepDPM and Dirichlet-process mixtures on the features of DeepDPM's paper, and parts of DeepDPM taken away.

The data do not come with the repository: see ``benchmarks.data``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data import load_case
from benchmarks.ours import estimator, ours
from benchmarks.page import Cell, by_data, mean, method_table, sets
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.pictures import draw_dots, mean_dot
from benchmarks.suite import Data, Method, Run, Suite
from benchmarks.summary import Rows

__all__ = ["SETS", "SUITES", "UMAP_SETS"]

METRICS = ("NMI (arithmetic)", "ARI", "accuracy", "k")
FIGURES: dict[str, Cell] = {
    "runs": sets,
    "NMI": mean("NMI (arithmetic)", 3, "sd"),
    "ARI": mean("ARI", 3, "sd"),
    "ACC": mean("accuracy", 3, "sd"),
    "K": mean("k", 1, "sd"),
    "CPU seconds": mean("cpu_seconds", 1, "sd"),
}
HOW = """\
Mean ± standard deviation over the seeds; NMI is normalized by the arithmetic mean, ACC is Hungarian matching.
One thread. k-means is told the true number of clusters."""
# Name in the tables, file, and NMI, ARI, ACC, K as printed in the DeepDPM paper.
SETS: dict[str, tuple[str, str]] = {
    "MNIST": ("umap/mnist_umap10", ".94, .95, .98, K 10.0"),
    "MNIST, imbalanced": ("umap/mnist_imb_umap10", ".95, .97, .98"),
    "USPS": ("umap/usps_umap10", ".88, .86, .89, K 9.2"),
    "Fashion-MNIST": ("umap/fashion_umap", ".68, .51, .62, K 10.2"),
    "Fashion-MNIST, imbalanced": ("umap/fashion_imb_umap", ".65, .50, .61"),
    "ImageNet-50 (MoCo, validation rows)": ("umap/imagenet50_moco_val", ".75, .49, .64, K 52"),
    "ImageNet-50, imbalanced (MoCo)": ("umap/imagenet50_imb_moco_val", ".74, .48, .58, K 43.7"),
}
# The others have 128 dimensions, in which DPMixture would take very long.
UMAP_SETS = tuple(name for name in SETS if "ImageNet" not in name)
# K, NMI, ARI and ACC of the published sub-cluster sampler, means of 10 runs.
SAMPLER = {
    "MNIST": "11.3, .92, .91, .93", "USPS": "8.5, .87, .82, .83", "Fashion-MNIST": "12.4, .67, .49, .59",
}  # fmt: skip
PRINTED = """\
*Printed* are the figures of the paper, NMI, ARI, ACC, and K where it is given; and K, NMI, ARI and ACC of the
published sub-cluster sampler (Tables 1 and 2 of DeepDPM's slides), which samples the model of *DPMixture,
weak prior*. The ImageNet-50 rows are the validation part of the paper's features only; of the imbalanced ones
1,507 of 2,501 are distinct, the others are copies. UMAP drew the classes apart before any method began."""
QUICK_ROWS = 1_000


def _sets(names: Iterable[str], n: int | None, seeds: int) -> list[Data]:
    return [Data(name, partial(load_case, SETS[name][0], n), seeds) for name in names]


def _suite(title: str, data: list[Data], methods: list[Method], report: Any, **options: Any) -> Suite:
    return Suite(title, data, methods, report, METRICS, **({"time_limit": 600.0, "patience": 2} | options))


def _draw(rows: Rows, page: Path, figures: Iterable[str]) -> str:
    """The mean and standard deviation of some figures, a line for each kind of data, a colour by method."""
    good = rows.good
    panels = {
        figure: {
            method: {
                name: mean_dot(good.of(method, name).describe(figure), 1.0, "sd")
                for name in good.of(method).names("data")
            }
            for method in good.names("method")
        }
        for figure in figures
    }
    draw_dots({"": panels}, page.with_suffix(".png"))
    return f"![Figures]({page.stem}.png)"


def figures(quick: bool) -> Suite:
    """DeepDPM, DPMixture and their peers on the features of DeepDPM's paper, beside the printed figures."""
    once = [
        replace(method, max_sets=1, group=None)
        for method in (
            REFERENCES["k-means (true k)"], PEERS["HDBSCAN"], PEERS["BayesianGaussianMixture (50), full"],
            ours("DPMixture"), ours("DPMixture, weak prior", "DPMixture", prior="weak"),
        )
    ]  # fmt: skip
    both = [ours("DeepDPM"), ours("DeepDPM, prior of the paper", "DeepDPM", scatter_share=0.0)]
    few = ("DeepDPM", *(method.name for method in once[:3]))  # both priors are the same for so few rows
    data = _sets(SETS, QUICK_ROWS if quick else None, 1 if quick else 3)
    data = [one if one.name in UMAP_SETS else replace(one, methods=few) for one in data]

    def report(rows: Rows, page: Path) -> list[str]:
        notes = {name: f"Printed: {printed}." for name, (_, printed) in SETS.items()}
        notes |= {name: f"{notes[name]} The sampler: {of}." for name, of in SAMPLER.items()}
        picture = _draw(rows.of_data(UMAP_SETS), page, METRICS[:3])
        return [f"{HOW} {PRINTED}", picture, *by_data(rows, FIGURES, notes)]

    return _suite("DeepDPM on the features of its paper", data, [*both, *once], report)


# -- parts taken away, starts, priors --------------------------------------------------------------------

# Options, and the ACC printed in Table 6 for K_init = 3, 10, 30.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "No splits or merges": ({"splits": False, "merges": False}, ".29, .59, .46"),
    "No splits": ({"splits": False}, ".29, .59, .45"),
    "No merges": ({"merges": False}, ".46, .58, .47"),
    "2-means instead of subclustering nets": ({"subclusters": "2-means"}, ".61, .59, .56"),
    "No priors in the M-step": ({"prior_in_m_step": False}, ".58, .57, .58"),
    "Isotropic loss instead of KL": ({"cluster_loss": "isotropic"}, ".58, .58, .58"),
    "DeepDPM": ({}, ".62, .61, .62"),
}
SHARES = (0.0, 5e-6, 1e-5, 5e-5)  # scatter_share; the default is 2.5e-05, and 0 the prior of the paper
ABLATIONS = """\
At most {n:,} random rows for each of {seeds} seeds. One part is taken away at a time, from different numbers
of clusters at the start (Table 6 and Figure 4 of the paper), and the prior of a cluster is worth another
share of the data's scatter (`scatter_share`; by default 2.5e-05, which was chosen on these data with their
classes known; 0 is the prior of the paper). ACC printed in Table 6 for Fashion-MNIST and K_init = 3, 10, 30:
{printed}."""


def ablations(quick: bool) -> Suite:
    """What each part of DeepDPM is good for, and how much its start and its prior matter."""
    n, seeds = (QUICK_ROWS, 1) if quick else (20_000, 3)
    methods = [
        ours(f"{variant}, K_init = {k}", "DeepDPM", k_init=k, **options)
        for variant, (options, _) in VARIANTS.items()
        for k in (3, 10, 30)
    ]
    methods += [ours(f"scatter_share = {share:g}", "DeepDPM", scatter_share=share) for share in SHARES]
    elsewhere = tuple(method.name for method in methods if method.name.startswith(("DeepDPM", "scatter")))
    data = _sets(["Fashion-MNIST", "MNIST", "USPS"], n, seeds)
    data = [data[0], *(replace(one, methods=elsewhere) for one in data[1:])]

    def report(rows: Rows, page: Path) -> list[str]:
        printed = "; ".join(f"{name} {of}" for name, (_, of) in VARIANTS.items())
        return [ABLATIONS.format(n=n, seeds=seeds, printed=printed), HOW, *by_data(rows, FIGURES)]

    return _suite("DeepDPM with one part taken away at a time", data, methods, report)


# -- raw images ------------------------------------------------------------------------------------------


def _of_images() -> Run:
    import clusterwise as cw

    return estimator("DeepDPM", feature_learning="mlp", scaling="joint", variants=cw.ImageVariants(28, 28))


def features(quick: bool) -> Suite:
    """DeepDPM on raw pixels: an autoencoder that takes turns with the clustering."""
    n, seeds = (500, 1) if quick else (10_000, 3)
    introduction = f"""\
{n:,} random images of MNIST for each of {seeds} seeds, 784 pixels each. Pixels are scaled together.
*Variants* tells feature learning that rows are images, which stay what they are when they are moved a little
(`clusterwise.ImageVariants`). Without feature learning the covariances are diagonal."""
    methods = [
        Method("DeepDPM, learned features, variants", _of_images, kind="ours"),
        ours("DeepDPM, learned features", "DeepDPM", feature_learning="mlp", scaling="joint"),
        ours("DeepDPM, no feature learning", "DeepDPM", covariance_type="diag", scaling="joint"),
        REFERENCES["k-means (true k)"],
    ]
    return _suite(
        "DeepDPM on raw images, with feature learning",
        [Data("MNIST, pixels", partial(load_case, "images/mnist", n), seeds)],
        methods,
        lambda rows, page: [f"{introduction} {HOW}", method_table(rows, None, FIGURES)],
    )


SUITES = {"deepdpm-figures": figures, "deepdpm-ablations": ablations, "deepdpm-features": features}
