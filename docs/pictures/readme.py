"""Draw the picture of the README: one estimator with its default settings on four data sets.

Run ``python docs/pictures/readme.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine, make_blobs, make_moons

import clusterwise as cw
from clusterwise.plotting import ClusterDisplay

PICTURE = Path(__file__).with_suffix(".png")


def bent_and_round() -> tuple[np.ndarray, np.ndarray]:
    """Two bent clusters and two round ones."""
    moons, sides = make_moons(400, noise=0.07, random_state=1)
    blobs, heaps = make_blobs(300, centers=[[2.7, 1.1], [3.1, -0.5]], cluster_std=[0.2, 0.12], random_state=1)
    return np.concatenate([moons, blobs]), np.concatenate([sides, heaps + 2])


def main() -> None:
    """Write the picture."""
    data = {
        "nests on a map": cw.datasets.load_demo(),
        "bent and round": bent_and_round(),
        "wine, 13 measurements": load_wine(return_X_y=True),
        "handwritten digits, 64 pixels": load_digits(return_X_y=True),
    }
    figure, axes = plt.subplots(1, len(data), figsize=(13, 3.6), layout="constrained")
    for ax, (title, (points, classes)) in zip(axes, data.items(), strict=True):
        est = cw.Clusterer(random_state=0).fit(points)
        ClusterDisplay.from_estimator(est, points, ax=ax)
        ax.set(xlabel="", ylabel="", xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color="#c8ccd0")
        ax.set_title(
            f"{title}\n{est.n_clusters_} clusters found, {len(np.unique(classes))} known", fontsize=10
        )
    figure.savefig(PICTURE, dpi=100)


if __name__ == "__main__":
    plt.switch_backend("Agg")
    main()
