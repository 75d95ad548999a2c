"""DeepDPM and Dirichlet-process mixtures on the features of DeepDPM's paper, and parts of it taken away."""

from dataclasses import replace
from functools import partial
from typing import Any

import clusterwise
from benchmarks.data import load_case
from benchmarks.ours import ours
from benchmarks.page import mean, sets
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Data, Suite

METRICS = ("NMI (arithmetic)", "ARI", "accuracy", "k")
FIGURES = {
    "runs": sets,
    "NMI": mean("NMI (arithmetic)", 3, "sd"),
    "ARI": mean("ARI", 3, "sd"),
    "ACC": mean("accuracy", 3, "sd"),
    "K": mean("k", 1, "sd"),
    "CPU seconds": mean("cpu_seconds", 1, "sd"),
}
SETS = {
    "MNIST": "umap/mnist_umap10",
    "MNIST, imbalanced": "umap/mnist_imb_umap10",
    "USPS": "umap/usps_umap10",
    "Fashion-MNIST": "umap/fashion_umap",
    "Fashion-MNIST, imbalanced": "umap/fashion_imb_umap",
    "ImageNet-50 (MoCo, validation rows)": "umap/imagenet50_moco_val",
    "ImageNet-50, imbalanced (MoCo)": "umap/imagenet50_imb_moco_val",
}
# The others have 128 dimensions, in which DPMixture would take very long.
UMAP_SETS = tuple(name for name in SETS if "ImageNet" not in name)
# A share of the scatter, chosen on these data with their classes known; the default is the paper's prior.
SHARE = 2.5e-5


_suite = partial(Suite, table=FIGURES, metrics=METRICS, time_limit=600.0, patience=2)


def figures(quick: bool) -> Suite:
    both = [ours("DeepDPM"), ours(f"DeepDPM, scatter_share = {SHARE:g}", "DeepDPM", scatter_share=SHARE)]
    once = [
        replace(method, max_sets=1, group=None)
        for method in (
            REFERENCES["k-means (true k)"], PEERS["HDBSCAN"], PEERS["BayesianGaussianMixture (50), full"],
            ours("DPMixture"), ours("DPMixture, weak prior", "DPMixture", prior="weak"),
        )
    ]  # fmt: skip
    few = ("DeepDPM", *(method.name for method in once[:3]))  # both priors are the same for so few rows
    n, seeds = (1_000, 1) if quick else (None, 3)
    data = [
        Data(name, partial(load_case, file, n), seeds, None if name in UMAP_SETS else few)
        for name, file in SETS.items()
    ]
    return _suite(data, [*both, *once])


VARIANTS: dict[str, dict[str, Any]] = {
    "No splits or merges": {"splits": False, "merges": False},
    "No splits": {"splits": False},
    "No merges": {"merges": False},
    "2-means instead of subclustering nets": {"subclusters": "2-means"},
    "No priors in the M-step": {"prior_in_m_step": False},
    "Isotropic loss instead of KL": {"cluster_loss": "isotropic"},
    "DeepDPM": {},
}


def ablations(quick: bool) -> Suite:
    n, seeds = (1_000, 1) if quick else (20_000, 3)
    methods = [
        ours(f"{variant}, K_init = {k}", "DeepDPM", k_init=k, scatter_share=SHARE, **options)
        for variant, options in VARIANTS.items()
        for k in (3, 10, 30)
    ]
    shares = (0.0, 5e-6, 1e-5, 5e-5)  # 0, the default, is the prior of the paper
    methods += [ours(f"scatter_share = {share:g}", "DeepDPM", scatter_share=share) for share in shares]
    elsewhere = tuple(method.name for method in methods if method.name.startswith(("DeepDPM", "scatter")))
    data = [
        Data(name, partial(load_case, SETS[name], n), seeds, None if name == "Fashion-MNIST" else elsewhere)
        for name in ("Fashion-MNIST", "MNIST", "USPS")
    ]
    return _suite(data, methods)


def features(quick: bool) -> Suite:
    n, seeds = (500, 1) if quick else (10_000, 3)
    on_pixels = partial(ours, estimator_name="DeepDPM", scaling="joint", scatter_share=SHARE)
    learning, variants = partial(on_pixels, feature_learning="mlp"), clusterwise.ImageVariants(28, 28)
    methods = [
        learning("DeepDPM, learned features, variants", variants=variants),
        learning("DeepDPM, learned features"),
        on_pixels("DeepDPM, no feature learning", covariance_type="diag"),
        REFERENCES["k-means (true k)"],
    ]
    return _suite([Data("MNIST, pixels", partial(load_case, "images/mnist", n), seeds)], methods)


SUITES = {"deepdpm-figures": figures, "deepdpm-ablations": ablations, "deepdpm-features": features}
