"""The search: from each candidate partition uphill in evidence, by mergers and splits of clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from clusterwise.search.em import refined, state_of_labels
from clusterwise.search.evidence import Sample, State
from clusterwise.search.mergers import mergers
from clusterwise.search.splits import Split, best_split, divided

__all__ = ["climb"]


def climb(sample: Sample, candidates: Sequence[np.ndarray], with_moves: bool) -> list[State]:
    """All distinct states that the search has come by from the candidates, labels (n,) each, best first."""
    found: list[State] = []
    visited: list[State] = []
    for labels in candidates:
        start = refined(sample, state_of_labels(sample, labels))
        for state in _search(sample, start, visited) if with_moves else [start]:
            if not any(_same(sample, state, one) for one in found):
                found.append(state)
    return sorted(found, key=lambda state: -state.log_evidence)


def _search(sample: Sample, start: State, visited: list[State]) -> Iterator[State]:
    """Merge and split as long as the evidence gains; yields all states that were tried.

    The search ends where an earlier one, with its states in ``visited``, has come by.
    """
    best = start
    yield start
    while True:  # every round but the last raises the evidence
        if any(_same(sample, best, one) for one in visited):
            return
        before = best
        visited.append(best)
        for move in (mergers, _splits):
            for state in move(sample, best):
                yield state
                best = max(best, state, key=lambda one: one.log_evidence)
        if best.log_evidence <= before.log_evidence + sample.settings.same:
            return


def _splits(sample: Sample, state: State) -> Iterator[State]:
    """Split all clusters that seem to gain at once, and if that fails one by one until one gains."""
    found: list[tuple[int, Split]] = []
    for j in range(state.n_clusters):
        split = best_split(sample, state, j)
        found += [(j, split)] if split is not None else []
    ranked = sorted(found, key=lambda item: -item[1].gain)
    promising = [item for item in ranked if item[1].gain > 0]
    for option in ([promising] if len(promising) > 1 else []) + [[item] for item in ranked]:
        trial = refined(sample, divided(sample, state, option))
        yield trial
        if trial.log_evidence > state.log_evidence:
            break


def _same(sample: Sample, one: State, other: State) -> bool:
    gap = abs(one.log_evidence - other.log_evidence)
    return one.n_clusters == other.n_clusters and gap <= sample.settings.same
