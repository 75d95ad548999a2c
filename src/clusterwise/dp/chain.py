"""One Markov chain over partitions: warm up, then draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from clusterwise.dp.anchored import draw_anchors, split_or_merge
from clusterwise.dp.gibbs import gibbs_sweep
from clusterwise.dp.hyper import HyperPrior, first_guess, update
from clusterwise.dp.rows import Rows
from clusterwise.dp.state import State, state_of_labels
from clusterwise.dp.subclusters import Halves, halve, warm_up_step
from clusterwise.dp.sweep import sweep

__all__ = ["Chain", "Sampler", "Trace", "run_chain", "step"]

Sampler = Literal["split-merge", "gibbs"]
# Split and merge proposals of one step: as many as there are clusters, within these bounds.
PROPOSALS = (4, 24)
# Hyper-parameters cost little beside the labels and set the pace where there are few clusters.
HYPER_STEPS = 3


@dataclass
class Trace:
    """What is written down of every draw after the warm-up."""

    n_clusters: list[int] = field(default_factory=list)
    log_joint: list[float] = field(default_factory=list)
    alpha: list[float] = field(default_factory=list)
    largest_share: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, np.ndarray]:
        """All quantities by name, (draws,) each."""
        return {name: np.asarray(values, dtype=np.float64) for name, values in vars(self).items()}


@dataclass(frozen=True)
class Chain:
    """Result of one chain."""

    trace: Trace
    kept: tuple[State, ...]  # every so many draws
    n_accepted: int  # splits and merges after the warm-up
    k_after_warm_up: int


def _update_hyper(rng: np.random.Generator, state: State, hyper_prior: HyperPrior) -> State:
    for _ in range(HYPER_STEPS):
        state = replace(state, hyper=update(rng, state.hyper, hyper_prior, state.statistics))
    return state


def step(
    rng: np.random.Generator,
    rows: Rows,
    state: State,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_proposals: int = PROPOSALS[0],
) -> tuple[State, int]:
    """One draw of the exact chain; returns the state and the number of splits and merges in it."""
    prior = state.hyper.prior(hyper_prior)
    accepted = 0
    if sampler == "gibbs":
        state = gibbs_sweep(rng, rows, state, prior)
    else:
        state = sweep(rng, rows, state, prior)
        if len(rows) > 1:
            for _ in range(n_proposals):
                state, changed = split_or_merge(rng, rows, state, prior, draw_anchors(rng, rows))
                accepted += changed
    return _update_hyper(rng, state, hyper_prior), accepted


def _first_state(rng: np.random.Generator, rows: Rows, hyper_prior: HyperPrior) -> State:
    hyper = first_guess(hyper_prior)
    return state_of_labels(rows, np.zeros(len(rows), dtype=np.int64), hyper, hyper_prior)


def _warm_up(
    rng: np.random.Generator,
    rows: Rows,
    hyper_prior: HyperPrior,
    n_steps: int,
    report: Callable[[int], object],
) -> State:
    """From one cluster to about as many as there are, by sub-clusters."""
    state = _first_state(rng, rows, hyper_prior)
    prior = state.hyper.prior(hyper_prior)
    fresh = np.ones(1, dtype=bool)
    sides = np.zeros(len(rows), dtype=bool)
    sides = halve(rng, rows, state.labels, state.statistics, prior, fresh, sides)
    parts = state_of_labels(rows, sides.astype(np.int64), state.hyper, hyper_prior).statistics
    if len(parts) == 1:  # all rows are the same
        return state
    halves = Halves(sides, parts[None], np.zeros(1, dtype=np.int64))
    for _ in range(n_steps):
        state, halves = warm_up_step(rng, rows, state, halves, state.hyper.prior(hyper_prior))
        state = _update_hyper(rng, state, hyper_prior)
        report(state.n_clusters)
    return state


def run_chain(
    rng: np.random.Generator,
    rows: Rows,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_warm_up: int,
    n_draws: int,
    keep_every: int = 1,
    report: Callable[[int], object] = lambda _: None,
) -> Chain:
    """Warm up, half by sub-clusters and half by the chain itself, then draw; ``report`` hears of every step."""
    n_first = n_warm_up // 2
    state = _warm_up(rng, rows, hyper_prior, n_first, report)
    k_after_warm_up = state.n_clusters
    n_proposals = int(np.clip(state.n_clusters, *PROPOSALS))
    trace, kept, n_accepted = Trace(), [], 0
    for draw in range(n_first - n_warm_up, n_draws):
        state, accepted = step(rng, rows, state, hyper_prior, sampler, n_proposals)
        report(state.n_clusters)
        if draw < 0:
            continue
        n_accepted += accepted
        trace.n_clusters.append(state.n_clusters)
        trace.log_joint.append(state.log_joint(state.hyper.prior(hyper_prior)))
        trace.alpha.append(state.hyper.alpha)
        trace.largest_share.append(float(state.counts.max()) / len(rows))
        if (draw + 1) % keep_every == 0:
            kept.append(state)
    return Chain(trace, tuple(kept), n_accepted, k_after_warm_up)
