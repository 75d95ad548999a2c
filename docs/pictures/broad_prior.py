"""Draw the picture of the broad prior in methods/priors.md: a clear table of each kind, others as they come.

Run ``python docs/pictures/broad_prior.py`` after a change of the prior.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from clusterwise.plotting.plane import QUIET, cluster_colours
from clusterwise.priors.broad import NOISE, BroadPrior, LabelledTable

PICTURE = Path(__file__).with_suffix(".png")
N_COLUMNS, N_ROWS = 8, 7
N_CANDIDATES = 3000
WIDE = ("embedding", "hierarchy", "links", "records")  # seldom or never of three features or fewer


def choose_tables() -> list[LabelledTable]:
    """Take the first table of each kind, by seed, that a plane can show; then tables as they come."""
    prior = BroadPrior(plain=0.12, hierarchies=0.1)
    tables = [prior.draw_table(np.random.default_rng(seed)) for seed in range(N_CANDIDATES)]
    shown: dict[str, LabelledTable] = {}
    for table in tables:
        n, d = table.points.shape
        if n >= 300 and table.n_clusters <= 12 and (d <= 3 or table.kind in WIDE):
            shown.setdefault(table.kind, table)
    kinds = [shown[name] for name in sorted(shown)]
    rest = range(N_CANDIDATES, N_CANDIDATES + N_COLUMNS * N_ROWS - len(kinds))
    return [*kinds, *(prior.draw_table(np.random.default_rng(seed)) for seed in rest)]


def flatten(points: np.ndarray) -> np.ndarray:
    """Bring (n, d) to the plane: principal components, or a strip for one feature."""
    scaled = (points - points.mean(axis=0)) / (points.std(axis=0) + 1e-12)
    if points.shape[1] == 1:
        return np.column_stack([scaled, np.random.default_rng(0).uniform(size=len(points))])
    if points.shape[1] == 2:
        return scaled
    left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
    return left[:, :2] * sizes[:2]


def draw(table: LabelledTable, ax: Axes) -> None:
    """Draw one table, noise rows in grey."""
    plane, noise = flatten(table.points), table.labels == NOISE
    colours = np.array(cluster_colours(table.n_clusters))
    ax.scatter(*plane[noise].T, s=2, c=QUIET, linewidths=0)
    ax.scatter(*plane[~noise].T, s=2.5, c=colours[table.labels[~noise]], linewidths=0)
    n, d = table.points.shape
    ax.set_title(f"{table.kind}\nn={n}, d={d}, k={table.n_clusters}", fontsize=7, pad=2)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_linewidth(0.4)


def main() -> None:
    """Write the picture."""
    figure, axes = plt.subplots(N_ROWS, N_COLUMNS, figsize=(11, 11.2), layout="constrained")
    for table, ax in zip(choose_tables(), axes.ravel(), strict=True):
        draw(table, ax)
    figure.savefig(PICTURE, dpi=95)


if __name__ == "__main__":
    main()
