"""Labels of many rows by whatever says who belongs to which cluster, each row on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Protocol

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.clusterer.assign import MixtureAssigner, NeighbourAssigner
from clusterwise.fitting.averaging import AveragedClusters
from clusterwise.fitting.describe import Assigner
from clusterwise.fitting.posterior import log_of_choice
from clusterwise.gaussian.clusters import Clusters, Described, outlier_scores
from clusterwise.gaussian.quick import LabelledRows, QuickClusters
from clusterwise.rows import Batch

__all__ = ["BatchLabeller", "Labeller", "labeller_of", "with_shares"]

# Rows whose features are made and labelled together: they stay in the processor's cache.
ROWS_AT_ONCE = 16_384
# Single precision rounds probabilities to one from a little below this.
SURE = 1e-6
# Steps of EM for the shares alone.
SHARE_STEPS = 20


class Labeller(Protocol):
    """Whatever labels rows."""

    @property
    def outlying(self) -> float:
        """Outlier score above which a row is not an ordinary one."""

    def label(self, features: np.ndarray) -> LabelledRows:
        """Labels, probabilities and outlier scores of rows of features (n, f)."""


@dataclass(frozen=True)
class ByDensity:
    """Clusters that are Gaussians; scores of ordinary rows are zero, whatever their number."""

    quick: QuickClusters
    outlying: float = 0.0

    def label(self, features: np.ndarray) -> LabelledRows:
        """See ``Labeller``."""
        return self.quick.label(features)


@dataclass(frozen=True)
class ByMixture:
    """Gaussian clusters that vote for one another; see ``MixtureAssigner``."""

    quick: QuickClusters
    votes: np.ndarray  # (K, K)
    outlying: float = 0.0

    def label(self, features: np.ndarray) -> LabelledRows:
        """See ``Labeller``."""
        labels, probabilities, scores = self.quick.label(features)
        own = np.diagonal(self.votes)
        most = np.where(np.eye(len(own), dtype=bool), 0.0, self.votes).max(axis=1)
        # What is certain for one Gaussian is that cluster's by its own vote; of other rows all have a say.
        certain = probabilities >= 1.0
        certain &= (own > most + SURE)[labels]
        result = np.where(certain, own[labels], 0.0)
        doubtful = np.flatnonzero(~certain)
        if len(doubtful) > 0:
            membership = self.quick.clusters.memberships(features[doubtful]) @ self.votes
            labels[doubtful], result[doubtful] = membership.argmax(axis=1), membership.max(axis=1)
        return LabelledRows(labels, result.astype(np.float32), scores)


@dataclass(frozen=True)
class ByNeighbours:
    """The nearest rows of the context say who belongs where."""

    assigner: NeighbourAssigner
    outlying: float = 0.75  # twice as much room around a row as is usual

    def label(self, features: np.ndarray) -> LabelledRows:
        """See ``Labeller``."""
        membership, scores = self.assigner.describe(features)
        return _by_membership(membership, scores)


@dataclass(frozen=True)
class ByMembership:
    """Anything else with memberships; scores are those of Gaussian clusters."""

    assigner: Assigner
    clusters: Described
    n_rows: int
    outlying: float = 0.0

    def label(self, features: np.ndarray) -> LabelledRows:
        """See ``Labeller``."""
        distances = self.clusters.nearest_distances(features)
        scores = outlier_scores(distances, features.shape[1], self.n_rows)
        return _by_membership(self.assigner.memberships(features), scores)


def _by_membership(membership: np.ndarray, scores: np.ndarray) -> LabelledRows:
    labels = membership.argmax(axis=1).astype(np.int32)
    return LabelledRows(labels, membership.max(axis=1).astype(np.float32), scores)


@singledispatch
def labeller_of(assigner: Any, clusters: Described, n_rows: int) -> Labeller:
    """The quickest way to label rows, of ``n_rows`` altogether, as this assigner does."""
    return ByMembership(assigner, clusters, n_rows)


@labeller_of.register
def _(assigner: Clusters, clusters: Described, n_rows: int) -> Labeller:
    return ByDensity(QuickClusters(assigner, n_rows))


@labeller_of.register
def _(assigner: MixtureAssigner, clusters: Described, n_rows: int) -> Labeller:
    return ByMixture(QuickClusters(assigner.clusters, n_rows), assigner.votes)


@labeller_of.register
def _(assigner: NeighbourAssigner, clusters: Described, n_rows: int) -> Labeller:
    return ByNeighbours(assigner)


@dataclass(frozen=True)
class BatchLabeller:
    """The task that labels a batch; small, and runs wherever the batch is."""

    read: Callable[[Batch], np.ndarray]
    space: FeatureSpace
    labeller: Labeller

    def __call__(self, batch: Batch) -> LabelledRows:
        """Labels, probabilities and outlier scores of all rows of a batch."""
        points = self.read(batch)
        parts = [
            self.labeller.label(self.space.apply(points[start : start + ROWS_AT_ONCE]))
            for start in range(0, len(points), ROWS_AT_ONCE)
        ]
        return LabelledRows(*(np.concatenate(column) for column in zip(*parts, strict=True)))


# -- shares of clusters whose rows were not chosen evenly --------------------------------------------


@singledispatch
def with_shares(assigner: Any, features: np.ndarray, weights: np.ndarray) -> Any:
    """The same clusters with the shares that rows of features (m, f) give them, by weights (m,)."""
    own = getattr(assigner, "with_shares", None)
    return assigner if own is None else own(features, weights)  # by neighbours: shares do not matter


@with_shares.register
def _(assigner: Clusters, features: np.ndarray, weights: np.ndarray) -> Clusters:
    result = assigner
    for _ in range(SHARE_STEPS):
        shares = weights @ result.memberships(features) / weights.sum()
        result = replace(result, shares=np.maximum(shares, np.finfo(np.float64).tiny))
    return result


@with_shares.register
def _(assigner: AveragedClusters, features: np.ndarray, weights: np.ndarray) -> AveragedClusters:
    believed = assigner.beliefs.clusters
    logits = np.log(assigner.beliefs.weights)
    logits += [log_of_choice(one.memberships(features), weights) for one in believed]
    probabilities = np.exp(logits - logits.max())
    beliefs = replace(
        assigner.beliefs,
        clusters=tuple(with_shares(one, features, weights) for one in believed),
        weights=probabilities / probabilities.sum(),
    )
    return replace(assigner, answer=with_shares(assigner.answer, features, weights), beliefs=beliefs)


@with_shares.register
def _(assigner: MixtureAssigner, features: np.ndarray, weights: np.ndarray) -> MixtureAssigner:
    return replace(assigner, clusters=with_shares(assigner.clusters, features, weights))
