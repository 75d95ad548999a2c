"""The third stage by a rule that was learned from labels: a cut through Ward's tree of the encodings."""

from __future__ import annotations

from collections import Counter

import numpy as np

from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import Refined, Scored, clusters_of_labels
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.papers.cut_rule import CutRule, branches_of, settled

__all__ = ["refine_by_cut"]


def refine_by_cut(
    prepared: Prepared,
    proposal: Proposal,
    rule: CutRule,
    covariance_type: CovarianceType,
    max_clusters: int | None = None,
    n_others: int = 0,
) -> Refined:
    """Cut the tree of the rows that the proposer saw; Gaussians of the clusters label all others.

    Beside the answer there are ``n_others`` cuts at the thresholds that the rule holds for likely. Those that
    come out alike count together.
    """
    points = prepared.features[prepared.shown]
    if len(points) < 2:
        return _refined(prepared, [(np.zeros(len(points), dtype=np.int64), 1)], covariance_type)
    branches = branches_of(points, rule.smoothing, proposal.candidates[0])

    def labels_by(one: CutRule) -> np.ndarray:
        return settled(branches.points, one.labels(branches, max_clusters)[0])

    own = labels_by(rule)
    counts = Counter({own.tobytes(): 0})
    partitions = {own.tobytes(): own}
    for other in rule.others(n_others):
        labels = labels_by(other)
        partitions.setdefault(labels.tobytes(), labels)
        counts[labels.tobytes()] += 1
    counts[own.tobytes()] += 1  # the answer is one of them
    found = [(partitions[key], count) for key, count in counts.items()]
    beyond = rule.labels(branches, max_clusters)[1]
    return _refined(prepared, found, covariance_type, beyond)


def _refined(
    prepared: Prepared,
    partitions: list[tuple[np.ndarray, int]],
    covariance_type: CovarianceType,
    beyond_cap: bool = False,
) -> Refined:
    shown = np.searchsorted(prepared.context, prepared.shown)
    scored = []
    for own, count in partitions:
        clusters = clusters_of_labels(prepared.features[prepared.shown], own, covariance_type)
        labels = own
        if len(shown) < len(prepared.context):
            labels = clusters.log_joint(prepared.features[prepared.context]).argmax(axis=1)
            labels[shown] = own
        scored.append(Scored(clusters, float(np.log(count)), labels))
    return Refined(tuple(scored), beyond_cap, labels_stay=True)
