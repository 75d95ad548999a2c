"""A sample that has gone through the stages, as ``batches`` takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clusterwise.fitting.describe import Description
from clusterwise.fitting.labelling import BatchLabeller, labeller_of, with_shares
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import Refined
from clusterwise.gaussian.clusters import Described
from clusterwise.gaussian.quick import LabelledRows
from clusterwise.gaussian.sorted_rows import in_input_order
from clusterwise.rows import Batch

__all__ = ["FittedSample", "fitted_sample"]


@dataclass(frozen=True)
class FittedSample:
    """What the stages made of a sample, with the shares that its clusters have among all rows."""

    prepared: Prepared
    proposal: Proposal
    refined: Refined | None
    description: Description
    clusters: Described
    assigner: Any  # has ``select`` in addition to what an ``Assigner`` has
    label: Callable[[Batch], LabelledRows]
    outlying: float
    read: Callable[[Batch], np.ndarray]

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.clusters.n_clusters

    @property
    def labels(self) -> np.ndarray:
        """Labels (m,) of the sample in its order."""
        return self.description.labels

    @property
    def features(self) -> np.ndarray:
        """Features (m, f) of the sample."""
        return self.prepared.features

    def features_of(self, data: Any) -> np.ndarray:
        """Features (m, f) of rows as the source has them."""
        return self.prepared.space.apply(self.read(Batch(data, 0, "some rows", 0)).astype(np.float64))


def fitted_sample(
    read: Callable[[Batch], np.ndarray],
    prepared: Prepared,
    proposal: Proposal,
    refined: Refined | None,
    description: Description,
    weights: np.ndarray | None,
    n_rows: int,
) -> FittedSample:
    """Undo in the shares of clusters what weights (m,) say of the choice of rows; None: it was even."""
    clusters, assigner = description.clusters, description.assigner
    if weights is not None:
        features = in_input_order(prepared.features, prepared.order)
        clusters = with_shares(clusters, features, weights)
        assigner = with_shares(assigner, features, weights)
    labeller = labeller_of(assigner, clusters, n_rows)
    return FittedSample(
        prepared,
        proposal,
        refined,
        replace(description, clusters=clusters, assigner=assigner),
        clusters,
        assigner,
        BatchLabeller(read, prepared.space, labeller),
        labeller.outlying,
        read,
    )
