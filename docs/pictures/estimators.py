"""Draw the grid of *Which estimator?*: data sets down, estimators and two peers across, failures included.

Run ``python docs/pictures/estimators.py`` on a quiet machine: each panel shows the seconds that a fit took.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_wine, make_blobs, make_circles, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import clusterwise as cw
from clusterwise._threads import one_thread
from clusterwise.exceptions import FeatureCountError
from clusterwise.plotting.plane import QUIET, cluster_colours

PICTURE = Path(__file__).with_suffix(".png")
N = 600
MOST_COMPONENTS = 20  # of the sweep by BIC
RIGHT, WRONG = "#1a7f37", "#c62828"
Labels = Callable[[np.ndarray], np.ndarray]


def make_data() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return points and true clusters of each data set."""
    widths = make_blobs(N, centers=[[-6, 0], [0, 0], [7, 3]], cluster_std=[0.6, 1.4, 2.2], random_state=3)
    stretched, of_stretched = make_blobs(N, random_state=170)
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(5.0 * np.arange(5), 5.0 * np.arange(3)), axis=-1).reshape(-1, 2)
    many = make_blobs(N, centers=grid + rng.normal(size=grid.shape), cluster_std=0.9, random_state=4)
    wine = load_wine()
    return {
        "unequal widths": widths,
        "stretched": (stretched @ np.array([[0.6, -0.6], [-0.4, 0.8]]), of_stretched),
        "15 clusters": many,
        "moons": make_moons(N, noise=0.07, random_state=0),
        "rings": make_circles(N, noise=0.05, factor=0.5, random_state=0),
        "no clusters": (rng.uniform(size=(N, 2)), np.zeros(N, dtype=int)),
        "wine, 13 features": (StandardScaler().fit_transform(wine.data), wine.target),
    }


def sweep_by_bic(points: np.ndarray) -> np.ndarray:
    """Fit GaussianMixture for every number of components and keep the best BIC."""
    fits = [GaussianMixture(k, random_state=0).fit(points) for k in range(1, MOST_COMPONENTS + 1)]
    return min(fits, key=lambda fit: fit.bic(points)).predict(points)


def make_methods() -> dict[str, Labels]:
    """Return our estimators with their default settings, and two peers."""
    names = [
        "Clusterer", "GaussianSearch", "AMCP", "DAC", "ACTST", "NCP", "CHiGac", "DPMixture", "DeepDPM",
    ]  # fmt: skip
    ours = {name: getattr(cw, name)(random_state=0).fit_predict for name in names}
    return ours | {
        "HDBSCAN": HDBSCAN(min_cluster_size=10, copy=True).fit_predict,
        "GMM + BIC": one_thread()(sweep_by_bic),
    }


def draw_panel(ax: Axes, points: np.ndarray, truth: np.ndarray, method: Labels) -> None:
    """Cluster one data set and draw it with k in the left corner and the seconds in the right one."""
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color(QUIET)
    started = time.process_time()
    try:
        labels = method(points)
    except FeatureCountError:
        ax.text(0.5, 0.5, "takes two\nfeatures", ha="center", va="center", transform=ax.transAxes, fontsize=8)
        return
    seconds = time.process_time() - started
    plane = points if points.shape[1] == 2 else PCA(2).fit_transform(points)
    k, true_k = len(set(labels[labels >= 0])), len(set(truth))
    colours = np.array(cluster_colours(max(k, 1)))
    noise = labels < 0
    ax.scatter(*plane[noise].T, s=2.5, c=QUIET, linewidths=0)
    ax.scatter(*plane[~noise].T, s=2.5, c=colours[labels[~noise]], linewidths=0)
    ax.margins(0.03, 0.16)
    good = k == true_k and adjusted_rand_score(truth, labels) > 0.8
    corner = {"transform": ax.transAxes, "fontsize": 8, "va": "bottom"}
    ax.text(0.03, 0.01, f"k = {k}", color=RIGHT if good else WRONG, weight="bold", **corner)
    ax.text(0.97, 0.01, f"{seconds:.2f} s", ha="right", color="#505458", **corner)


def main() -> None:
    """Write the picture."""
    data, methods = make_data(), make_methods()
    for method in methods.values():  # compilation, imports and weights do not count
        method(data["moons"][0])
    figure, axes = plt.subplots(
        len(data), len(methods), figsize=(1.42 * len(methods), 1.42 * len(data)), layout="constrained"
    )
    for row, (title, (points, truth)) in zip(axes, data.items(), strict=True):
        for ax, method in zip(row, methods.values(), strict=True):
            draw_panel(ax, points, truth, method)
        row[0].set_ylabel(f"{title}\nk = {len(set(truth))}", fontsize=9)
    for ax, name in zip(axes[0], methods, strict=True):
        ax.set_title(name, fontsize=9)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    warnings.simplefilter("ignore")
    main()
