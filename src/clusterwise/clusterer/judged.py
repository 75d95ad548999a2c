"""The stages of ``fit`` where trained judges choose among candidate partitions of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from clusterwise.affine import FeatureSpace, fit_column_map
from clusterwise.clusterer.assign import MixtureAssigner, NeighbourAssigner, links_of, votes_of
from clusterwise.clusterer.context import with_small_clusters
from clusterwise.clusterer.graph import Neighbourhood, neighbourhood_of
from clusterwise.clusterer.layers import coarser, finer
from clusterwise.clusterer.node_judge import NodeJudge
from clusterwise.clusterer.partition_judge import (
    PartitionJudge,
    joint_weights,
    pack_candidates,
    probabilities_of_k,
    ranked,
)
from clusterwise.clusterer.partitions import agreements, features_of_partition
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT, Projection, fit_projection, in_one_unit
from clusterwise.clusterer.proposers import Candidates, MoreRows, candidates_of
from clusterwise.exceptions import ClusterwiseWarning, LowConfidenceWarning, UnusualTableWarning
from clusterwise.fitting.mixture_fit import choose_covariance_type, clusters_of_labels
from clusterwise.fitting.protocol import MAX_ROWS, Clustering, Method, Progress
from clusterwise.fitting.uncertainty import ClusteringPosterior
from clusterwise.gaussian.sorted_rows import SortedRows, by_first_appearance, sample_rows, spread_rows

__all__ = [
    "JudgedMethod",
    "JudgedProposal",
    "JudgedProposer",
    "clusters_of_candidate",
    "doubt_of",
    "layer",
]

# Fewer rows are one cluster: there is nothing to tell clusters by.
LEAST_ROWS = 8
# Wide tables of many rows, of images, texts or cells, are less like the training tables, which have a few
# hundred rows, than others are. From this many rows on the judge is sometimes taken to know nothing, more
# often with each doubling, and then the answer is the candidate that is most like all others.
ROWS_WITHOUT_DOUBT, DOUBT_OF_A_DOUBLING, MOST_DOUBT = 1_000, 0.5, 0.7
# Candidates less probable than this, relative to the likeliest, are left out of the posterior.
LEAST_WEIGHT = 1e-4
# Numbers of clusters less probable than this, relative to the likeliest, are left out of P(K).
LEAST_OF_K = 1e-3
# Tables this many times stranger than one in a thousand of the training tables bring a warning.
MARGIN = 1.5
# Answers that the judge expects less of bring a warning: half-way between chance and the truth.
LEAST_EXPECTED = 0.5
# Asked for a number of clusters that is less probable, a better known partition is merged or split.
LEAST_TO_ASK = 0.1


@dataclass(frozen=True)
class JudgedProposal:
    """Candidates with the judges' probabilities, the best answer first; see ``ranked``."""

    candidates: tuple[np.ndarray, ...]  # labels (m,) each
    weights: np.ndarray  # the judges' probability of each
    cap_reached: bool = False
    k_posterior: dict[int, float] | None = None
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (m,) of the sorted rows
    considered: Candidates | None = None  # None: too few rows to consider anything
    ranking: np.ndarray | None = None  # (c,) places of the candidates among those considered
    expected_scores: np.ndarray | None = (
        None  # (c,) adjusted Rand index with the truth that the judge expects
    )
    strangeness: float = 0.0  # see ``PartitionJudge.strangeness``
    near: Neighbourhood | None = None  # of the rows shown; None: there is one row only
    projection: Projection = field(
        default_factory=Projection
    )  # from features to the points that distances were taken between

    @property
    def expected_ari(self) -> float:
        """Adjusted Rand index with the truth that the judge expects of the answer."""
        return 1.0 if self.expected_scores is None else float(self.expected_scores[0])


@dataclass(frozen=True)
class JudgedProposer:
    """Proposes what judges choose among cuts of trees, communities and mixtures."""

    node_judge: NodeJudge
    partition_judge: PartitionJudge
    max_clusters: int = 100

    def judged(self, features: np.ndarray, more: MoreRows | None = None) -> JudgedProposal:
        """Candidates of features (m, f); communities may be those of more rows of the table."""
        projection = fit_projection(features)
        points = projection.apply(features)
        if len(points) < LEAST_ROWS or not (points != points[0]).any():
            one = np.zeros(len(points), dtype=np.int64)
            near = neighbourhood_of(points) if len(points) > 1 else None
            return JudgedProposal((one,), np.ones(1), k_posterior={1: 1.0}, near=near, projection=projection)
        if more is not None:
            more = MoreRows(projection.apply(more.points), more.places)
        found = candidates_of(points, self.node_judge, more)
        measured = [
            features_of_partition(found.measured, one, found.trees, found.scores) for one in found.labels
        ]
        agreement = agreements(found.labels)
        task = pack_candidates([measured], [agreement])
        with torch.inference_mode():
            verdict = self.partition_judge(task)
            strangeness = float(self.partition_judge.strangeness(task)[0])
        choice = verdict.choice[0].double().exp().numpy()
        numbers = verdict.numbers[0].double().exp().numpy()
        sizes = task.n_clusters[0].numpy()
        doubt = doubt_of(*features.shape)
        order = ranked(choice, joint_weights(choice, numbers, sizes), agreement, doubt)
        ranking = order[sizes[order] <= self.max_clusters]  # one cluster is always among the candidates
        weights = joint_weights(choice[ranking], numbers[ranking], sizes[ranking])
        of_k = probabilities_of_k(
            weights, sizes[ranking], float(self.partition_judge.spread), self.max_clusters
        )
        likely = np.flatnonzero(of_k >= LEAST_OF_K * of_k.max())
        by_k = {int(i) + 1: float(of_k[i] / of_k[likely].sum()) for i in likely}
        return JudgedProposal(
            tuple(found.labels[i] for i in ranking),
            weights,
            cap_reached=bool(ranking[0] != order[0]),
            k_posterior=by_k,
            considered=found,
            ranking=ranking,
            expected_scores=torch.sigmoid(verdict.qualities[0]).double().numpy()[ranking],
            strangeness=strangeness,
            near=found.near,
            projection=projection,
        )


def doubt_of(n_rows: int, n_columns: int) -> float:
    """How often the judge of partitions is taken to know nothing of a table of this size; see ``ranked``."""
    if n_columns <= COLUMNS_OF_ONE_UNIT:
        return 0.0
    return float(np.clip(DOUBT_OF_A_DOUBLING * np.log2(n_rows / ROWS_WITHOUT_DOUBT), 0.0, MOST_DOUBT))


@dataclass(frozen=True)
class JudgedMethod(Method):
    """What ``cw.Clusterer`` does with a data set; the judges' choice is not refined any further."""

    proposer: JudgedProposer
    prepared: bool  # whether a table was prepared, whose columns have their weights already
    max_context: int  # rows that the judges see
    many_columns: bool  # whether communities are found among all rows of the context
    weights_name: str
    usual_strangeness: float
    max_rows: int = MAX_ROWS

    def fit_space(self, points: np.ndarray) -> FeatureSpace:
        """See ``Method``."""
        return fit_column_map(points, joint=self.prepared or in_one_unit(points))

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``."""
        return [self._cluster(rows, seed) for rows in sets]

    def _cluster(self, rows: SortedRows, seed: int) -> Clustering:
        context = sample_rows(len(rows), max(MAX_ROWS, self.max_context), seed)
        shown = context[spread_rows(len(context), self.max_context)]
        shown = with_small_clusters(rows.features, shown, seed)
        features, more = rows.features, None
        if len(context) > len(shown) and self.many_columns:
            union = np.union1d(context, shown)
            more = MoreRows(features[union], np.searchsorted(union, shown))
        proposal = replace(self.proposer.judged(features[shown], more), rows=shown)
        found = clusters_of_candidate(rows, proposal, proposal.candidates[0], seed=seed)
        return replace(found, warnings=self._notes(proposal), weights_name=self.weights_name)

    def _notes(self, proposal: JudgedProposal) -> tuple[ClusterwiseWarning, ...]:
        notes: list[ClusterwiseWarning] = []
        if proposal.expected_ari < LEAST_EXPECTED:
            n_clusters = int(proposal.candidates[0].max()) + 1
            notes.append(LowConfidenceWarning(n_clusters=n_clusters, expected_ari=proposal.expected_ari))
        if proposal.strangeness > MARGIN * self.usual_strangeness:
            notes.append(UnusualTableWarning(fraction=proposal.strangeness))
        return tuple(notes)

    def posterior(
        self, rows: SortedRows, found: Clustering, seed: int, n_samples: int | None
    ) -> ClusteringPosterior:
        """See ``Method``; the candidates as the judges weigh them."""
        proposal: JudgedProposal = found.details
        likely = np.flatnonzero(proposal.weights >= LEAST_WEIGHT * proposal.weights.max())
        assigners, settled = [], []
        for i in likely:
            labels = proposal.candidates[i]
            votes = links_of(labels, labels)[labels]
            if proposal.near is None:
                assigners.append(_best_assigner(rows, proposal, labels, votes))
            else:
                assigners.append(NeighbourAssigner.of(proposal.projection, proposal.near, votes))
            settled.append(np.full(len(rows), -1))
            settled[-1][proposal.rows] = labels
        weights = proposal.weights[likely]
        return ClusteringPosterior(assigners, weights / weights.sum(), settled)


def clusters_of_candidate(
    rows: SortedRows, proposal: JudgedProposal, answer: np.ndarray, *, alone: bool = False, seed: int = 0
) -> Clustering:
    """The clusters of one partition of the rows shown, (m,), with memberships by all candidates or ``alone``.

    Rows are labelled by their neighbours or by the Gaussians of the clusters, whichever tells the judges'
    labels better.
    """
    if alone:
        votes = links_of(answer, answer)[answer]
    else:
        votes = votes_of(answer, proposal.candidates, proposal.weights)
    assigner = _best_assigner(rows, proposal, answer, votes)
    context = np.union1d(sample_rows(len(rows), MAX_ROWS, seed), proposal.rows)
    features = rows.features[context]
    labels = assigner.memberships(features).argmax(axis=1)
    order = context if rows.order is None else rows.order[context]
    in_use = by_first_appearance(labels, assigner.n_clusters, order)
    labels, assigner = np.argsort(in_use)[labels], assigner.select(in_use)
    covariance_type = choose_covariance_type("auto", *features.shape)
    clusters = clusters_of_labels(features, labels, covariance_type)
    return Clustering(
        clusters,
        assigner,
        cap_reached=proposal.cap_reached,
        check="any shape",
        k_posterior=proposal.k_posterior,
        details=proposal,
    )


def _best_assigner(
    rows: SortedRows, proposal: JudgedProposal, answer: np.ndarray, votes: np.ndarray
) -> NeighbourAssigner | MixtureAssigner:
    shown = rows.features[proposal.rows]
    covariance_type = choose_covariance_type("auto", *shown.shape)
    if proposal.near is None:
        clusters = clusters_of_labels(shown, answer, covariance_type)
        return MixtureAssigner.of(clusters, votes, answer)
    by_neighbours = NeighbourAssigner.of(proposal.projection, proposal.near, votes)
    ordinary = by_neighbours.ordinary & (votes.argmax(axis=1) == answer)
    ordinary |= ~np.isin(answer, answer[ordinary])  # of a cluster without any all rows count
    least = by_neighbours.agreement(proposal.near, answer)
    for some in (ordinary, np.ones_like(ordinary)):  # without rows far out, if that does not harm
        clusters = clusters_of_labels(shown[some], answer[some], covariance_type)
        by_mixture = MixtureAssigner.of(clusters, votes, answer)
        if by_mixture.agreement(shown, answer) >= least:
            return by_mixture
    return by_neighbours


def layer(proposal: JudgedProposal, n_clusters: int) -> np.ndarray:
    """Labels (m,) of a partition of the rows shown into ``n_clusters``.

    It is the best candidate with that number of clusters if the number is probable, or else the one with the
    probable number next to it on the way to the answer's, with clusters merged or split; see ``nested``.
    """
    answer = proposal.candidates[0]
    known = {int(answer.max()) + 1: answer}
    for labels in proposal.candidates:  # the best first
        number = int(labels.max()) + 1
        if (proposal.k_posterior or {}).get(number, 0.0) >= LEAST_TO_ASK:
            known.setdefault(number, labels)
    if n_clusters in known:
        return known[n_clusters]
    assert proposal.near is not None  # of a single row there is no partition but the candidate
    points = proposal.near.points
    if n_clusters < answer.max() + 1:
        return coarser(points, known[min(k for k in known if k > n_clusters)], n_clusters)
    return finer(points, known[max(k for k in known if k < n_clusters)], n_clusters)
