"""The search: from each candidate partition uphill in evidence, by mergers and splits of clusters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from clusterwise.gaussian.em import refined, state_of_labels
from clusterwise.gaussian.evidence import Sample, State
from clusterwise.gaussian.mergers import mergers
from clusterwise.gaussian.splits import Split, best_split, divided, log_p_widths

__all__ = ["climb"]


def climb(
    sample: Sample,
    candidates: Sequence[np.ndarray],
    with_moves: bool,
    rows: np.ndarray | None = None,
    most_rounds: int | None = None,
) -> list[State]:
    """All distinct states that the search has visited from the candidates, best first.

    These are labels (n,) of all points, or of those at ``rows`` (m,) alone. ``most_rounds`` ends the search
    early where clusters of other shapes than Gaussian would be split for long.
    """
    found: list[State] = []
    visited: list[State] = []
    for labels in candidates:
        start = refined(sample, state_of_labels(sample, labels, rows))
        for state in _search(sample, start, visited, most_rounds) if with_moves else [start]:
            if not any(_same(sample, state, one) for one in found):
                found.append(state)
    return sorted(found, key=lambda state: -state.log_evidence)


def _search(sample: Sample, start: State, visited: list[State], most_rounds: int | None) -> Iterator[State]:
    """Merge and split as long as the evidence grows; yields all states that were tried.

    The search ends where an earlier one, with its states in ``visited``, has been.
    """
    best = start
    yield start
    whole = Whole(sample)
    rounds = itertools.count() if most_rounds is None else range(most_rounds)
    for _ in rounds:  # every round but the last raises the evidence
        if any(_same(sample, best, one) for one in visited):
            return
        before = best
        visited.append(best)
        for states in (mergers(sample, best), _splits(sample, best, whole)):
            for state in states:
                yield state
                best = max(best, state, key=lambda one: one.log_evidence)
        if best.log_evidence <= before.log_evidence + sample.settings.same:
            return


class Whole:
    """Clusters that were found to have no split: none is tried twice while the others look as they did."""

    def __init__(self, sample: Sample) -> None:
        self.change = sample.settings.same_cluster
        self.known: list[np.ndarray] = []

    def __contains__(self, key: np.ndarray) -> bool:
        return len(self.known) > 0 and bool(
            (np.abs(np.array(self.known) - key).max(axis=1) <= self.change).any()
        )

    def add(self, key: np.ndarray) -> None:
        """Add a cluster by its row of ``keys_of``."""
        self.known.append(key)


def keys_of(state: State) -> np.ndarray:
    """What the splits of clusters depend on, (K, .): their moments and sizes, and how wide clusters are."""
    counts = state.statistics[:, :1]
    log_widths = np.broadcast_to(np.log(state.hyper.variance), (state.n_clusters, len(state.hyper.variance)))
    return np.concatenate([state.statistics[:, 1:] / counts, np.log(counts), log_widths], axis=1)


def _splits(sample: Sample, state: State, whole: Whole) -> Iterator[State]:
    """Split all clusters that seem to gain at once, and if that fails one by one until one gains."""
    found: list[tuple[int, Split]] = []
    keys = keys_of(state)
    known = [key in whole for key in keys]
    widths = log_p_widths(sample, state)
    for j, (key, is_known) in enumerate(zip(keys, known, strict=True)):
        split = None if is_known else best_split(sample, state, j, widths[j])
        if split is None:
            whole.add(key)
        else:
            found.append((j, split))
    ranked = sorted(found, key=lambda item: -item[1].gain)
    promising = [item for item in ranked if item[1].gain > 0]
    for option in ([promising] if len(promising) > 1 else []) + [[item] for item in ranked]:
        floor = state.log_evidence - sample.settings.worth_a_trial
        trial = refined(sample, divided(sample, state, option), floor)
        yield trial
        if trial.log_evidence > state.log_evidence:
            break
        if len(option) == 1:
            whole.add(keys[option[0][0]])


def _same(sample: Sample, one: State, other: State) -> bool:
    gap = abs(one.log_evidence - other.log_evidence)
    return one.n_clusters == other.n_clusters and gap <= sample.settings.same
