"""Draw letters that were not trained on: their columns, and the clusters found in the space that was learned.

Run ``python docs/pictures/own_labels.py``: it needs the data, and the weights of the suite ``unseen-letters``
of the benchmarks, which are trained in some minutes unless they are there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from sklearn.manifold import TSNE
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

sys.path.insert(0, str(Path(__file__).parents[2]))

import clusterwise as cw
from benchmarks.data import MissingDataError, data_directory
from benchmarks.labelled_weights import labelled_rows, weights_of
from clusterwise.papers.encoded import EncodedSpace
from clusterwise.plotting.plane import cluster_colours

PICTURE = Path(__file__).with_suffix(".png")
N_ROWS = 600


def in_the_plane(points: np.ndarray) -> np.ndarray:
    """Places (n, 2) of points (n, d) that keep neighbours together (t-SNE)."""
    return np.asarray(TSNE(2, init="pca", perplexity=30, random_state=0).fit_transform(points))


def panel(axes: Axes, places: np.ndarray, letters: np.ndarray, colours: np.ndarray, title: str) -> None:
    """Every row as its letter."""
    for (x, y), letter, colour in zip(places, letters, colours, strict=True):
        axes.text(x, y, letter, color=colour, fontsize=7, ha="center", va="center")
    low, high = places.min(axis=0), places.max(axis=0)
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
    axes.set_title(title, fontsize=10)


def main() -> None:
    """Cluster rows of the six letters and draw them."""
    try:
        data_directory()
    except MissingDataError as error:
        print(f"{PICTURE.name} stays as it is: {error}")
        return
    table, weights = labelled_rows("letter", "test"), weights_of("letter-amcp")
    rows = np.random.default_rng(0).permutation(len(table.y))[:N_ROWS]
    X, y = table.rows[rows].astype(np.float64), table.y[rows]
    letters = np.array([chr(ord("A") + label) for label in y])
    est = cw.AMCP(weights=weights, random_state=0).fit(X)
    encoded = EncodedSpace(weights.model.encoder).apply(X)  # type: ignore[arg-type]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
    grey = np.full(len(X), "#555555")
    panel(left, in_the_plane((X - X.mean(0)) / X.std(0)), letters, grey, "columns as they are")
    colours = np.array(cluster_colours(est.n_clusters_), dtype=object)[est.labels_]
    nmi, ari = normalized_mutual_info_score(y, est.labels_), adjusted_rand_score(y, est.labels_)
    title = f"encoded: {est.n_clusters_} clusters, {len(set(letters))} letters, NMI {nmi:.2f}, ARI {ari:.2f}"
    panel(right, in_the_plane(encoded), letters, colours, title)
    figure.savefig(PICTURE, dpi=110)
    print(title)


if __name__ == "__main__":
    main()
