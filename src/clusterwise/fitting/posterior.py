"""What else may be true of a data set: P(K), and partitions drawn from the beliefs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import Refined, clusters_of_labels
from clusterwise.gaussian.clusters import clusters_in_use
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.gaussian.sorted_rows import Rows, in_input_order
from clusterwise.partition import PartitionPosterior

__all__ = [
    "Beliefs",
    "beliefs_of_proposal",
    "beliefs_of_refined",
    "k_posterior",
    "log_of_choice",
    "sample_partitions",
]

# Clusterings less probable than this, relative to the others, are left out.
LEAST_PROBABILITY = 1e-4


class Believed(Protocol):
    """Whatever can say who belongs to which of its clusters."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probability of each cluster for each point, (n, K)."""


@dataclass(frozen=True)
class Beliefs:
    """Clusterings of a data set, all their clusters in use, and the probability of each."""

    clusters: tuple[Believed, ...]
    weights: np.ndarray
    labels: tuple[np.ndarray, ...] = ()  # (m,) of the rows that a proposer saw, where these are settled


def beliefs_of_refined(
    prepared: Prepared, refined: Refined, order: np.ndarray | None, weights: np.ndarray | None = None
) -> Beliefs:
    """Believe in fitted mixtures by their evidence; clusters are sorted as they appear in ``order`` (n,).

    Weights (n,) say how many rows each row stands for, in the order of the input; None: all for as many.
    """
    rows = Rows(prepared.features)
    if refined.labels_stay:
        return _beliefs_of_settled(prepared, refined, weights)
    if weights is None:
        likely = _likely(refined.probabilities)
        kept = [clusters_in_use(rows, order, refined.scored[i].clusters)[0] for i in likely]
        return Beliefs(tuple(kept), _normalized(refined.probabilities[likely]))
    of_rows = weights[prepared.order]
    found = [clusters_in_use(rows, order, one.clusters)[0] for one in refined.scored]
    logits = np.array([one.log_evidence for one in refined.scored])
    logits += [log_of_choice(clusters.memberships(prepared.features), of_rows) for clusters in found]
    probabilities = np.exp(logits - logits.max())
    likely = _likely(probabilities)
    return Beliefs(tuple(found[i] for i in likely), _normalized(probabilities[likely]))


def _beliefs_of_settled(prepared: Prepared, refined: Refined, weights: np.ndarray | None) -> Beliefs:
    """Believe in partitions of the rows that the proposer saw, as they are."""
    shown = np.searchsorted(prepared.context, prepared.shown)
    believed = refined.probabilities
    if weights is not None:
        of_rows = weights[prepared.order]
        logs = [log_of_choice(one.clusters.memberships(prepared.features), of_rows) for one in refined.scored]
        believed = believed * np.exp(np.array(logs) - max(logs))
    likely = _likely(believed)
    return Beliefs(
        tuple(refined.scored[i].clusters for i in likely),
        _normalized(believed[likely]),
        tuple(refined.scored[i].labels[shown] for i in likely),
    )


def log_of_choice(membership: np.ndarray, weights: np.ndarray) -> float:
    """What the evidence of clusters, memberships (n, K), lacks if rows were chosen unevenly, by weights (n,).

    The evidence takes all shares of clusters for equally likely a priori: those in the sample, p_k, in place
    of those among all rows, q_k = p_k w_k / sum_l p_l w_l. The determinant of the change from p to q is the
    product of q_k / p_k. A cluster that fills more of the sample than of the data is thus believed less.
    """
    in_sample = membership.mean(axis=0)
    among_all = weights @ membership / weights.sum()
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(among_all, tiny) / np.maximum(in_sample, tiny)).sum())


def beliefs_of_proposal(prepared: Prepared, proposal: Proposal, covariance_type: CovarianceType) -> Beliefs:
    """Believe in a proposer's candidates as it does itself."""
    likely = _likely(proposal.weights)
    shown = prepared.features[prepared.shown]
    labels = tuple(proposal.candidates[i] for i in likely)
    clusters: tuple[Believed, ...] = tuple(proposal.clusters[i] for i in likely if proposal.clusters)
    if not clusters:
        clusters = tuple(clusters_of_labels(shown, of_one, covariance_type) for of_one in labels)
    return Beliefs(clusters, _normalized(proposal.weights[likely]), labels)


def _likely(weights: np.ndarray) -> np.ndarray:
    return np.flatnonzero(weights >= LEAST_PROBABILITY * weights.max())


def _normalized(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def k_posterior(beliefs: Beliefs) -> dict[int, float]:
    """P(K), sorted by K."""
    by_k = np.bincount([one.n_clusters for one in beliefs.clusters], weights=beliefs.weights)
    return {int(k): float(by_k[k]) for k in np.flatnonzero(by_k)}


def sample_partitions(prepared: Prepared, beliefs: Beliefs, n_samples: int, seed: int) -> PartitionPosterior:
    """Draw partitions of all rows: a clustering by its weight, then a cluster for each row not settled.

    Clusterings are drawn evenly: of n_samples equally likely ones each comes once.
    """
    rng = np.random.default_rng(seed)
    places = (np.arange(n_samples) + rng.random()) / n_samples
    drawn = np.minimum(np.searchsorted(beliefs.weights.cumsum(), places), len(beliefs.weights) - 1)
    labels = np.empty((n_samples, prepared.n_rows), dtype=np.int64)
    for chosen in np.unique(drawn):
        rows = np.flatnonzero(drawn == chosen)
        settled = beliefs.labels[chosen] if beliefs.labels else None
        labels[rows] = _draws(rng, prepared, beliefs.clusters[chosen], settled, rows)
    return PartitionPosterior(labels)


def _draws(
    rng: np.random.Generator,
    prepared: Prepared,
    clusters: Believed,
    settled: np.ndarray | None,
    rows: Sequence[int] | np.ndarray,
) -> np.ndarray:
    """As many partitions (r, n) of all rows as ``rows`` has entries, in the order of the input."""
    result = np.empty((len(rows), prepared.n_rows), dtype=np.int64)
    if settled is not None and len(settled) == prepared.n_rows:
        result[:] = in_input_order(settled, prepared.order)
        return result
    edges = clusters.memberships(prepared.features).cumsum(axis=1)[:, :-1]
    for row in result:
        labels = (rng.random((prepared.n_rows, 1)) > edges).sum(axis=1)
        if settled is not None:
            labels[prepared.shown] = settled
        row[:] = in_input_order(labels, prepared.order)
    return result
