"""DeepDPM and Dirichlet-process mixtures on features of images, with the figures printed in papers.

The data do not come with the repository; see ``benchmarks.data``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import load_case
from benchmarks.ours import estimator, ours
from benchmarks.page import Cell, by_data, markdown_table, mean, method_table, sets
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.pictures import Curve, Dot, draw_curves, draw_dots, mean_dot
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.growth import seconds_and_k
from benchmarks.summary import Rows

__all__ = ["SUITES", "VARIANTS"]

METRICS = ("NMI (arithmetic)", "ARI", "accuracy", "k")
FIGURES: dict[str, Cell] = {
    "runs": sets,
    "NMI": mean("NMI (arithmetic)", 3, "sd"),
    "ARI": mean("ARI", 3, "sd"),
    "ACC": mean("accuracy", 3, "sd"),
    "K": mean("k", 1, "sd"),
    "seconds": mean("seconds", 1, "sd"),
}
HOW = "Mean ± standard deviation over the seeds; NMI is normalized by the arithmetic mean, ACC is Hungarian \
matching. One thread. k-means is told the true number of clusters."
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
QUICK_ROWS = 1_000


def _same_rows(file: str, n: int | None, seed: int) -> Case:
    """The same rows for all seeds, which only the methods use."""
    return replace(load_case(file, n), seed=seed)


def _sets(names: Iterable[str], n: int | None, seeds: int) -> list[Data]:
    return [Data(name, partial(load_case, SETS[name][0], n), seeds) for name in names]


def _once(*methods: Method) -> list[Method]:
    return [replace(method, max_sets=1, group=None) for method in methods]


def _dot(rows: Rows, column: str) -> Dot:
    return mean_dot(rows.describe(column), 1.0, "sd")


def _suite(title: str, data: list[Data], methods: list[Method], report: Any, **options: Any) -> Suite:
    return Suite(title, data, methods, report, METRICS, **({"time_limit": 600.0, "patience": 2} | options))


# -- figures -------------------------------------------------------------------------------------------


def figures(quick: bool) -> Suite:
    """DeepDPM and its peers on the features of its paper, beside the printed figures."""
    once = _once(
        REFERENCES["k-means (true k)"], PEERS["HDBSCAN"], PEERS["BayesianGaussianMixture (50), full"],
        ours("DPMixture"), ours("DPMixture, weak prior", "DPMixture", prior="weak"),
    )  # fmt: skip
    few = tuple(method.name for method in (ours("DeepDPM"), *once[:3]))
    data = _sets(SETS, QUICK_ROWS if quick else None, 1 if quick else 5)
    data = [one if one.name in UMAP_SETS else replace(one, methods=few) for one in data]

    def report(rows: Rows, page: Path) -> list[str]:
        umap = rows.of_data(UMAP_SETS).good
        panels = {
            title: {
                method: {d: _dot(umap.of(method, d), column) for d in umap.of(method).names("data")}
                for method in umap.names("method")
            }
            for title, column in {"NMI": METRICS[0], "ARI": METRICS[1], "ACC": METRICS[2]}.items()
        }
        draw_dots({"": panels}, page.with_suffix(".png"))
        note = "*Printed* are the figures of the paper: NMI, ARI, ACC, and K where it is given. The \
ImageNet-50 rows are the validation part of the paper's features only; of the imbalanced ones 1,507 of \
2,501 are distinct, the others are copies."
        printed = {name: f"Printed: {figures}." for name, (_, figures) in SETS.items()}
        return [f"{HOW} {note}", f"![Figures]({page.stem}.png)", *by_data(rows, FIGURES, printed)]

    return _suite("DeepDPM on the features of its paper", data, [ours("DeepDPM"), *once], report)


# -- ablations -----------------------------------------------------------------------------------------

# Options, and the ACC printed in Table 6 for each number of clusters at the start.
VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "No splits or merges": ({"splits": False, "merges": False}, ".29, .59, .46"),
    "No splits": ({"splits": False}, ".29, .59, .45"),
    "No merges": ({"merges": False}, ".46, .58, .47"),
    "2-means instead of subclustering nets": ({"subclusters": "2-means"}, ".61, .59, .56"),
    "No priors in the M-step": ({"prior_in_m_step": False}, ".58, .57, .58"),
    "Isotropic loss instead of KL": ({"cluster_loss": "isotropic"}, ".58, .58, .58"),
    "DeepDPM": ({}, ".62, .61, .62"),
}
STARTS = (3, 10, 30)


def ablations(quick: bool) -> Suite:
    """What each part of DeepDPM is good for: Table 6 of the paper, on Fashion-MNIST."""
    n, seeds = (QUICK_ROWS, 1) if quick else (20_000, 3)
    methods = [
        ours(f"{variant}, K_init = {k}", "DeepDPM", k_init=k, **options)
        for variant, (options, _) in VARIANTS.items()
        for k in STARTS
    ]

    def report(rows: Rows, page: Path) -> list[str]:
        of = {(v, k): rows.of(method=f"{v}, K_init = {k}") for v in VARIANTS for k in STARTS}
        series = {
            f"K_init = {k}": {v: _dot(of[v, k], "accuracy") for v in VARIANTS if len(of[v, k].good)}
            for k in STARTS
        }
        draw_dots({"": {"ACC": series}}, page.with_suffix(".png"))
        parts = [
            f"Fashion-MNIST, UMAP features; {n:,} random rows for each of {seeds} seeds. Mean ± standard "
            "deviation. *Printed* is the ACC of Table 6 for the same numbers of clusters at the start.",
            f"![ACC]({page.stem}.png)",
        ]
        for title, column, digits in (("ACC", "accuracy", 3), ("K", "k", 1), ("NMI", METRICS[0], 3)):
            cell = mean(column, digits, "sd")
            lines = [
                [v, *(cell(of[v, k], rows) for k in STARTS), *([printed] if title == "ACC" else [])]
                for v, (_, printed) in VARIANTS.items()
            ]
            header = ["", *(f"K_init = {k}" for k in STARTS), *(["printed"] if title == "ACC" else [])]
            parts += [f"## {title}", markdown_table(header, lines)]
        return parts

    title = "DeepDPM with one part taken away at a time"
    return _suite(title, _sets(["Fashion-MNIST"], n, seeds), methods, report)


# -- starts, priors, raw images, growth ----------------------------------------------------------------


def k_init(quick: bool) -> Suite:
    """Does it matter where DeepDPM starts? Figure 4 of the paper."""
    starts = {f"K_init = {k}": k for k in (1, 3, 10, 30)}
    n, seeds = (QUICK_ROWS, 1) if quick else (20_000, 3)

    def report(rows: Rows, page: Path) -> list[str]:
        panels: dict[str, dict[str, Curve]] = {}
        for title, column in {"NMI": METRICS[0], "K found": "k"}.items():
            panels[title] = {
                name: [
                    (k, *_dot(of, column)) for m, k in starts.items() if len((of := rows.of(m, name)).good)
                ]
                for name in rows.names("data")
            }
        means = {name: [point[1] for point in curve] for name, curve in panels["NMI"].items()}
        notes = {
            name: f"The means of NMI lie within {max(of) - min(of):.3f} of each other."
            for name, of in means.items()
            if of
        }
        draw_curves(panels, page.with_suffix(".png"), ["K at the start"] * 2, list(panels), "linear")
        parts = [f"At most {n:,} random rows for each seed. {HOW}", f"![By start]({page.stem}.png)"]
        return parts + by_data(rows, FIGURES, notes)

    data = _sets(["MNIST", "USPS", "Fashion-MNIST"], n, seeds)
    methods = [ours(name, "DeepDPM", k_init=k) for name, k in starts.items()]
    return _suite("DeepDPM from different numbers of clusters", data, methods, report)


PAPERS_PRIOR = "0.005 of the variance, as in the paper"


def prior(quick: bool) -> Suite:
    """How fine DeepDPM's clusters are: the one choice that the data cannot make."""
    introduction = """\
`scatter_share` is the share of the data's scatter that the prior of a cluster is worth; 2.5e-05 is the
default. The default was chosen on these data sets with their classes known, so the table shows how much that
choice matters, not what to choose on other data."""
    methods = [
        ours(f"scatter_share = {share:g}", "DeepDPM", scatter_share=share)
        for share in (5e-6, 1e-5, 2.5e-5, 5e-5)
    ]
    methods.append(ours(PAPERS_PRIOR, "DeepDPM", scatter_share=0.0))
    data = _sets(UMAP_SETS, QUICK_ROWS if quick else None, 1 if quick else 2)
    return _suite(
        "DeepDPM with wider and narrower priors",
        data,
        methods,
        lambda rows, page: [f"{introduction} {HOW}", *by_data(rows, FIGURES)],
    )


def _of_images() -> Run:
    import clusterwise as cw

    return estimator("DeepDPM", feature_learning="mlp", scaling="joint", variants=cw.ImageVariants(28, 28))


def features(quick: bool) -> Suite:
    """DeepDPM on raw pixels: an autoencoder that takes turns with the clustering."""
    n, seeds = (500, 1) if quick else (10_000, 5)
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
    data = [Data("MNIST, pixels", partial(load_case, "images/mnist", n), seeds)]
    return _suite(
        "DeepDPM on raw images, with feature learning",
        data,
        methods,
        lambda rows, page: [f"{introduction} {HOW}", method_table(rows, None, FIGURES)],
        time_limit=1200.0,
    )


def growth(quick: bool) -> Suite:
    """How the time of DeepDPM and of its peers grows with the rows of MNIST's UMAP features."""
    sizes = {f"N = {n:,}": n for n in ((500, 1_000) if quick else (1_000, 3_000, 10_000, 30_000, 70_000))}
    methods = [ours("DeepDPM"), *_once(PEERS["BayesianGaussianMixture (50), full"], PEERS["HDBSCAN"])]

    def report(rows: Rows, page: Path) -> list[str]:
        curves: dict[str, Curve] = {
            method: [
                (n, s, s, s)
                for name, n in sizes.items()
                if not np.isnan(s := rows.of(method, name).describe("seconds").median)
            ]
            for method in rows.names("method")
        }
        draw_curves({"MNIST, UMAP features": curves}, page.with_suffix(".png"), ["rows"], ["seconds"])
        lines = [[method, *(seconds_and_k(rows.of(method, name)) for name in sizes)] for method in curves]
        introduction = (
            "Seconds of `fit`, one thread, and in brackets the number of clusters found. "
            "An epoch of DeepDPM sees at most 65,536 rows."
        )
        return [introduction, f"![Growth]({page.stem}.png)", markdown_table(["method", *sizes], lines)]

    data = [Data(name, partial(load_case, "umap/mnist_umap10", n), group="rows") for name, n in sizes.items()]
    return _suite("Growth of DeepDPM's time with the rows", data, methods, report, patience=1)


# -- Dirichlet-process mixtures ------------------------------------------------------------------------

INFERRED_ROWS = 10_000  # with inferred hyper-parameters K grows with the rows, and the time with K
# Mean and standard deviation of K, NMI, ARI and ACC over 10 runs of the published sub-cluster sampler.
PUBLISHED = {
    "MNIST": ("11.3 ± 0.82", "0.92 ± 0.01", "0.91 ± 0.04", "0.93 ± 0.05"),
    "USPS": ("8.5 ± 0.85", "0.87 ± 0.01", "0.82 ± 0.02", "0.83 ± 0.03"),
    "Fashion-MNIST": ("12.4 ± 0.97", "0.67 ± 0.01", "0.49 ± 0.02", "0.59 ± 0.03"),
}
ON_UMAP = """\
Ten UMAP features of images, published by the authors of DeepDPM; ten classes each, which no method is told.
DPMixture runs one chain of its default length instead of two; *weak prior* is `DPMixture(prior="weak")`. With
its default, inferred hyper-parameters it is fitted to at most 10,000 random rows and labels the others by
`predict`. BayesianGaussianMixture has 50 components, at most 100 iterations, and the components that some
point prefers count as clusters. ACC is that under the best one-to-one matching: classes without a cluster of
their own, and clusters without a class, are wrong.

Published are the figures of the sub-cluster sampler on the same features, over 10 runs (slides of DeepDPM,
Tables 1 and 2). The copy of Table 1 at hand has no names beside its rows. They are read in the order of Table
2, by which the sampler is the fourth; an accuracy of 0.83 on USPS fits its 8.5 clusters, that of the fifth
row, 0.90, hardly could. UMAP drew the classes apart before any of these methods began."""


def sampled(n_rows: int | None = None, **options: Any) -> Run:
    """DPMixture with one chain, fitted to at most ``n_rows`` random rows, and its expected K."""
    from clusterwise.estimators import DPMixture

    def run(case: Case) -> Outcome:
        points, chosen = case.points, np.arange(len(case.points))
        if n_rows is not None and n_rows < len(points):
            chosen = np.random.default_rng(case.seed).choice(len(points), n_rows, replace=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DPMixture(n_chains=1, random_state=case.seed, **options).fit(points[chosen])
        expected = sum(k * p for k, p in model.k_posterior_.items())
        return Outcome(model.predict(points), more=lambda: {"expected k": expected})

    return run


def umap(quick: bool) -> Suite:
    """Dirichlet-process mixtures on UMAP features of images, beside the figures published for the sampler."""
    methods = [
        Method("DPMixture, weak prior", partial(sampled, prior="weak"), kind="ours"),
        Method("DPMixture", partial(sampled, INFERRED_ROWS), kind="ours"),
        replace(PEERS["BayesianGaussianMixture (50), full"], group=None),
    ]
    n = QUICK_ROWS if quick else None
    data = [Data(name, partial(_same_rows, SETS[name][0], n), 1 if quick else 2) for name in PUBLISHED]
    columns = {**FIGURES, "mean K of the draws": mean("expected k", 1, "sd")}

    def report(rows: Rows, page: Path) -> list[str]:
        printed = {
            name: "Published: K {}, NMI {}, ARI {}, ACC {}.".format(*figures)
            for name, figures in PUBLISHED.items()
        }
        return [f"{ON_UMAP}\n\n{HOW}", *by_data(rows, columns, printed)]

    title = "Dirichlet-process mixtures on UMAP features"
    return _suite(title, data, methods, report, columns=("expected k",), time_limit=3600.0)


SUITES = {
    "deepdpm-figures": figures,
    "deepdpm-ablations": ablations,
    "deepdpm-k-init": k_init,
    "deepdpm-prior": prior,
    "deepdpm-features": features,
    "deepdpm-growth": growth,
    "umap": umap,
}
