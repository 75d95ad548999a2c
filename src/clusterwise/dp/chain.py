"""Markov chains over partitions: warm up, draw, and see whether the chains agree.

Convergence is judged by split R-hat and effective sample size (Gelman et al., BDA3, 11.4) of a few numbers,
and by how alike the drawn partitions are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise.dp.exact_moves import gibbs_sweep, split_or_merge, sweep
from clusterwise.dp.state import HyperPrior, State, draw_hyper
from clusterwise.dp.subclusters import warm_up
from clusterwise.rows.blocks import ChainRows

__all__ = [
    "Agreement",
    "Chain",
    "Convergence",
    "Sampler",
    "Trace",
    "agreement",
    "are_enough",
    "effective_sample_size",
    "r_hat",
    "run_chain",
    "step",
    "summarize",
    "traces_of",
]

Sampler = Literal["split-merge", "gibbs"]
# Split and merge proposals of one step: as many as there are clusters, within these bounds.
PROPOSALS = (8, 24)
# Draws of each hyper-parameter in a step: next to a look at all rows of many blocks they cost nothing.
HYPER_STEPS, HYPER_STEPS_OF_BLOCKS = 1, 8
# Chains are poor beyond these.
MAX_R_HAT, MIN_SAMPLES = 1.2, 10.0
# Chains that are so far need no more draws.
R_HAT_OF_ENOUGH, SAMPLES_OF_ENOUGH = 1.1, 40.0
# Chains have found different clusterings if these are less alike than draws of one chain by this much (ARI),
# and so little alike that a fit with another seed would give another.
DIFFERENT, UNLIKE = 0.05, 0.8
# They have found the same one if draws are alike, and of different chains hardly less than of one.
ALIKE, SAME = 0.9, 0.02
DRAWS_COMPARED, ROWS_COMPARED = 6, 5000


@dataclass
class Trace:
    """Series of numbers, one of each for every draw after the warm-up."""

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


@dataclass(frozen=True)
class Chain:
    """Result of one chain."""

    trace: Trace
    kept: tuple[State, ...]  # at regular intervals
    last: State
    n_proposals: int  # splits and merges tried in every step
    interrupted: bool = False

    @property
    def partitions(self) -> np.ndarray:
        """Labels (draws, m) of the rows of the sample in the draws that were kept."""
        return np.stack([state.labels for state in self.kept])


def run_chain(
    rng: np.random.Generator,
    rows: ChainRows,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_warm_up: int,
    n_draws: int,
    keep_every: int = 1,
    report: Callable[[int], object] = lambda _: None,
    before: Chain | None = None,
) -> Chain:
    """The chain after ``n_draws``; half of the steps before the first draw are by sub-clusters.

    ``report`` is called with the number of clusters after every step. With ``before`` the chain goes on from
    where that one ended, and its draws are counted in. Interrupted by the keyboard, it returns what it has,
    if anything.
    """
    if before is None:
        n_first = n_warm_up // 2
        state = warm_up(rng, rows, hyper_prior, n_first, report)
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


def step(
    rng: np.random.Generator,
    rows: ChainRows,
    state: State,
    hyper_prior: HyperPrior,
    sampler: Sampler,
    n_proposals: int = PROPOSALS[0],
) -> State:
    """One draw of the exact chain; "gibbs" needs all rows at hand."""
    prior = state.hyper.prior(hyper_prior)
    if sampler == "gibbs":
        state = gibbs_sweep(rng, rows.sample, state, prior)
    else:
        state = sweep(rng, rows, state, prior)
        for _ in range(n_proposals):
            state = split_or_merge(rng, rows, state, prior)
    n_hyper_steps = HYPER_STEPS if rows.all_at_hand else HYPER_STEPS_OF_BLOCKS
    return draw_hyper(rng, state, hyper_prior, n_hyper_steps)


# -- do the chains agree? ------------------------------------------------------------------------


@dataclass(frozen=True)
class Convergence:
    """R-hat and effective sample size by quantity."""

    r_hat: dict[str, float]
    effective_sample_size: dict[str, float]

    @property
    def worst_r_hat(self) -> float:
        """The largest R-hat."""
        return max(self.r_hat.values())

    @property
    def min_samples(self) -> float:
        """The smallest effective sample size."""
        return min(self.effective_sample_size.values())

    @property
    def is_poor(self) -> bool:
        """Whether the summaries of the chains should not be trusted."""
        return self.worst_r_hat > MAX_R_HAT or self.min_samples < MIN_SAMPLES

    @property
    def is_enough(self) -> bool:
        """Whether more draws would hardly change anything."""
        return self.worst_r_hat < R_HAT_OF_ENOUGH and self.min_samples >= SAMPLES_OF_ENOUGH


@dataclass(frozen=True)
class Agreement:
    """Adjusted Rand indices of drawn partitions: of one chain, and of different ones."""

    within: float
    between: float

    @property
    def is_poor(self) -> bool:
        """Whether the chains have found different clusterings."""
        return self.between < min(self.within - DIFFERENT, UNLIKE)

    @property
    def is_enough(self) -> bool:
        """Whether all chains draw variants of one clustering, so that more draws would not change it."""
        return self.within >= ALIKE and self.between >= self.within - SAME


def are_enough(chains: Sequence[Chain]) -> bool:
    """Whether more draws would hardly change the answer."""
    return (
        summarize(traces_of(chains)).is_enough or agreement([chain.partitions for chain in chains]).is_enough
    )


def traces_of(chains: Sequence[Chain]) -> dict[str, np.ndarray]:
    """Traces (chains, draws) by name; as many draws as the shortest has."""
    n_draws = min(len(chain.trace.n_clusters) for chain in chains)
    traces = [vars(chain.trace) for chain in chains]
    return {
        name: np.array([trace[name][:n_draws] for trace in traces], dtype=np.float64) for name in traces[0]
    }


def summarize(traces: dict[str, np.ndarray]) -> Convergence:
    """Convergence of traces (chains, draws) of several quantities."""
    return Convergence(
        {name: r_hat(draws) for name, draws in traces.items()},
        {name: effective_sample_size(draws) for name, draws in traces.items()},
    )


def agreement(chains: Sequence[np.ndarray]) -> Agreement:
    """Agreement of partitions (S, n) of each chain; of a single chain, of its first and second half."""
    if len(chains) == 1:
        half = len(chains[0]) // 2
        chains = [chains[0][:half], chains[0][half:]] if half > 0 else [*chains, *chains]
    n = chains[0].shape[1]
    rows = np.linspace(0, n - 1, min(n, ROWS_COMPARED)).astype(np.int64)
    some = [_spread(draws, DRAWS_COMPARED)[:, rows] for draws in chains]
    within = [adjusted_rand_score(a, b) for of_one in some for i, a in enumerate(of_one) for b in of_one[:i]]
    between = [
        adjusted_rand_score(a, b)
        for i, one in enumerate(some)
        for other in some[:i]
        for a, b in zip(one, other, strict=False)
    ]
    return Agreement(float(np.mean(within)) if within else 1.0, float(np.mean(between)) if between else 1.0)


def _spread(draws: np.ndarray, count: int) -> np.ndarray:
    """At most this many draws, evenly spread."""
    return draws[np.linspace(0, len(draws) - 1, min(count, len(draws))).round().astype(np.int64)]


def _split_chains(draws: np.ndarray) -> np.ndarray:
    """Halves (2m, n // 2) of m chains (m, n)."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def r_hat(draws: np.ndarray) -> float:
    """Potential scale reduction of m chains of n draws each, (m, n), every chain cut in two.

    1 if all halves agree, 1 also for a quantity that never moves, infinity if it rests at different values.

    Examples
    --------
    >>> r_hat(np.array([[1.0, 2.0, 1.0, 2.0], [2.0, 1.0, 2.0, 1.0]])) < 1.1
    True
    >>> r_hat(np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]))
    inf
    """
    chains = _split_chains(draws)
    n = chains.shape[1]
    if n < 2:
        return float("inf")
    within = chains.var(axis=1, ddof=1).mean()
    between = chains.mean(axis=1).var(ddof=1)
    if within <= 0:
        return 1.0 if between <= 0 else float("inf")
    return float(np.sqrt((n - 1) / n + between / within))


def effective_sample_size(draws: np.ndarray) -> float:
    """Number of independent draws that m chains (m, n) are worth, by Geyer's initial positive sequence."""
    chains = _split_chains(draws)
    m, n = chains.shape
    if n < 2:
        return 0.0
    centred = chains - chains.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(np.square(np.abs(spectrum)), axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    pooled = covariance[0] + chains.mean(axis=1).var(ddof=1)
    if pooled <= 0:
        return float(m * n)  # it never moves: one draw says it all
    correlation = 1 - (within - covariance) / pooled
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = np.minimum.accumulate(pairs[: int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)])
    return float(min(m * n, m * n / max(2 * positive.sum() - 1, 1 / np.log10(max(m * n, 10)))))
