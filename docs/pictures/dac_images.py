"""Draw clusters of unseen characters beside images that DAC's decoder draws from them.

Run ``python docs/pictures/dac_images.py``: it needs the data, and the weights of the suite ``statistician``
of the benchmarks, which are trained in some minutes unless they are there.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

import clusterwise as cw
from benchmarks.data import MissingDataError, data_directory
from benchmarks.labelled_weights import labelled_rows, weights_of

PICTURE = Path(__file__).with_suffix(".png")
ALPHABET, N_CHARACTERS, N_SHOWN, SIDE = 3, 8, 9, 28


def strip(images: np.ndarray) -> np.ndarray:
    """Up to N_SHOWN images (n, 784) side by side; nothing where there are fewer."""
    shown = np.zeros((N_SHOWN, SIDE, SIDE))
    shown[: len(images)] = images[:N_SHOWN].reshape(-1, SIDE, SIDE)
    return np.hstack(list(shown))


def main() -> None:
    """Cluster characters of one evaluation alphabet, and draw from the clusters."""
    try:
        data_directory()
    except MissingDataError as error:
        print(f"{PICTURE.name} stays as it is: {error}")
        return
    table, weights = labelled_rows("omniglot", "test"), weights_of("omniglot-statistician")
    assert table.groups is not None
    own = table.groups == np.unique(table.groups)[ALPHABET]
    kept = own & np.isin(table.y, np.unique(table.y[own])[:N_CHARACTERS])
    X = table.rows[kept].astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = cw.DAC(weights=weights, random_state=0).fit(X)
    drawn, of_cluster = est.sample(40 * est.n_clusters_)
    figure, axes = plt.subplots(
        est.n_clusters_, 2, figsize=(9, 0.52 * est.n_clusters_ + 0.4), layout="constrained", squeeze=False
    )
    for k, (left, right) in enumerate(axes):
        for side, images in ((left, X[est.labels_ == k]), (right, drawn[of_cluster == k])):
            side.imshow(strip(images), cmap="gray_r", vmin=0, vmax=255)
            side.set_axis_off()
    axes[0, 0].set_title(f"members of the {est.n_clusters_} clusters found", fontsize=10)
    axes[0, 1].set_title("drawn from them", fontsize=10)
    figure.savefig(PICTURE, dpi=110)
    found = cw.metrics.matched_accuracy(table.y[kept], est.labels_)
    print(f"{est.n_clusters_} clusters of {N_CHARACTERS} characters, ACC {found:.2f}")


if __name__ == "__main__":
    main()
