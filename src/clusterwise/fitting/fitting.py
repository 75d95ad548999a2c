"""The stages of ``fit`` with the settings of one estimator: prepare, propose, refine, describe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from clusterwise.affine import FeatureSpace
from clusterwise.fitting.describe import (
    Description,
    describe,
    describe_average,
    describe_proposal,
    describe_settled,
)
from clusterwise.fitting.posterior import Beliefs, beliefs_of_proposal, beliefs_of_refined
from clusterwise.fitting.prepare import MOST_CONTEXT, Prepared, prepare
from clusterwise.fitting.propose import Proposal, Proposer
from clusterwise.fitting.refine import Refine, Refined, choose_covariance_type, refine
from clusterwise.gaussian.niw import CovarianceType

__all__ = ["Pipeline", "Stages"]


class Stages(Protocol):
    """What ``fit`` runs one after the other; see ``Pipeline``."""

    @property
    def how(self) -> Refine | None:
        """How candidates are refined; None: the proposer's own answer is reported."""

    @property
    def n_draws(self) -> int:
        """Candidates besides the proposer's own answer."""

    def most_sampled(self, n_features: int) -> int:
        """Rows that the stages make use of; of more a sample will do."""

    def prepare(self, points: np.ndarray, seed: int) -> Prepared:
        """Sort and scale points (n, d), and choose the rows that stages see."""

    def propose(self, prepared: Sequence[Prepared], seed: int, n_draws: int | None = None) -> Sequence[Any]:
        """Candidate partitions of the rows shown of each data set."""

    def refine(self, prepared: Prepared, proposal: Any) -> Refined | None:
        """Mixtures that start from the candidates."""

    def describe(self, prepared: Prepared, proposal: Any, refined: Any) -> Description:
        """Labels, memberships and outlier scores of all rows."""

    def believe(
        self, prepared: Prepared, seed: int, n_draws: int, weights: np.ndarray | None = None
    ) -> Beliefs:
        """What else there may be besides the answer; weights (n,) say how many rows each stands for."""


@dataclass(frozen=True)
class Pipeline:
    """What an estimator does with a data set; each method is one stage."""

    fit_space: Callable[[np.ndarray], FeatureSpace]
    proposer: Proposer
    how: Refine | None = "search"  # None: the proposer's own answer is reported
    covariance_type: CovarianceType | Literal["auto"] = "full"
    max_clusters: int = 100
    max_shown: int | None = None  # rows that the proposer sees; None: as many as refining sees
    n_draws: int = 0  # candidates besides the proposer's own answer

    def _covariance_type(self, prepared: Prepared) -> CovarianceType:
        return choose_covariance_type(self.covariance_type, len(prepared.context), prepared.features.shape[1])

    def most_sampled(self, n_features: int) -> int:
        """Rows that the stages make use of."""
        return max(MOST_CONTEXT, self.max_shown or 0)

    def prepare(self, points: np.ndarray, seed: int) -> Prepared:
        """Sort and scale points (n, d), and choose the rows that stages see."""
        return prepare(points, self.fit_space, self.max_shown, seed)

    def propose(self, prepared: Sequence[Prepared], seed: int, n_draws: int | None = None) -> list[Proposal]:
        """Candidate partitions of the rows shown of each data set."""
        if n_draws is None:  # nothing would judge the drawn candidates
            n_draws = 0 if self.how is None else self.n_draws
        shown = [one.features[one.shown] for one in prepared]
        return self.proposer.propose(shown, [seed] * len(shown), n_draws)

    def refine(self, prepared: Prepared, proposal: Proposal) -> Refined | None:
        """Mixtures that start from the candidates, ranked by their evidence; None if nothing is refined."""
        if self.how is None:
            return None
        shown, context = prepared.shown, prepared.context
        return refine(
            prepared.features if len(context) == prepared.n_rows else prepared.features[context],
            proposal.candidates,
            self.how,
            rows=None if len(shown) == len(context) else np.searchsorted(context, shown),
            covariance_type=self._covariance_type(prepared),
            max_clusters=self.max_clusters,
        )

    def describe(self, prepared: Prepared, proposal: Proposal, refined: Refined | None) -> Description:
        """Labels, memberships and outlier scores of all rows; averages where candidates were drawn."""
        if refined is None:
            return describe_proposal(prepared, proposal, self._covariance_type(prepared))
        if refined.labels_stay:
            best = refined.scored[0]
            own = best.labels[np.searchsorted(prepared.context, prepared.shown)]
            description = describe_settled(prepared, best.clusters, own)
        elif self.n_draws == 0:
            description = describe(prepared, refined.best, refined.scored[0].labels)
        else:
            beliefs = beliefs_of_refined(prepared, refined, None)
            description = describe_average(prepared, refined.best, beliefs)
        return replace(description, beyond_cap=True) if refined.beyond_cap else description

    def believe(
        self, prepared: Prepared, seed: int, n_draws: int, weights: np.ndarray | None = None
    ) -> Beliefs:
        """What else there may be besides the answer, from ``n_draws`` further candidates.

        Weights (n,) say how many rows each row stands for; a network's own beliefs make no use of them.
        """
        (proposal,) = self.propose([prepared], seed, n_draws)
        refined = self.refine(prepared, proposal)
        if refined is not None:
            return beliefs_of_refined(prepared, refined, prepared.order, weights)
        return beliefs_of_proposal(prepared, proposal, self._covariance_type(prepared))
