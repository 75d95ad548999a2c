"""Have the chains seen the same thing? Split R-hat and effective sample size (Gelman et al., BDA3, 11.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

__all__ = ["Agreement", "Convergence", "agreement", "effective_sample_size", "r_hat", "summarize"]

LARGEST_R_HAT = 1.2
LEAST_SAMPLES = 10.0
# Chains that are so far need no more draws.
SETTLED_R_HAT = 1.1
SETTLED_SAMPLES = 40.0
# Chains have found different clusterings if these are less alike than draws of one chain by this much (ARI),
# and so little alike that a fit with another seed would say something else.
DIFFERENT, UNLIKE = 0.05, 0.8
# They have found the same one if draws are alike, and of different chains hardly less than of one.
ALIKE = 0.9
SAME = 0.02
DRAWS_COMPARED = 6
ROWS_COMPARED = 5000


def _split_chains(draws: np.ndarray) -> np.ndarray:
    """Cut each of m chains (m, n) into halves, (2m, n // 2)."""
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
    def least_samples(self) -> float:
        """The smallest effective sample size."""
        return min(self.effective_sample_size.values())

    @property
    def is_poor(self) -> bool:
        """Whether the summaries of the chains should not be trusted."""
        return self.worst_r_hat > LARGEST_R_HAT or self.least_samples < LEAST_SAMPLES

    @property
    def is_settled(self) -> bool:
        """Whether more draws would hardly change anything."""
        return self.worst_r_hat < SETTLED_R_HAT and self.least_samples >= SETTLED_SAMPLES


@dataclass(frozen=True)
class Agreement:
    """How alike drawn partitions are, by the adjusted Rand index: of one chain, and of different ones."""

    within: float
    between: float

    @property
    def is_poor(self) -> bool:
        """Whether the chains have found different clusterings."""
        return self.between < min(self.within - DIFFERENT, UNLIKE)

    @property
    def is_settled(self) -> bool:
        """Whether all chains draw variants of one clustering, so that more draws would not change it."""
        return self.within >= ALIKE and self.between >= self.within - SAME


def agreement(chains: list[np.ndarray]) -> Agreement:
    """Compare partitions (S, n) of each chain; of a single chain, those of its first and second half."""
    if len(chains) == 1:
        half = len(chains[0]) // 2
        chains = [chains[0][:half], chains[0][half:]] if half > 0 else chains * 2
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


def summarize(traces: dict[str, np.ndarray]) -> Convergence:
    """Judge traces (chains, draws) of several quantities."""
    return Convergence(
        {name: r_hat(draws) for name, draws in traces.items()},
        {name: effective_sample_size(draws) for name, draws in traces.items()},
    )
