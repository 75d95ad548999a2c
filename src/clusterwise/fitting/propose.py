"""The second stage of ``fit``: who proposes candidate partitions, and what a proposal holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from clusterwise.nn.flow_clusters import FlowClusters

__all__ = ["ClusteringStep", "Proposal", "ProposedStep", "Proposer", "steps_in_input_order"]


@dataclass(frozen=True)
class ProposedStep:
    """One step of a cluster-wise proposer, over the m rows that it was shown."""

    members: np.ndarray  # (m,) bool
    probabilities: np.ndarray  # (m,)
    anchor: int | None  # the row that the step started from, where a method has one


@dataclass(frozen=True)
class Proposal:
    """Candidate partitions of the m rows of one data set that the proposer was shown."""

    candidates: tuple[np.ndarray, ...]  # labels (m,) each, from 0 on; the first is the proposer's own answer
    weights: np.ndarray  # the proposer's belief in each candidate, they sum to one
    steps: tuple[ProposedStep, ...] = ()  # how the first candidate came about
    cap_reached: bool = False
    log_probability: float | None = None  # of the first candidate, where a method gives one
    k_posterior: dict[int, float] | None = None  # where a method has a belief in k itself
    clusters: tuple[FlowClusters, ...] = ()  # of each candidate, where the proposer has densities of its own


class Proposer(Protocol):
    """Whatever turns points into candidate partitions."""

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        """Propose partitions of data sets (m_b, f), sorted and scaled, each by its own seed.

        The first candidate is the answer that the proposer would give alone. With ``n_draws`` > 0 there are
        further ones, as many if it can draw them; their weights say how likely it holds them.
        """


@dataclass(frozen=True)
class ClusteringStep:
    """One step of the cluster-by-cluster path, in the order of the rows given to ``fit``."""

    n_rows: int
    shown: np.ndarray  # (m,) rows that the proposer saw; only of these anything is kept
    shown_members: np.ndarray  # (m,) bool
    shown_probabilities: np.ndarray  # (m,)
    anchor: int | None  # the row that the step started from, where a method has one

    @property
    def members(self) -> np.ndarray:
        """The rows that joined the cluster in this step, (n,) bool."""
        members = np.zeros(self.n_rows, dtype=bool)
        members[self.shown] = self.shown_members
        return members

    @property
    def probabilities(self) -> np.ndarray:
        """The network's membership probabilities, (n,), zero for rows taken before."""
        probabilities = np.zeros(self.n_rows)
        probabilities[self.shown] = self.shown_probabilities
        return probabilities


def steps_in_input_order(proposal: Proposal, shown: np.ndarray, n_rows: int) -> tuple[ClusteringStep, ...]:
    """Translate a proposal's steps to the rows of the input, of which the proposer saw ``shown`` (m,)."""
    return tuple(
        ClusteringStep(
            n_rows,
            shown,
            step.members,
            step.probabilities,
            None if step.anchor is None else int(shown[step.anchor]),
        )
        for step in proposal.steps
    )
