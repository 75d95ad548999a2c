"""Single cells: clusters as a categorical column of ``adata.obs``, as ``scanpy.tl.leiden`` leaves them.

Whatever has ``obsm`` and ``obs`` will do: an ``AnnData`` object where anndata is installed, and here a
stand-in with the same two attributes, so that the example runs without it.

    adata = scanpy.read_h5ad("cells.h5ad")
    scanpy.pp.pca(adata)
    add_clusters(adata)
    scanpy.pl.umap(adata, color="clusterwise")
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

import clusterwise as cw


def add_clusters(adata: Any, use_rep: str = "X_pca", key_added: str = "clusterwise") -> cw.Clusterer:
    """Cluster the cells by one of their representations; labels and confidence go to ``adata.obs``."""
    model = cw.Clusterer(random_state=0).fit(adata.obsm[use_rep])
    names = [str(label) for label in range(model.n_clusters_)]
    adata.obs[key_added] = pd.Categorical.from_codes(model.labels_, names)
    adata.obs[f"{key_added}_confidence"] = model.probabilities_
    return model


def draw_cells(n: int = 300, seed: int = 0) -> Any:
    """Made-up cells of three types, with ten principal components each."""
    rng = np.random.default_rng(seed)
    types = rng.integers(0, 3, n)
    components = rng.normal(size=(n, 10)) + 6 * np.eye(3, 10)[types]
    obs = pd.DataFrame({"cell_type": types}, index=[f"cell{i}" for i in range(n)])
    return SimpleNamespace(obs=obs, obsm={"X_pca": components})


def main() -> Any:
    """Print how the clusters compare with the types of the cells."""
    adata = draw_cells()
    add_clusters(adata)
    print(pd.crosstab(adata.obs["cell_type"], adata.obs["clusterwise"]))
    return adata


if __name__ == "__main__":
    main()
