"""A proposer around a proposer: each found cluster is looked at again, by itself and at its own scale.

A network sees a data set at unit spread. Two clusters close to each other are then small and hard to
tell apart, but easy once they are the whole data set. Any proposer can be wrapped; the papers do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterwise._arrays import fit_scaling
from clusterwise.pipeline.propose import Proposal, Proposer

__all__ = ["ZoomProposer"]

# Fewer points than this cannot show two clusters.
SMALLEST_CLUSTER = 10


@dataclass(frozen=True)
class ZoomProposer:
    """Proposes what ``whole`` does, and first of all its answer with each cluster divided by ``parts``."""

    whole: Proposer
    parts: Proposer  # with a small cap: a longer loop would only chase a cluster's outermost points

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        """See ``Proposer``."""
        proposals = self.whole.propose(sets, seeds, n_draws)
        found = [proposal.candidates[0].copy() for proposal in proposals]
        clusters = [
            (b, members)
            for b, (points, labels) in enumerate(zip(sets, found, strict=True))
            for members in (np.flatnonzero(labels == j) for j in range(int(labels.max()) + 1))
            if len(members) >= SMALLEST_CLUSTER and (points[members] != points[members[0]]).any()
        ]
        scaled = [_scaled(sets[b][members]) for b, members in clusters]
        within = self.parts.propose(scaled, [seeds[b] for b, _ in clusters], 0)
        for (b, members), proposal in zip(clusters, within, strict=True):
            # The first part keeps the cluster's name, the others get new ones.
            labels = proposal.candidates[0]
            names = np.r_[found[b][members[0]], found[b].max() + 1 + np.arange(labels.max())]
            found[b][members] = names[labels]
        return [_with_first(p, labels) for p, labels in zip(proposals, found, strict=True)]


def _scaled(points: np.ndarray) -> np.ndarray:
    return fit_scaling(points).apply(points)


def _with_first(proposal: Proposal, labels: np.ndarray) -> Proposal:
    """Put a candidate before the others; it is believed in as much as the one that it comes from."""
    weights = np.r_[proposal.weights[0], proposal.weights] / (1 + proposal.weights[0])
    return replace(proposal, candidates=(labels, *proposal.candidates), weights=weights)
