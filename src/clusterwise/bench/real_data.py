"""Real data that are not ours to pass on: read from a directory that the user names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from clusterwise.bench.registry import BenchmarkError

__all__ = ["DATA_VARIABLE", "UMAP_FILES", "data_directory", "load"]

DATA_VARIABLE = "CLUSTERWISE_DATA"
# Ten UMAP features of images, as the authors of DeepDPM published them: X (n, 10) and y (n,).
UMAP_FILES = {
    "MNIST": "umap/mnist_umap10.npz",
    "USPS": "umap/usps_umap10.npz",
    "Fashion-MNIST": "umap/fashion_umap.npz",
    "MNIST, imbalanced": "umap/mnist_imb_umap10.npz",
    "Fashion-MNIST, imbalanced": "umap/fashion_imb_umap.npz",
}


def data_directory() -> Path:
    """The directory named by the environment variable CLUSTERWISE_DATA."""
    text = os.environ.get(DATA_VARIABLE, "")
    if not text:
        raise BenchmarkError(
            f"This needs data that do not come with the package: set {DATA_VARIABLE} to the directory that "
            f"holds {next(iter(UMAP_FILES.values()))} and the like."
        )
    directory = Path(text)
    if not directory.is_dir():
        raise BenchmarkError(f"{DATA_VARIABLE} names {text}, which is no directory; correct it.")
    return directory


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d), float64, and classes (n,) of one of ``UMAP_FILES``, or of another file by its path.

    Every row counts: clustering knows no training and test rows.
    """
    path = data_directory() / UMAP_FILES.get(name, name)
    if not path.is_file():
        raise BenchmarkError(f"There is no {path}; choose one of {', '.join(UMAP_FILES)}, or a file there.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            points, classes = np.asarray(arrays["X"], dtype=np.float64), arrays["y"].astype(np.int64)
    except (KeyError, ValueError, OSError) as error:
        raise BenchmarkError(f"{path} does not hold the arrays X and y; fetch it again.") from error
    if points.ndim != 2 or classes.shape != points.shape[:1]:
        raise BenchmarkError(f"{path} holds points {points.shape}, classes {classes.shape}; fetch it again.")
    return points, classes
