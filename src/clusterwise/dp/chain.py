"""One Markov chain over partitions: warm up, then draw."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from clusterwise.dp.anchored import draw_anchors, split_or_merge
from clusterwise.dp.gibbs import gibbs_sweep
from clusterwise.dp.hyper import HyperPrior, first_guess, update
from clusterwise.dp.partitioned import BlockMoves
from clusterwise.dp.state import State, state_of_labels
from clusterwise.dp.subclusters import Halves, halve, warm_up_step
from clusterwise.dp.sweep import sweep
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["Chain", "Sampler", "Trace", "run_chain", "step", "update_hyper"]

Sampler = Literal["split-merge", "gibbs"]
# Split and merge proposals of one step: as many as there are clusters, within these bounds.
PROPOSALS = (8, 24)
# Draws of each hyper-parameter in a step. Next to a look at all rows of many blocks they cost nothing. After
# the search they are far from where they belong, and the log posterior would go on rising through all draws.
HYPER_STEPS, HYPER_STEPS_OF_BLOCKS, HYPER_STEPS_AFTER_SEARCH = 1, 8, 40


@dataclass
class Trace:
    """What is written down of every draw after the warm-up."""

    n_clusters: list[int] = field(default_factory=list)
    log_joint: list[float] = field(default_factory=list)
    alpha: list[float] = field(default_factory=list)
    largest_share: list[float] = field(default_factory=list)

    def write(self, state: State, log_joint: float) -> None:
        """Add one draw."""
        self.n_clusters.append(state.n_clusters)
        self.log_joint.append(log_joint)
        self.alpha.append(state.hyper.alpha)
        self.largest_share.append(float(state.counts.max() / state.counts.sum()))

    def as_dict(self) -> dict[str, np.ndarray]:
        """All quantities by name, (draws,) each."""
        return {name: np.asarray(values, dtype=np.float64) for name, values in vars(self).items()}


@dataclass(frozen=True)
class Chain:
    """Result of one chain."""

    trace: Trace
    kept: tuple[State, ...]  # at regular intervals
    last: State
    n_proposals: int  # splits and merges tried in every step
    interrupted: bool = False


def update_hyper(
    rng: np.random.Generator, state: State, hyper_prior: HyperPrior, n_steps: int = HYPER_STEPS
) -> State:
    """Draw the hyper-parameters given the partition, ``n_steps`` of each."""
    for _ in range(n_steps):
        state = replace(state, hyper=update(rng, state.hyper, hyper_prior, state.statistics))
    return state


def step(
    rng: np.random.Generator,
    rows: Rows | BlockMoves,
    state: State,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_proposals: int = PROPOSALS[0],
) -> State:
    """One draw of the exact chain."""
    prior = state.hyper.prior(hyper_prior)
    if isinstance(rows, BlockMoves):
        state = rows.step(rng, state, prior, n_proposals)
        return update_hyper(rng, state, hyper_prior, HYPER_STEPS_OF_BLOCKS)
    if sampler == "gibbs":
        state = gibbs_sweep(rng, rows, state, prior)
    else:
        state = sweep(rng, rows, state, prior)
        if len(rows) > 1:
            for _ in range(n_proposals):
                state = split_or_merge(rng, rows, state, prior, draw_anchors(rng, rows))
    return update_hyper(rng, state, hyper_prior)


def _warm_up(
    rng: np.random.Generator,
    rows: Rows,
    hyper_prior: HyperPrior,
    n_steps: int,
    report: Callable[[int], object],
) -> State:
    """From one cluster to about as many as there are, by sub-clusters."""
    hyper_prior = hyper_prior.while_searching()
    one_cluster = np.zeros(len(rows), dtype=np.int64)
    state = state_of_labels(rows, one_cluster, first_guess(hyper_prior), hyper_prior)
    prior = state.hyper.prior(hyper_prior)
    fresh = np.ones(1, dtype=bool)
    sides = np.zeros(len(rows), dtype=bool)
    sides = halve(rng, rows, state.labels, prior, fresh, sides)
    parts = state_of_labels(rows, sides.astype(np.int64), state.hyper, hyper_prior).statistics
    if len(parts) == 1:  # all rows are the same
        return state
    halves = Halves(sides, parts[None], np.zeros(1, dtype=np.int64))
    for _ in range(n_steps):
        state, halves = warm_up_step(rng, rows, state, halves, state.hyper.prior(hyper_prior))
        state = update_hyper(rng, state, hyper_prior)
        report(state.n_clusters)
    return state


def run_chain(
    rng: np.random.Generator,
    rows: Rows | BlockMoves,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_warm_up: int,
    n_draws: int,
    keep_every: int = 1,
    report: Callable[[int], object] = lambda _: None,
    before: Chain | None = None,
) -> Chain:
    """Warm up, half by sub-clusters and half by the chain itself, then draw; ``report`` hears of every step.

    ``rows`` may be in blocks, for "split-merge" only. With ``before`` the chain goes on from where that one
    ended, and its draws are counted in. Interrupted by the keyboard, it returns what it has, if anything.
    """
    if before is None:
        n_first = n_warm_up // 2
        if isinstance(rows, BlockMoves):
            state = rows.warm_up(rng, hyper_prior, n_first, report, update_hyper)
            state = update_hyper(rng, state, hyper_prior, HYPER_STEPS_AFTER_SEARCH)
        else:
            state = _warm_up(rng, rows, hyper_prior, n_first, report)
        n_proposals = int(np.clip(state.n_clusters, *PROPOSALS))
        trace, kept, start = Trace(), [], n_first - n_warm_up
    else:
        state, n_proposals, start = before.last, before.n_proposals, 0
        trace, kept = copy.deepcopy(before.trace), list(before.kept)
    interrupted = False
    try:
        for draw in range(start, n_draws):
            state = step(rng, rows, state, hyper_prior, sampler, n_proposals)
            report(state.n_clusters)
            if draw >= 0:
                trace.write(state, state.log_joint(state.hyper.prior(hyper_prior)))
                if (draw + 1) % keep_every == 0:
                    kept.append(state)
    except KeyboardInterrupt:
        if not kept:
            raise
        interrupted = True
    return Chain(trace, tuple(kept), state, n_proposals, interrupted)
