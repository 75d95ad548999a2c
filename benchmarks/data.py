"""Real data that are not ours to pass on: read from a directory that the user names."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from benchmarks.suite import BenchmarkError, Case, MissingDataError

# Environment variable with the directory; files in it are NumPy archives with points X and either classes y
# or partitions labels0, labels1, ..., in which 0 means noise.
DIRECTORY = "CLUSTERWISE_DATA"
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
_ROWS = 45  # first word of the seeds that choose rows


def data_directory() -> Path:
    """The directory that CLUSTERWISE_DATA names, or ../shared/data next to the checkout."""
    directory = Path(os.environ.get(DIRECTORY) or DEFAULT)
    if not directory.is_dir():
        raise MissingDataError(
            f"This needs data that do not come with the repository: set {DIRECTORY} to the directory that "
            "holds umap/mnist_umap10.npz and the like."
        )
    return directory


def files_in(folder: str) -> list[str]:
    """Names of the data sets in a folder of the data directory, without their ending; none without it."""
    try:
        return sorted(f"{folder}/{path.stem}" for path in (data_directory() / folder).glob("*.npz"))
    except MissingDataError:
        return []


@cache
def n_rows(file: str) -> int:
    """Number of rows of a file, without reading them."""
    with np.load(data_directory() / f"{file}.npz", allow_pickle=False) as arrays:
        return len(arrays["labels0"] if "labels0" in arrays else arrays["y"])


def load_case(file: str, n: int | None = None, seed: int = 0, points: str = "X") -> Case:
    """The data set in ``file`` (without its ending), or ``n`` random rows of it, which depend on ``seed``.

    Every row counts: clustering knows no training and test rows.
    """
    path = data_directory() / f"{file}.npz"
    if not path.is_file():
        raise MissingDataError(f"There is no {file}.npz in the data directory; fetch it first.")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            partitions = [name for name in sorted(arrays.files) if name.startswith("labels")]
            noise_is_0 = 1 if partitions else 0  # in the files; it is -1 here
            references = tuple(arrays[name].astype(np.int64) - noise_is_0 for name in partitions or ["y"])
            values = np.asarray(arrays[points])
    except (KeyError, ValueError, OSError) as error:
        raise BenchmarkError(f"{path} does not hold the arrays {points} and y; fetch it again.") from error
    shapes = [labels.shape for labels in references]
    if values.ndim < 2 or any(shape != values.shape[:1] for shape in shapes):
        raise BenchmarkError(f"{path} holds points {values.shape} and classes {shapes}; fetch it again.")
    case = Case(values.reshape(len(values), -1), seed, references)
    case = case if n is None else sample_rows(case, n)
    return replace(case, points=case.points.astype(np.float64))


def sample_rows(case: Case, n: int) -> Case:
    """At most ``n`` random rows, which depend on the seed of the case."""
    if n >= len(case.points):
        return case
    rows = np.sort(np.random.default_rng([_ROWS, case.seed]).choice(len(case.points), n, replace=False))
    return Case(case.points[rows], case.seed, tuple(labels[rows] for labels in case.references))


def standardized(case: Case) -> Case:
    """Features with mean 0 and standard deviation 1."""
    return Case(StandardScaler().fit_transform(case.points), case.seed, case.references)
