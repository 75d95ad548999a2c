"""The proposer without a network: cells of k-means, put together by their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import choose_covariance_type
from clusterwise.gaussian.mixture import Sample
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import first_partition, merged_cells

__all__ = ["CellProposer"]


@dataclass(frozen=True)
class CellProposer:
    """Proposes one partition with more clusters than there may be, for the search to merge."""

    covariance_type: CovarianceType | Literal["auto"]
    max_clusters: int

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        """See ``Proposer``; nothing is drawn."""
        samples = [
            Sample(points, choose_covariance_type(self.covariance_type, *points.shape)) for points in sets
        ]
        return [Proposal((self._partition(sample),), np.ones(1)) for sample in samples]

    def _partition(self, sample: Sample) -> np.ndarray:
        labels = first_partition(sample)
        if labels.max() < self.max_clusters:
            return labels
        return next(found for _, found in merged_cells(sample, labels) if found.max() < self.max_clusters)
