"""Draw the pictures of *How it works*, one for each method.

Run ``python docs/pictures/methods.py`` for all of them, or with names, as in ``methods.py amcp dac``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import make_blobs, make_moons

import clusterwise as cw
from clusterwise.clusterer.features import agreements
from clusterwise.gaussian.search import cells, likeliest_partition
from clusterwise.plotting import (
    ClusterDisplay,
    HistoryDisplay,
    KPosteriorDisplay,
    StepsDisplay,
    TreeDisplay,
    cluster_colours,
)
from clusterwise.priors import WarpedGaussians
from clusterwise.rows.sorted_rows import sorted_order

FOLDER = Path(__file__).parent
N_CELLS = 64  # of the picture of the Gaussian search
FLOWS_SEED = 2**20  # of the bent clusters; no training and no test set has it
N_CANDIDATES = 5  # of the picture of cw.Clusterer


def scatter(ax: Axes, points: np.ndarray, labels: np.ndarray, title: str, size: float = 6.0) -> None:
    """Draw points (n, 2) in the colours of their labels (n,)."""
    colours = np.array(cluster_colours(int(labels.max()) + 1))
    ax.scatter(*points.T, s=size, c=colours[labels], linewidths=0)
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)


def bare(ax: Axes, title: str) -> None:
    """Take away what a Display puts around the axes."""
    ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)


def moons_and_blobs() -> np.ndarray:
    """Two bent clusters and two Gaussian ones, (700, 2)."""
    moons, _ = make_moons(400, noise=0.07, random_state=1)
    blobs, _ = make_blobs(300, centers=[[2.7, 1.1], [3.1, -0.5]], cluster_std=[0.2, 0.12], random_state=1)
    return np.concatenate([moons, blobs])


def doubtful() -> np.ndarray:
    """Round clusters of which two run into each other, (80, 2): three or four?"""
    centres = [[-9, 4], [6, 8], [8.2, 10.2], [2, -9]]
    return make_blobs([25, 20, 15, 20], centers=centres, random_state=3)[0]


def clusterer() -> Figure:
    """Candidate partitions with the judge's expectations, and the tree that the answer was cut from."""
    points = moons_and_blobs()
    est = cw.Clusterer(random_state=0).fit(points)
    chosen = est._chosen
    rows = est._rows.order[chosen.context.judged]
    different = [0]  # the answer, and the best candidates that are not much like those before them
    agreement = agreements(chosen.candidates)
    for i in range(1, len(chosen.candidates)):
        if agreement[i, different].max() < 0.85:
            different.append(i)
    figure = plt.figure(figsize=(10.5, 5.2), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    axes = above.subplots(1, N_CANDIDATES)
    for number, (ax, i) in enumerate(zip(axes, different, strict=False)):
        labels = chosen.candidates[i]
        title = f"k = {labels.max() + 1}\nexpected ARI {chosen.expected_ari[i]:.2f}"
        scatter(ax, points[rows], labels, title, 3.0)
        if number == 0:
            ax.spines[:].set(color="#1a7f37", linewidth=2.0)
    tree, answer = below.subplots(1, 2, width_ratios=(2, 1))
    TreeDisplay.from_estimator(est, ax=tree)
    ClusterDisplay.from_estimator(est, points, ax=answer)
    bare(answer, f"answer: {est.n_clusters_} clusters")
    return figure


def amcp() -> Figure:
    """The steps of the network on the demonstration data."""
    points, _ = cw.datasets.load_demo()
    est = cw.AMCP(random_state=0, max_network_points=256).fit(points)
    return StepsDisplay.from_estimator(est, points).figure_


def dac() -> Figure:
    """The passes of both kinds of filtering."""
    points, _ = cw.datasets.load_demo()
    figure = plt.figure(figsize=(10.5, 8.6), layout="constrained")
    parts = figure.subfigures(2, 1, hspace=0.04)
    for part, filtering in zip(parts, ("minimum-loss", "anchored"), strict=True):
        est = cw.DAC(filtering=filtering, random_state=0, max_network_points=600).fit(points)
        StepsDisplay.from_estimator(est, points, figure=part, max_panels=8)
        part.suptitle(f"{filtering} filtering", fontsize=11)
    return figure


def dac_flows() -> Figure:
    """Bent clusters: the answer, the density of the flows, and rows drawn from them."""
    points = WarpedGaussians(k_exact=5, k_max=12).draw_set(np.random.default_rng(FLOWS_SEED), 1000).points
    est = cw.DAC(weights="dac-warped-2d", random_state=0).fit(points)
    drawn, clusters = est.sample(1000)
    low, high = points.min(axis=0) - 1, points.max(axis=0) + 1
    grid = np.stack(np.meshgrid(*(np.linspace(low[j], high[j], 240) for j in (0, 1))), axis=2)
    density = np.exp(est.score_samples(grid.reshape(-1, 2)).reshape(240, 240))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    scatter(axes[0], points, est.labels_, f"{est.n_clusters_} clusters")
    extent = (low[0], high[0], low[1], high[1])
    axes[1].imshow(np.sqrt(density), origin="lower", extent=extent, aspect="auto", cmap="Blues")
    bare(axes[1], "density")
    scatter(axes[2], drawn, clusters, "drawn rows")
    for ax in axes:
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    return figure


def chigac() -> Figure:
    """Where clusters grow from, and the pioneers of the result."""
    points, _ = cw.datasets.load_demo()
    est = cw.CHiGac(random_state=0, max_network_points=600).fit(points)
    figure = plt.figure(figsize=(10.5, 4.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.5, 1))
    StepsDisplay.from_estimator(est, points, figure=left, max_panels=8)
    ax = right.subplots()
    scatter(ax, points, est.labels_, "clusters and their pioneers (crosses)")
    ax.scatter(*points[est.pioneers_].T, s=70, c="black", marker="x", linewidths=2)
    return figure


def ncp() -> Figure:
    """Draws of the network, what they have in common, and P(K)."""
    points = doubtful()
    est = cw.NCP(random_state=0).fit(points)
    posterior = est.sample_partitions(200)
    figure, axes = plt.subplots(1, 5, figsize=(12.5, 2.7), layout="constrained")
    distinct = {labels.tobytes(): labels for labels in posterior.labels}
    for number, (ax, labels) in enumerate(zip(axes, distinct.values(), strict=False), start=1):
        if number > 3:
            break
        scatter(ax, points, labels, f"draw {number}: {labels.max() + 1} clusters", 14.0)
    order = np.argsort(posterior.consensus().labels, kind="stable")
    axes[3].imshow(posterior.coclustering()[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1)
    bare(axes[3], "P(two rows share a cluster)")
    KPosteriorDisplay.from_estimator(est, ax=axes[4])
    return figure


def dp_mixture() -> Figure:
    """A chain: the number of clusters over the draws, P(K), and the consensus."""
    points = doubtful()
    est = cw.DPMixture(n_chains=2, random_state=0).fit(points)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.1), width_ratios=(1.6, 1, 1.1), layout="constrained")
    for chain, colour in zip(est.trace_["n_clusters"], cluster_colours(2), strict=True):
        axes[0].step(1 + np.arange(len(chain)), chain, where="mid", color=colour, linewidth=0.9)
    axes[0].set(xlabel="draw", ylabel="clusters", ylim=(0, None))
    axes[0].set_title("two chains", fontsize=9)
    axes[0].spines[["top", "right"]].set_visible(False)
    KPosteriorDisplay.from_estimator(est, ax=axes[1])
    ClusterDisplay.from_estimator(est, points, ax=axes[2])
    bare(axes[2], f"consensus: {est.n_clusters_} clusters")
    return figure


def deepdpm() -> Figure:
    """The number of clusters and the loss over the epochs, and the result."""
    centres = np.random.default_rng(1).uniform(-10, 10, (12, 2))
    points, _ = make_blobs(6000, centers=centres, cluster_std=0.6, random_state=1)
    est = cw.DeepDPM(random_state=0).fit(points)
    figure = plt.figure(figsize=(10.5, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.2, 1))
    above, below = left.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    HistoryDisplay.from_estimator(est, axes=(above, below))
    ax = right.subplots()
    ClusterDisplay.from_estimator(est, points, ax=ax)
    bare(ax, f"{est.n_clusters_} clusters")
    return figure


def gaussian_search() -> Figure:
    """Cells, the partition that the search starts from, and its result."""
    points, _ = cw.datasets.load_demo()
    points = points[np.lexsort(points.T[::-1])]
    est = cw.GaussianSearch(random_state=0).fit(points)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    scaled = (points - points.mean(axis=0)) / points.std()
    order = sorted_order(scaled)
    start = np.empty(len(points), dtype=np.int64)
    start[order] = likeliest_partition(scaled[order])
    scatter(axes[0], points, cells(scaled, N_CELLS), "k-means cells", 3.0)
    scatter(axes[1], points, start, f"merged by evidence: {start.max() + 1} clusters, too many", 3.0)
    ClusterDisplay.from_estimator(est, points, ax=axes[2])
    bare(axes[2], f"EM, merges and splits: {est.n_clusters_} clusters")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    function.__name__: function
    for function in (clusterer, amcp, dac, dac_flows, chigac, ncp, dp_mixture, deepdpm, gaussian_search)
}


if __name__ == "__main__":
    plt.switch_backend("Agg")
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]().savefig(FOLDER / f"{name}.png", dpi=100)
        plt.close("all")
