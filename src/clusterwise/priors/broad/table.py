"""A table with the clusters that its rows belong to, and the rows that belong to none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["NOISE", "LabelledTable"]

NOISE = -1  # label of rows that belong to no cluster


@dataclass(frozen=True)
class LabelledTable:
    """One table of a prior over tables, with its true clusters."""

    points: np.ndarray  # (n, d), finite
    labels: np.ndarray  # (n,) 0..k-1, all in use; NOISE marks rows that belong to no cluster
    kind: str  # name of the arrangement, for results by kind
    categories: tuple[int, ...] = ()  # columns whose numbers stand for words
    framed: bool = False  # whether it comes as a data frame, which is prepared before it is clustered

    @property
    def n_clusters(self) -> int:
        """Number of clusters, k."""
        return int(self.labels.max()) + 1
