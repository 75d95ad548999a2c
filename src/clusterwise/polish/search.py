"""The search: from each candidate partition uphill in evidence, by mergers and splits of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise.exceptions import InvalidDataError
from clusterwise.mixture import DiagonalMixture
from clusterwise.partition import canonical_labels
from clusterwise.polish.em import refined
from clusterwise.polish.evidence import Data, State, judge, shrunk_variances
from clusterwise.polish.mergers import DEPTH, gains_of_mergers, merged
from clusterwise.polish.shatter import VERY_ODD, shattered
from clusterwise.polish.splits import Split, concentric, divided, split_of_suspect, suspect

__all__ = ["Polished", "Scored", "polish"]

# Rounds of mergers and splits; each raises the evidence, so this is hardly ever reached.
MOST_ROUNDS = 60
# Mixtures with the same number of clusters whose log evidences differ by no more are the same: EM stops
# a little before its goal, and not at the same place from every side.
SAME = 0.05


@dataclass(frozen=True)
class Scored:
    """A mixture and its log evidence."""

    mixture: DiagonalMixture
    log_evidence: float


@dataclass(frozen=True)
class Polished:
    """The best mixture, and all distinct ones that were tried on the way to it, best first."""

    scored: tuple[Scored, ...]

    @property
    def best(self) -> Scored:
        """The mixture with the largest evidence, and that evidence."""
        return self.scored[0]

    @property
    def mixture(self) -> DiagonalMixture:
        """The mixture with the largest evidence."""
        return self.best.mixture


def polish(points: np.ndarray, candidates: Sequence[np.ndarray], refine_steps: int) -> Polished:
    """Polish candidate partitions and rank all mixtures that were tried by their evidence.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Float64, finite, scaled to unit spread.
    candidates : sequence of ndarray of shape (n,)
        Labels; equal partitions are polished once.
    refine_steps : int
        EM stops at the latest after five times as many steps; 0 leaves memberships as they are.

    Returns
    -------
    Polished
        Deterministic; another order of the rows changes no more than rounding does.
    """
    partitions = [canonical_labels(labels) for labels in candidates]
    if not partitions or any(len(labels) != len(points) for labels in partitions):
        raise InvalidDataError(
            f"candidates must hold at least one array of labels, and {len(points)} labels in each."
        )
    data = Data(points)
    scored: list[Scored] = []
    visited: list[State] = []
    for labels in {labels.tobytes(): labels for labels in partitions}.values():
        memberships = np.ascontiguousarray(np.eye(labels.max() + 1)[labels].T)
        start = refined(data, judge(data, memberships, 0.0), refine_steps)
        for state in _search(data, start, refine_steps, visited):
            if not any(_same(state, one.mixture.n_clusters, one.log_evidence) for one in scored):
                scored.append(Scored(_mixture(data, state), state.log_evidence))
    return Polished(tuple(sorted(scored, key=lambda one: -one.log_evidence)))


def _search(data: Data, start: State, steps: int, visited: list[State]) -> Iterator[State]:
    """Merge and split as long as the evidence gains; yields all states that were tried.

    The search ends where an earlier one, with its states in ``visited``, has come by.
    """
    best = start
    yield start
    moves: tuple[Callable[[Data, State, int], Iterator[State]], ...] = (_mergers, _splits)
    for _ in range(MOST_ROUNDS):
        if any(_same(best, one.n_clusters, one.log_evidence) for one in visited):
            return
        before = best
        visited.append(best)
        for move in moves:
            for state in move(data, best, steps):
                yield state
                best = max(best, state, key=lambda one: one.log_evidence)
        if best is before:
            return


def _mergers(data: Data, state: State, steps: int) -> Iterator[State]:
    """Merge the best pairs again and again, also for a while where the evidence falls.

    All the fragments of a cluster may have to merge before the evidence gains.
    """
    floor = state.log_evidence - DEPTH
    while state.n_clusters > 1:
        pairs, gains = gains_of_mergers(state)
        order = np.argsort(-gains, kind="stable")
        if state.log_evidence + gains[order[0]] < floor:
            break
        chosen = [pairs[order[0]]]
        for p in order[1:]:
            if gains[p] > 0 and not np.isin(pairs[p], chosen).any():
                chosen.append(pairs[p])
        state = refined(data, merged(data, state, chosen), steps)
        floor = max(floor, state.log_evidence - DEPTH)
        yield state


def _splits(data: Data, state: State, steps: int) -> Iterator[State]:
    """Split all clusters that seem to gain at once, and if that fails one by one until one gains."""
    found: list[tuple[int, Split]] = []
    for j in range(state.n_clusters):
        suspected = suspect(data, state, j)
        if suspected is not None:
            split = split_of_suspect(data, state, j, steps, suspected)
            if split is None and suspected.oddness > VERY_ODD:
                split = shattered(data, state, j)
            found += [(j, split)] if split is not None else []
    ranked = sorted(found, key=lambda item: -item[1].gain)
    promising = [item for item in ranked if item[1].gain > 0]
    for option in ([promising] if len(promising) > 1 else []) + [[item] for item in ranked]:
        trial = refined(data, divided(data, state, option), steps)
        pairs = zip((j for j, _ in option), range(state.n_clusters, trial.n_clusters), strict=False)
        if not any([concentric(data, trial, *pair) for pair in pairs]):  # EM may have moved them
            yield trial
            if trial.log_evidence > state.log_evidence:
                break


def _same(state: State, n_clusters: int, evidence: float) -> bool:
    return state.n_clusters == n_clusters and abs(state.log_evidence - evidence) <= SAME


def _mixture(data: Data, state: State) -> DiagonalMixture:
    """Maximum a posteriori parameters."""
    moments = state.moments
    proportions = moments.counts / moments.counts.sum()
    return DiagonalMixture(proportions, moments.means + data.centre, shrunk_variances(moments, state.hyper))
