"""The stages of ``fit`` where trained judges choose among candidate partitions of any shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from clusterwise.affine import FeatureSpace
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
from clusterwise.clusterer.points import COLUMNS_OF_ONE_UNIT, Projection, fit_projection
from clusterwise.clusterer.proposers import Candidates, MoreRows, candidates_of
from clusterwise.fitting.describe import Description
from clusterwise.fitting.posterior import Beliefs
from clusterwise.fitting.prepare import MOST_CONTEXT, Prepared, prepare
from clusterwise.fitting.propose import Proposal
from clusterwise.fitting.refine import choose_covariance_type, clusters_of_labels
from clusterwise.gaussian.sorted_rows import by_first_appearance, in_input_order

__all__ = [
    "JudgedPipeline",
    "JudgedProposal",
    "JudgedProposer",
    "beliefs_of_judged",
    "describe_judged",
    "doubt_of",
    "layer",
]

# Fewer rows are one cluster: there is nothing to tell clusters by.
LEAST_ROWS = 8
# Wide tables of many rows, of images, texts or cells, are less like the training tables, which have a few
# hundred rows, than others are. From this many rows on the judge is sometimes taken to know nothing, more
# often with each doubling, and then the answer is the candidate that is most like all others.
ROWS_WITHOUT_DOUBT, DOUBT_OF_A_DOUBLING, MOST_DOUBT = 1_000, 0.5, 0.7
# Candidates less probable than this, relative to the likeliest, are left out of the beliefs.
LEAST_WEIGHT = 1e-4
# Numbers of clusters less probable than this, relative to the likeliest, are left out of P(K).
LEAST_OF_K = 1e-3
# Asked for a number of clusters that is less probable, a better known partition is merged or split.
LEAST_TO_ASK = 0.1


@dataclass(frozen=True)
class JudgedProposal(Proposal):
    """Candidates with the judges' probabilities, the best answer first; see ``ranked``."""

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


@dataclass(frozen=True)
class JudgedProposer:
    """Proposes what judges choose among cuts of trees, communities and mixtures."""

    node_judge: NodeJudge
    partition_judge: PartitionJudge
    max_clusters: int = 100

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[JudgedProposal]:
        """See ``Proposer``; all candidates are returned, however many draws are asked for."""
        return [self.judged(features) for features in sets]

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
        task = pack_candidates([measured], [found.origins], [agreement])
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
class JudgedPipeline:
    """The stages of ``cw.Clusterer``; the judges' choice is not refined any further."""

    fit_space: Callable[[np.ndarray], FeatureSpace]
    proposer: JudgedProposer
    most_rows: Callable[[int], int]  # by the number of columns
    has_many: Callable[[int], bool]  # of columns: communities are found among all rows of the context
    max_clusters: int = 100
    how: None = None
    n_draws: int = 0

    def most_sampled(self, n_features: int) -> int:
        """Rows that the judges, or the communities, look at."""
        return max(self.most_rows(n_features), MOST_CONTEXT if self.has_many(n_features) else 0)

    def prepare(self, points: np.ndarray, seed: int) -> Prepared:
        """Sort and scale points (n, d), and choose the rows that the judges see."""
        most = self.most_rows(points.shape[1])
        return with_small_clusters(prepare(points, self.fit_space, most, seed), seed)

    def propose(
        self, prepared: Sequence[Prepared], seed: int, n_draws: int | None = None
    ) -> list[JudgedProposal]:
        """Candidate partitions of the rows shown of each data set, judged."""
        return [self.proposer.judged(one.features[one.shown], self._more_rows(one)) for one in prepared]

    def _more_rows(self, prepared: Prepared) -> MoreRows | None:
        context, shown = prepared.context, prepared.shown
        if len(context) <= len(shown) or not self.has_many(prepared.features.shape[1]):
            return None
        rows = np.union1d(context, shown)
        return MoreRows(prepared.features[rows], np.searchsorted(rows, shown))

    def refine(self, prepared: Prepared, proposal: JudgedProposal) -> None:
        """Nothing: clusters may have any shape."""

    def describe(self, prepared: Prepared, proposal: JudgedProposal, refined: None) -> Description:
        """Label all rows by their neighbours among those that the judges saw."""
        return describe_judged(prepared, proposal, proposal.candidates[0])

    def believe(
        self, prepared: Prepared, seed: int, n_draws: int, weights: np.ndarray | None = None
    ) -> Beliefs:
        """What else there may be besides the answer."""
        (proposal,) = self.propose([prepared], seed)
        return beliefs_of_judged(prepared, proposal)


def describe_judged(
    prepared: Prepared, proposal: JudgedProposal, answer: np.ndarray, alone: bool = False
) -> Description:
    """Describe one partition of the rows shown, (m,), with memberships by all candidates or by it ``alone``.

    Rows are labelled by their neighbours or by the Gaussians of the clusters, whichever tells the judges'
    labels better.
    """
    if alone:
        votes = links_of(answer, answer)[answer]
    else:
        votes = votes_of(answer, proposal.candidates, proposal.weights)
    assigner = _best_assigner(prepared, proposal, answer, votes)
    while True:
        membership, far = assigner.describe(prepared.features)
        labels = membership.argmax(axis=1)
        in_use = by_first_appearance(labels, assigner.n_clusters, prepared.order)
        complete = len(in_use) == assigner.n_clusters
        assigner = assigner.select(in_use)
        if complete:  # another order of the clusters changes nothing else
            membership, labels = membership[:, in_use], np.argsort(in_use)[labels]
            break
    clusters = clusters_of_labels(
        prepared.features[prepared.context],
        _all_used(labels[prepared.context], assigner.n_clusters),
        choose_covariance_type("auto", len(prepared.context), prepared.features.shape[1]),
    )
    order = prepared.order
    return Description(
        clusters, assigner, in_input_order(membership, order), lambda: in_input_order(far, order)
    )


def _best_assigner(
    prepared: Prepared, proposal: JudgedProposal, answer: np.ndarray, votes: np.ndarray
) -> NeighbourAssigner | MixtureAssigner:
    shown = prepared.features[prepared.shown]
    covariance_type = choose_covariance_type("auto", *shown.shape)
    if proposal.near is None:
        clusters = clusters_of_labels(shown, answer, covariance_type)
        return MixtureAssigner.of(clusters, votes, answer, prepared.n_rows)
    by_neighbours = NeighbourAssigner.of(proposal.projection, proposal.near, votes)
    ordinary = by_neighbours.ordinary & (votes.argmax(axis=1) == answer)
    ordinary |= ~np.isin(answer, answer[ordinary])  # of a cluster without any all rows count
    least = by_neighbours.agreement(proposal.near, answer)
    for rows in (ordinary, np.ones_like(ordinary)):  # without rows far out, if that does not harm
        clusters = clusters_of_labels(shown[rows], answer[rows], covariance_type)
        by_mixture = MixtureAssigner.of(clusters, votes, answer, prepared.n_rows)
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


def _all_used(context: np.ndarray, n_clusters: int) -> np.ndarray:
    """Labels of the context with every cluster in use: one without a row there gets one of the largest."""
    counts = np.bincount(context, minlength=n_clusters)
    if counts.all():
        return context
    context = context.copy()
    for missing in np.flatnonzero(counts == 0):
        giver = int(np.bincount(context, minlength=n_clusters).argmax())
        context[np.flatnonzero(context == giver)[0]] = missing
    return context


def beliefs_of_judged(prepared: Prepared, proposal: JudgedProposal) -> Beliefs:
    """Believe in the candidates as the judges do."""
    likely = np.flatnonzero(proposal.weights >= LEAST_WEIGHT * proposal.weights.max())
    labels = tuple(proposal.candidates[i] for i in likely)
    assigners = tuple(
        _best_assigner(prepared, proposal, one, links_of(one, one)[one])
        if proposal.near is None
        else NeighbourAssigner.of(proposal.projection, proposal.near, links_of(one, one)[one])
        for one in labels
    )
    weights = proposal.weights[likely]
    return Beliefs(assigners, weights / weights.sum(), labels)
