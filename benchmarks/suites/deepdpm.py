"""DeepDPM and Dirichlet-process mixtures on the features of DeepDPM's paper, and parts of it taken away."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.cluster import KMeans

import clusterwise
from benchmarks.data import load_case
from benchmarks.ours import estimator, ours
from benchmarks.page import mean, sets
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from clusterwise.deepdpm.method import Fit
from clusterwise.deepdpm.nets import Members, first_cuts, m_step, to_tensor
from clusterwise.gaussian.niw import Full

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


def _no_move(*_: Any) -> int:
    return 0


def _two_means(fit: Fit, members: Members) -> None:
    """In place of trained subclustering nets, nets that follow 2-means in every cluster."""
    first_cuts(fit, members)
    for cluster, start in enumerate(fit.subnets.centres.numpy()):
        points = fit.rows.take(members.rows(cluster))
        if len(np.unique(points, axis=0)) > 1:
            start[:] = KMeans(2, init=start, n_init=1).fit(points).cluster_centers_
    drawn = to_tensor(members.draw_points(fit.rng, fit.rows, 512), "cpu")
    first, second = ((drawn - fit.subnets.centres[:, [side]]).square().sum(dim=2) for side in (0, 1))
    fit.subnets.fit_log_odds(drawn, first - second)


def _m_step_without_prior(statistics: np.ndarray, prior: Full) -> np.ndarray:
    """nu = d - 1 makes Sigma the plain weighted covariance; a trace of Psi keeps it invertible."""
    d = prior.n_features
    return m_step(statistics, replace(prior, kappa=1e-9, nu=d - 1.0, psi=np.full(d, 1e-6)))


def _isotropic_epoch(fit: Fit, eta: np.ndarray) -> tuple[float, np.ndarray]:
    """``train_epoch`` with the loss sum_k r_k |x - mu_k|^2."""
    prior, d = fit.settings.prior, fit.settings.prior.n_features
    precision, upper = np.zeros((len(eta), d, d)), np.triu_indices(d)
    precision[:, upper[0], upper[1]] = precision[:, upper[1], upper[0]] = -eta[:, d + 1 :]
    precision[:, range(d), range(d)] *= 2
    means = to_tensor(np.linalg.solve(precision, eta[:, 1 : d + 1, None])[:, :, 0], "cpu")
    statistics, losses = np.zeros((len(eta), prior.n_statistics)), []
    n_batches = -(-len(fit.rows) // fit.settings.batch_size)
    for batch in np.array_split(fit.rng.permutation(len(fit.rows)), n_batches):
        points = fit.rows.take(np.sort(batch))
        inputs = to_tensor(points, "cpu")
        r = fit.net.logits(inputs).softmax(dim=1)
        loss = (r * torch.cdist(inputs, means).square()).sum(dim=1).mean()
        fit.net.optimizer.step(loss)
        statistics += r.detach().numpy().astype(np.float64).T @ prior.terms(points)
        losses.append(float(loss.detach()))
    return float(np.mean(losses)), statistics


# What takes the place of functions in ``clusterwise.deepdpm``.
VARIANTS: dict[str, dict[str, Callable[..., Any]]] = {
    "No splits or merges": {"method.split_clusters": _no_move, "method.merge_clusters": _no_move},
    "No splits": {"method.split_clusters": _no_move},
    "No merges": {"method.merge_clusters": _no_move},
    "2-means instead of subclustering nets": {"method.train_subclustering_nets": _two_means},
    "No priors in the M-step": {"nets.m_step": _m_step_without_prior},
    "Isotropic loss instead of KL": {"nets.train_epoch": _isotropic_epoch},
    "DeepDPM": {},
}


def ablated(variant: str, **options: Any) -> Run:
    """DeepDPM with some of its functions replaced."""
    run = estimator("DeepDPM", **options)

    def run_ablated(case: Case) -> Outcome:
        with ExitStack() as stack:
            for name, function in VARIANTS[variant].items():
                stack.enter_context(patch(f"clusterwise.deepdpm.{name}", function))
            return run(case)

    return run_ablated


def ablations(quick: bool) -> Suite:
    n, seeds = (1_000, 1) if quick else (20_000, 3)
    methods = [
        Method(
            f"{variant}, K_init = {k}", partial(ablated, variant, k_init=k, scatter_share=SHARE), kind="ours"
        )
        for variant in VARIANTS
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
