"""What an estimator has to supply, a method, and what a method returns, a clustering.

``BaseClusterer.fit`` checks X, maps its rows to features, calls the method, and stores what it returned::

    X -> array or source -> SortedRows -> method.cluster -> Clustering -> assign_rows -> attributes

A method is a frozen dataclass of settings that knows nothing of its estimator. It gets rows that are sorted
and scaled, sees as many of them as it likes, and returns clusters that anyone can be assigned to; the rows of
``fit`` are assigned here, as all others are, unless it labelled them itself. Nothing has to be in the order
of the input: clusters without a row are dropped and the others named by first appearance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from clusterwise._threads import in_threads
from clusterwise.affine import FeatureSpace
from clusterwise.assigner import Assigner, ClusterDensity
from clusterwise.exceptions import ClusterwiseWarning
from clusterwise.fitting.uncertainty import ClusteringPosterior
from clusterwise.rows.sorted_rows import SortedRows, by_first_appearance

__all__ = ["MAX_ROWS", "Clustering", "Method", "Progress", "assign_rows", "exchange_largest", "score_rows"]

# Rows that clusters are fitted to where nothing else is said; of more a random part, and all are assigned.
MAX_ROWS = 10_000

# Gets what is being done, how many steps or rows of it are done, and how many there are altogether.
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class Clustering:
    """K clusters that a method found in n rows."""

    density: ClusterDensity  # the clusters in the space of features
    assigner: Assigner  # who belongs to them; often the density itself
    labels: np.ndarray | None = None  # (n,) of the sorted rows; -1, or None for all: by the assigner
    cap_reached: bool = False
    warnings: tuple[ClusterwiseWarning, ...] = ()  # what a user should know of how the fit ended
    # How the fit of the clusters is checked: as Gaussians, as Gaussians whose number was compared by their
    # evidence, as clusters of any shape, or not at all.
    check: Literal["gaussian", "compared", "any shape"] | None = "gaussian"
    k_posterior: dict[int, float] | None = None  # where the method knows P(K) without further draws
    drawn: np.ndarray | None = None  # (S, n) labels in the input's order that the method drew itself
    weights_name: str | None = None  # of the network behind the clusters, if there is one
    learned: SortedRows | None = None  # the rows in features that the method learned, if these are others
    details: Any = None  # what the estimator's own attributes show: steps, draws, a tree

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.assigner.n_clusters

    def select(self, clusters: np.ndarray) -> Clustering:
        """The clusters with these indices, in this order; none of the method's own labels is left out."""
        labels = self.labels
        if labels is not None:
            names = np.full(self.n_clusters + 1, -1)  # -1 stays -1
            names[clusters] = np.arange(len(clusters))
            labels = names[labels]
        density, assigner = self.density.select(clusters), self.assigner
        same = assigner is self.density
        return replace(
            self, density=density, assigner=density if same else assigner.select(clusters), labels=labels
        )

    def with_mixing_weights(self, features: np.ndarray, weights: np.ndarray) -> Clustering:
        """The same with the mixing weights that rows (n, f) give the clusters, by ``weights`` (n,)."""
        density = self.density.with_mixing_weights(features, weights)
        if self.assigner is self.density:
            return replace(self, density=density, assigner=density)
        return replace(self, density=density, assigner=self.assigner.with_mixing_weights(features, weights))


class Method(ABC):
    """What finds the clusters of data sets; see the module. Subclasses are frozen dataclasses of settings."""

    # Rows of a source that are enough: of more a sample is clustered, and all are assigned.
    max_rows: int = MAX_ROWS
    # Whether ``cluster`` itself looks at all rows of a source or of a large mapped file.
    sees_all_rows: ClassVar[bool] = False

    @abstractmethod
    def fit_space(self, points: np.ndarray) -> FeatureSpace:
        """The map from sorted points (n, d) to the features that the method wants."""

    @abstractmethod
    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """Clusters of each data set; it does not matter which others there are."""

    @property
    def draws_partitions(self) -> bool:
        """Whether ``posterior`` draws as many clusterings as it is asked for."""
        return False

    def posterior(
        self, rows: SortedRows, found: Clustering, seed: int, n_samples: int | None
    ) -> ClusteringPosterior:
        """Other clusterings of the rows with their probabilities, where none are ``drawn`` already."""
        raise NotImplementedError


def assign_rows(rows: SortedRows, found: Clustering) -> tuple[SortedRows, Clustering, np.ndarray]:
    """Rows in the clusters' features, clusters that some row prefers by first appearance, memberships (n, K).

    The largest entry of a row is its label, be it the assigner's or the method's own.
    """
    if found.learned is not None:
        rows, found = found.learned, replace(found, learned=None)
    while True:
        membership = np.empty((len(rows), found.n_clusters))
        _by_chunks(rows, found, found.assigner.memberships, membership)
        if found.labels is not None:
            own = np.flatnonzero(found.labels >= 0)
            exchange_largest(membership, own, found.labels[own])
        in_use = by_first_appearance(membership.argmax(axis=1), found.n_clusters, rows.order)
        if np.array_equal(in_use, np.arange(found.n_clusters)):
            return rows, found, membership
        # A row between two clusters prefers the first of them: look again after they changed places.
        found = found.select(in_use)


def score_rows(rows: SortedRows, found: Clustering) -> np.ndarray:
    """Outlier scores (n,) of the sorted rows."""
    scores = np.empty(len(rows))
    _by_chunks(rows, found, lambda features: found.assigner.outlier_scores(features, len(rows)), scores)
    return scores


def _by_chunks(
    rows: SortedRows, found: Clustering, function: Callable[[np.ndarray], np.ndarray], result: np.ndarray
) -> None:
    """Write what a function gives for the features of all rows, chunk by chunk."""

    def write(part: slice) -> None:
        result[part] = function(rows.rows.take(part))

    in_threads(write, rows.rows.parts(rows.rows.n_features + found.n_clusters))


def exchange_largest(membership: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> None:
    """Exchange the entry of a row's label with the largest one, so that it is the largest."""
    lost = membership[rows].argmax(axis=1) != labels
    rows, labels = rows[lost], labels[lost]
    largest = membership[rows].argmax(axis=1)
    entries = membership[rows, largest]
    membership[rows, largest] = membership[rows, labels]
    # A little more where both are equal: the first of equals would count as the largest.
    tied = membership[rows, largest] == entries
    membership[rows, labels] = np.where(tied, np.nextafter(entries, np.inf), entries)
