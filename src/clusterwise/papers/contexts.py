"""More rows than a network sees at a time, in more clusters than a sample of them shows.

A sample of a thousand rows tells of a few dozen clusters, and the rest of the rows join these. Of hundreds
of clusters it holds one or two rows each, too few to cluster. Then all rows are divided into
neighbourhoods that a network can see as a whole, and clusters of different neighbourhoods that are one by
the evidence of a spherical Gaussian are united.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.cluster import KMeans

from clusterwise.fitting.fitting import Pipeline
from clusterwise.fitting.posterior import Beliefs, beliefs_of_refined
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import Refined
from clusterwise.gaussian.mixture import Sample, mixture_of_labels
from clusterwise.gaussian.moves import choose_merges, disjoint, names_after, neighbouring_pairs
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.search import EvidenceGain, merged
from clusterwise.papers.cut import refine_by_cut
from clusterwise.papers.cut_rule import CutRule

__all__ = ["ContextsPipeline", "neighbourhoods", "united"]

# Rows that a cluster of a sample must have on average, or the sample shows too little of each.
FEWEST_ROWS = 8
# More clusters than this are not split and merged.
MOST_TO_SEARCH = 150


@dataclass(frozen=True)
class ContextsPipeline(Pipeline):
    """A pipeline whose proposer sees ``most_at_once`` rows at a time, and all of them if that is needed."""

    most_at_once: int = 1024
    rule: CutRule | None = None  # of how = "cut"

    def prepare(self, points: np.ndarray, seed: int) -> Prepared:
        """Show a sample of the rows or, where its clusters are too small to tell, all of the context."""
        prepared = super().prepare(points, seed)
        if len(prepared.shown) == len(prepared.context):
            return prepared
        (proposal,) = super().propose([prepared], seed, 0)
        if len(prepared.shown) >= FEWEST_ROWS * (proposal.candidates[0].max() + 1):
            return prepared
        return replace(prepared, shown=prepared.context)

    def propose(self, prepared: Sequence[Prepared], seed: int, n_draws: int | None = None) -> list[Proposal]:
        """Candidate partitions of the rows shown of each data set, by neighbourhoods where there are many."""
        large = [one for one in prepared if len(one.shown) > self.most_at_once]
        small = [one for one in prepared if len(one.shown) <= self.most_at_once]
        found = iter(super().propose(small, seed, n_draws)) if small else iter(())
        by_parts = iter([self._propose_by_parts(one, seed, n_draws) for one in large])
        return [next(by_parts if len(one.shown) > self.most_at_once else found) for one in prepared]

    def refine(self, prepared: Prepared, proposal: Proposal) -> Refined | None:
        """By the learned cut, or as usual; hundreds of clusters are only fitted: a search takes minutes."""
        if self.how == "cut" and self.rule is not None:
            return self._cut(self.rule, prepared, proposal, self.n_draws)
        if self.how == "search" and proposal.candidates[0].max() >= MOST_TO_SEARCH:
            return replace(self, how="em").refine(prepared, proposal)
        return super().refine(prepared, proposal)

    def believe(
        self, prepared: Prepared, seed: int, n_draws: int, weights: np.ndarray | None = None
    ) -> Beliefs:
        """As usual; next to a learned cut there are others at other thresholds, not other paths."""
        if self.how != "cut" or self.rule is None:
            return super().believe(prepared, seed, n_draws, weights)
        (proposal,) = self.propose([prepared], seed, 0)
        refined = self._cut(self.rule, prepared, proposal, n_draws)
        return beliefs_of_refined(prepared, refined, prepared.order, weights)

    def _cut(self, rule: CutRule, prepared: Prepared, proposal: Proposal, n_others: int) -> Refined:
        covariance_type = self._covariance_type(prepared)
        return refine_by_cut(prepared, proposal, rule, covariance_type, self.max_clusters, n_others)

    def _propose_by_parts(self, prepared: Prepared, seed: int, n_draws: int | None) -> Proposal:
        if n_draws is None:
            n_draws = 0 if self.how is None else self.n_draws
        features = prepared.features[prepared.shown]
        parts = neighbourhoods(features, self.most_at_once, seed)
        rows = [np.flatnonzero(parts == part) for part in range(int(parts.max()) + 1)]
        proposals = self.proposer.propose([features[some] for some in rows], [seed] * len(rows), n_draws)
        n_candidates = min(len(proposal.candidates) for proposal in proposals)
        candidates = []
        for i in range(n_candidates):
            labels, first = np.empty(len(features), dtype=np.int64), 0
            for some, proposal in zip(rows, proposals, strict=True):
                labels[some] = first + proposal.candidates[i]
                first += int(proposal.candidates[i].max()) + 1
            candidates.append(
                united(features, labels, parts, self._covariance_type(prepared), self.max_clusters)
            )
        weights = (
            np.ones(1) if n_candidates == 1 else np.r_[0.0, np.full(n_candidates - 1, 1 / (n_candidates - 1))]
        )
        capped = any(proposal.cap_reached for proposal in proposals) or bool(
            candidates[0].max() + 1 >= self.max_clusters
        )
        return Proposal(tuple(candidates), weights, cap_reached=capped)


def neighbourhoods(features: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Divide rows (n, f) in two again and again until no part has more than ``most``; the parts (n,)."""
    parts = np.zeros(len(features), dtype=np.int64)
    waiting, n_parts = [np.arange(len(features))], 0
    while waiting:
        rows = waiting.pop()
        if len(rows) <= most:
            parts[rows] = n_parts
            n_parts += 1
            continue
        some = features[rows]
        if (some == some[0]).all():  # rows that are all alike
            side = np.arange(len(rows)) % 2 == 0
        else:
            side = KMeans(2, n_init=1, random_state=seed, max_iter=30).fit_predict(some).astype(bool)
        waiting += [rows[~side], rows[side]]
    return parts


def united(
    features: np.ndarray,
    labels: np.ndarray,
    parts: np.ndarray,
    covariance_type: CovarianceType,
    max_clusters: int | None = None,
) -> np.ndarray:
    """Labels (n,) after clusters of different parts were merged as long as the evidence grows.

    Clusters of one part were told apart by the network that saw both, and stay apart. Beyond ``max_clusters``
    the pairs that lose least are merged as well.
    """
    mixture = mixture_of_labels(Sample(features, covariance_type), labels)
    is_from = np.zeros((mixture.n_clusters, int(parts.max()) + 1), dtype=bool)
    is_from[labels, parts] = True
    while mixture.n_clusters > 1:
        pairs = neighbouring_pairs(mixture.statistics, mixture.prior)
        beyond = 0 if max_clusters is None else mixture.n_clusters - max_clusters
        apart = ~(is_from[pairs[:, 0]] & is_from[pairs[:, 1]]).any(axis=1)
        test = EvidenceGain(mixture)
        chosen = choose_merges(pairs[apart], test).moves
        if len(chosen) == 0 and beyond > 0:
            chosen = disjoint(pairs, test.of_merges(pairs))[:beyond]
        if len(chosen) == 0:
            break
        mixture = merged(mixture, chosen)
        names, _ = names_after(chosen, len(is_from))
        labels = names[labels]
        is_from = np.array([is_from[names == name].any(axis=0) for name in range(mixture.n_clusters)])
    return labels
