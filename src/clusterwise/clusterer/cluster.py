"""The method of ``Clusterer`` on one screen: partitions are proposed, judges choose, other rows follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterwise._threads import in_threads
from clusterwise.clusterer.assign import assigner_of, average_memberships
from clusterwise.clusterer.context import Context, context_of
from clusterwise.clusterer.graph import Graph, neighbour_graph
from clusterwise.clusterer.judges import (
    Judges,
    PartitionScores,
    joint_probabilities,
    probabilities_of_k,
    rank,
)
from clusterwise.clusterer.proposers import Proposer, distinct
from clusterwise.exceptions import ClusterwiseWarning, LowConfidenceWarning, UnusualTableWarning
from clusterwise.fitting.protocol import Clustering, Progress
from clusterwise.gaussian.mixture import choose_covariance_type, clusters_of_labels
from clusterwise.rows.sorted_rows import SortedRows

__all__ = ["Chosen", "cluster"]

# Fewer rows are one cluster: there is nothing to tell clusters by.
MIN_ROWS = 8
# Numbers of clusters less probable than this, relative to the likeliest, are left out of P(K).
MIN_RATIO_OF_K = 1e-3
# Tables with this many times more features out of range than one in a thousand of the training tables has
# bring a warning; so do answers that are expected to agree less with the truth: half-way to it from chance.
OUT_OF_RANGE_MARGIN, MIN_EXPECTED_ARI = 1.5, 0.5
N_STEPS = 4


@dataclass(frozen=True)
class Chosen:
    """The answer for the m judged rows, and what else was considered: candidates sorted, the answer first."""

    context: Context
    graph: Graph | None  # None: too few rows to consider anything
    candidates: tuple[np.ndarray, ...]  # (m,) labels each, from 0 on
    probabilities: np.ndarray  # (c,) of the candidates
    expected_ari: np.ndarray  # (c,) of each candidate with the truth
    k_posterior: dict[int, float]
    out_of_range: float = 0.0  # share of features far outside of what the training tables have
    cap_reached: bool = False  # whether a candidate with too many clusters was better


def cluster(
    rows: SortedRows,
    proposers: Sequence[Proposer],
    judges: Judges,
    progress: Progress,
    *,
    max_clusters: int = 100,
    max_judged: int | None = None,
    seed: int = 0,
) -> Clustering:
    """Clusters of rows: the candidate that the judges expect to agree best with the true partition."""
    context = context_of(rows, max_judged, seed)  # context.py: rows to judge
    if len(context.points) < MIN_ROWS or not (context.points != context.points[0]).any():
        return _clustering(rows, _single_cluster(context), judges)
    progress("finding neighbours", 0, N_STEPS)
    graph = neighbour_graph(context.points, context.more_points, context.places)  # graph.py
    progress("judging branches", 1, N_STEPS)
    graph = replace(graph, trees=judges.score_trees(graph))  # trees.py, branches.py, judges.py
    progress("proposing partitions", 2, N_STEPS)
    proposed = in_threads(lambda propose: list(propose(graph)), proposers)  # proposers.py
    apart = (context.keep_groups_apart(one, graph.neighbours) for of in proposed for one in of)  # context.py
    candidates = distinct(context.points, apart)
    progress("judging partitions", 3, N_STEPS)
    scores = judges.score(graph, candidates)  # features.py, judges.py: expected ARI, P(best), P(K)
    chosen = _chosen(context, graph, candidates, scores, judges.spread_of_k, max_clusters)
    return _clustering(rows, chosen, judges)  # assign.py: rows that were not judged, and rows to come


def _chosen(
    context: Context,
    graph: Graph,
    candidates: Sequence[np.ndarray],
    scores: PartitionScores,
    spread_of_k: float,
    max_clusters: int,
) -> Chosen:
    """Candidates with at most ``max_clusters`` clusters from the best to the worst, and P(K)."""
    order = rank(scores)
    kept = order[scores.n_clusters[order] <= max_clusters]  # a single cluster is always among the candidates
    sizes = scores.n_clusters[kept]
    joint = joint_probabilities(scores.choice[kept], scores.numbers[kept], sizes)
    of_k = probabilities_of_k(joint, sizes, spread_of_k, max_clusters)
    likely = np.flatnonzero(of_k >= MIN_RATIO_OF_K * of_k.max())
    return Chosen(
        context,
        graph,
        tuple(candidates[i] for i in kept),
        joint,
        scores.expected_ari[kept],
        {int(i) + 1: float(of_k[i] / of_k[likely].sum()) for i in likely},
        scores.out_of_range,
        cap_reached=bool(kept[0] != order[0]),
    )


def _single_cluster(context: Context) -> Chosen:
    graph = neighbour_graph(context.points) if len(context.points) > 1 else None
    one = np.zeros(len(context.points), dtype=np.int64)
    return Chosen(context, graph, (one,), np.ones(1), np.ones(1), {1: 1.0})


def _clustering(rows: SortedRows, chosen: Chosen, judges: Judges) -> Clustering:
    """The chosen partition with what assigns other rows to its clusters."""
    context, answer = chosen.context, chosen.candidates[0]
    memberships = average_memberships(answer, chosen.candidates, chosen.probabilities)
    assigner = assigner_of(context.features, chosen.graph, context.projection, answer, memberships)
    labels = np.full(len(rows), -1)
    labels[context.judged] = answer
    features, of_features = context.features, answer
    if len(context.sampled) > len(context.judged):  # more rows for means and covariances
        features = rows.features[np.union1d(context.sampled, context.judged)]
        of_features = assigner.memberships(features).argmax(axis=1)
    covariance_type = choose_covariance_type("auto", *features.shape)
    return Clustering(
        clusters_of_labels(features, of_features, covariance_type),
        assigner,
        labels,
        cap_reached=chosen.cap_reached,
        warnings=_warnings(chosen, judges.max_out_of_range),
        any_shape=True,
        k_posterior=chosen.k_posterior,
        weights_name=judges.name,
        details=chosen,
    )


def _warnings(chosen: Chosen, max_out_of_range: float) -> tuple[ClusterwiseWarning, ...]:
    """What a user should know of how far the answer can be trusted."""
    found: list[ClusterwiseWarning] = []
    n_clusters, expected_ari = int(chosen.candidates[0].max()) + 1, float(chosen.expected_ari[0])
    if expected_ari < MIN_EXPECTED_ARI:
        found.append(LowConfidenceWarning(n_clusters=n_clusters, expected_ari=expected_ari))
    if chosen.out_of_range > OUT_OF_RANGE_MARGIN * max_out_of_range:
        found.append(UnusualTableWarning(fraction=chosen.out_of_range))
    return tuple(found)
