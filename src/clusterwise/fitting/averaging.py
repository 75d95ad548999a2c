"""Memberships that are averages over several clusterings, brought to the clusters of one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterwise.fitting.posterior import Beliefs
from clusterwise.gaussian.clusters import Clusters

__all__ = ["AveragedClusters", "Links", "averaged", "links_between"]

# For each cluster of a belief the clusters of the answer that share its points.
Links = list[tuple[int, ...]]


@dataclass(frozen=True)
class AveragedClusters:
    """The answer's clusters, with memberships that all beliefs have a say in.

    A belief b counts with its weight w_b. What it gives to its cluster j goes to the clusters linked to j,
    divided among them as the answer divides it:

        P(k | x) = sum_b w_b sum_j R_b(x, j) R_0(x, k) L_b(j, k) / sum_k' R_0(x, k') L_b(j, k')

    with the memberships R_b of the belief and R_0 of the answer.
    """

    answer: Clusters  # with all its clusters, by which the links count
    kept: np.ndarray  # (K,) the clusters of the answer that are kept, in their order
    beliefs: Beliefs
    links: list[Links]  # of each belief

    @property
    def n_clusters(self) -> int:
        """Number of clusters K that are kept."""
        return len(self.kept)

    @property
    def clusters(self) -> Clusters:
        """The answer's clusters that are kept."""
        return self.answer.select(self.kept)

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K), averaged over the beliefs; rows sum to one."""
        of_all = self._averages(points)
        # In the answer's own order: a sum in another one may differ in its last digit.
        total = np.take(of_all, np.sort(self.kept), axis=1).sum(axis=1, keepdims=True)
        averages = np.take(of_all, self.kept, axis=1)
        lost = total[:, 0] == 0  # far points that only clusters wanted which are not kept
        if lost.any():
            averages[lost], total[lost] = self.clusters.memberships(points[lost]), 1.0
        averages /= total
        return averages

    def select(self, clusters: np.ndarray) -> AveragedClusters:
        """Keep the clusters with these indices, in this order; what others had is divided in proportion."""
        return replace(self, kept=self.kept[clusters])

    def _averages(self, points: np.ndarray) -> np.ndarray:
        """P(k | x) of all clusters of the answer, (n, K_0)."""
        # One number after the other, no matrix product: each row must come out the same whatever rows
        # stand beside it. And always in the answer's own order: ties must not change with the order kept.
        shares: dict[tuple[int, ...], np.ndarray] = {}
        for clusters, weight, links in zip(
            self.beliefs.clusters, self.beliefs.weights, self.links, strict=True
        ):
            membership = clusters.memberships(points)
            for j, linked in enumerate(links):
                share = weight * membership[:, j]
                shares[linked] = shares[linked] + share if linked in shares else share
        averages = np.zeros((len(points), self.answer.n_clusters))
        for linked, share in shares.items():
            # R_0 among the linked clusters alone: it does not vanish where others are far more likely.
            divided = self.answer.select(np.array(linked)).memberships(points)
            for k, part in zip(linked, divided.T, strict=True):
                averages[:, k] += share * part
        return averages


def averaged(answer: Clusters, beliefs: Beliefs, points: np.ndarray) -> AveragedClusters:
    """Average over beliefs that are aligned to the answer by ``points``, (n, f); all clusters are in use."""
    labels = answer.memberships(points).argmax(axis=1)
    links = [links_between(b.memberships(points).argmax(axis=1), labels) for b in beliefs.clusters]
    return AveragedClusters(answer, np.arange(answer.n_clusters), beliefs, links)


def links_between(belief: np.ndarray, answer: np.ndarray) -> Links:
    """Link clusters by the points that they have in common; labels are (n,) each, all numbers in use.

    Two clusters are linked if no other cluster of the answer has more in common with the belief's, or none of
    the belief with the answer's. So the parts of a cluster that a belief splits are joined again, and
    one that it joins is divided.
    """
    # Points count where they are labelled, not by their memberships: these would link a faint cluster to the
    # large one that has a share in all its points, even where belief and answer are equal.
    common = np.zeros((belief.max() + 1, answer.max() + 1), dtype=np.int64)
    np.add.at(common, (belief, answer), 1)
    linked = (common == common.max(axis=1, keepdims=True)) | (common == common.max(axis=0))
    return [tuple(np.flatnonzero(of_cluster).tolist()) for of_cluster in linked]
