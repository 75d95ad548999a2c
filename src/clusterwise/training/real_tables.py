"""Training tables from real data sets: some of the classes, rows and columns of one at a time.

``real_sets.csv`` beside this file lists the data sets, their families and sources. They do not come with the
package: ``CLUSTERWISE_DATA`` names the directory that has them.
"""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
from sklearn import datasets
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from clusterwise.exceptions import RecipeError

__all__ = ["DIRECTORY", "RealSet", "draw_part", "draw_parts", "real_sets"]

# Environment variable with the directory of the data sets.
DIRECTORY = "CLUSTERWISE_DATA"
LIST = Path(__file__).with_name("real_sets.csv")
# Rows of a data set that tables are drawn from, and rows of a table.
MAX_ROWS_OF_SET, MIN_ROWS, MAX_ROWS = 20_000, 60, 1_500
# Part of the tables that have some of the classes, and some of the columns; classes beyond which all do.
SOME_CLASSES, SOME_COLUMNS, MAX_CLASSES = 0.6, 0.3, 40
MIN_COLUMNS_TO_CHOOSE_FROM, MIN_COLUMNS, MIN_SHARE_OF_COLUMNS = 6, 4, 0.4
N_TOPICS = 100  # to which tables of word weights are brought


@dataclass(frozen=True)
class RealSet:
    """A labelled data set in a file, an npz or a csv with its labels in the column ``label``."""

    name: str
    group: str  # of data sets with the same rows, or measured in one go
    family: str
    file: str  # in the directory of data; "scikit-learn": one of its own
    points: str  # array of the npz
    source: str

    def load(self, directory: Path) -> tuple[Any, np.ndarray]:
        """Rows, an array (n, d) or a pyarrow table, and labels (n,)."""
        if self.file == "scikit-learn":
            points, labels = getattr(datasets, f"load_{self.name}")(return_X_y=True)
            return points, labels
        path = directory / self.file
        if not path.is_file():
            raise RecipeError(f"There is no {path}; the recipe trains on it, or say without = [...].")
        if path.suffix == ".csv":
            options = pyarrow.csv.ConvertOptions(strings_can_be_null=True)
            table = pyarrow.csv.read_csv(path, convert_options=options)
            labels = table["label"].to_numpy(zero_copy_only=False)
            return table.drop_columns("label"), np.unique(labels.astype(str), return_inverse=True)[1]
        with np.load(path, allow_pickle=False) as arrays:
            points, labels = arrays[self.points], arrays["y"]
        if len(labels) > MAX_ROWS_OF_SET:
            kept = np.sort(np.random.default_rng(0).choice(len(labels), MAX_ROWS_OF_SET, replace=False))
            points, labels = points[kept], labels[kept]
        points = np.asarray(points, dtype=np.float64).reshape(len(points), -1)
        if "tfidf" in self.file:  # rows of unit length in the leading directions
            points = normalize(TruncatedSVD(N_TOPICS, random_state=0).fit_transform(points))
        return points[:, np.isfinite(points).all(axis=0)], labels


def real_sets(without: tuple[str, ...] = ()) -> list[RealSet]:
    """The data sets of the list; ``without`` are names, groups and families to leave out."""
    with LIST.open(encoding="utf-8", newline="") as file:
        found = [RealSet(**row) for row in csv.DictReader(file)]
    known = {name for one in found for name in (one.name, one.group, one.family)}
    if unknown := sorted(set(without) - known):
        raise RecipeError(f"without names {unknown[0]!r}, which is no data set and no family.")
    return [one for one in found if not {one.name, one.group, one.family} & set(without)]


def draw_part(rows: Any, labels: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Some rows of a data set, in order, of some or all of its classes and columns; labels from 0 on."""
    classes = np.unique(labels)
    if len(classes) > 2 and (rng.random() < SOME_CLASSES or len(classes) > 1.5 * MAX_CLASSES):
        most = min(len(classes) - 1, MAX_CLASSES)
        classes = rng.choice(classes, min(len(classes), 2 + int(rng.integers(most))), replace=False)
    kept = np.flatnonzero(np.isin(labels, classes))
    n = int(np.exp(rng.uniform(np.log(MIN_ROWS), np.log(MAX_ROWS))))
    if n < len(kept):
        kept = np.sort(rng.choice(kept, n, replace=False))
    is_table, d = isinstance(rows, pyarrow.Table), rows.shape[1]
    part = rows.take(kept) if is_table else rows[kept]
    if d >= MIN_COLUMNS_TO_CHOOSE_FROM and rng.random() < SOME_COLUMNS:
        width = max(MIN_COLUMNS, int(d * rng.uniform(MIN_SHARE_OF_COLUMNS, 1)))
        columns = np.sort(rng.choice(d, width, replace=False))
        part = part.select(columns.tolist()) if is_table else part[:, columns]
    return part, np.unique(labels[kept], return_inverse=True)[1]


def draw_parts(one: RealSet, seed: int, n: int) -> Iterator[tuple[Any, np.ndarray, np.random.Generator]]:
    """Rows and labels of n tables of a data set, each with a generator for what else is drawn for it."""
    rows, labels = one.load(_directory())
    for number in range(n):
        rng = np.random.default_rng([seed, zlib.crc32(one.name.encode()), number])
        yield *draw_part(rows, labels, rng), rng


def _directory() -> Path:
    named = os.environ.get(DIRECTORY)
    if not named or not Path(named).is_dir():
        raise RecipeError(
            f"This recipe trains on real data sets, which do not come with clusterwise: set {DIRECTORY} to "
            "their directory, or leave out [real]."
        )
    return Path(named)
