"""Real data that are not ours to pass on: read from a directory that the user names."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from clusterwise.bench.registry import BenchmarkError, Case, Truth

__all__ = ["DIRECTORY", "data_directory", "load_case"]

# Environment variable with the directory; files in it are NumPy archives with arrays ``X`` and ``y``.
DIRECTORY = "CLUSTERWISE_DATA"
_ROWS = 45  # first word of the seeds that choose rows


def data_directory() -> Path:
    """The directory named by the environment variable CLUSTERWISE_DATA."""
    text = os.environ.get(DIRECTORY, "")
    if not text:
        raise BenchmarkError(
            f"This needs data that do not come with the package: set {DIRECTORY} to the directory that "
            "holds umap/mnist_umap10.npz and the like."
        )
    directory = Path(text)
    if not directory.is_dir():
        raise BenchmarkError(f"{DIRECTORY} names {text}, which is no directory; correct it.")
    return directory


def load_case(file: str, n: int | None = None, seed: int = 0) -> Case:
    """The data set in ``file`` (without its ending), or ``n`` random rows of it, which depend on ``seed``.

    Every row counts: clustering knows no training and test rows.
    """
    path = data_directory() / f"{file}.npz"
    if not path.is_file():
        raise BenchmarkError(f"There is no {path}; fetch it first.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            points, classes = np.asarray(arrays["X"]), arrays["y"].astype(np.int64)
    except (KeyError, ValueError, OSError) as error:
        raise BenchmarkError(f"{path} does not hold the arrays X and y; fetch it again.") from error
    if points.ndim < 2 or classes.shape != points.shape[:1]:
        raise BenchmarkError(f"{path} holds points {points.shape}, classes {classes.shape}; fetch it again.")
    points = points.reshape(len(points), -1).astype(np.float64)
    if n is not None and n < len(points):
        rows = np.sort(np.random.default_rng([_ROWS, seed]).choice(len(points), n, replace=False))
        points, classes = points[rows], classes[rows]
    return Case(points, seed, Truth((classes,)))
