"""The posterior over all partitions of a few points, by enumeration: the slow, obvious version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from clusterwise.dp.state import HyperParameters, HyperPrior, LogNormal, State, log_partition_probability
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.partition import canonical_labels
from clusterwise.rows.blocks import ChainRows, LocalBlocks, samples_of
from clusterwise.rows.sorted_rows import Rows


def partitions(n: int) -> Iterator[tuple[int, ...]]:
    """All partitions of n points, as canonical labels."""
    if n == 0:
        yield ()
        return
    for smaller in partitions(n - 1):
        for label in range(max(smaller, default=-1) + 2):
            yield (*smaller, label)


def log_joint(
    points: np.ndarray, labels: tuple[int, ...], prior: NormalInverseWishart, alpha: float
) -> float:
    """Log of P(partition) f(X | partition), cluster by cluster."""
    total = log_partition_probability(np.bincount(labels).astype(float), alpha)
    for label in set(labels):
        members = points[np.array(labels) == label]
        total += float(prior.log_marginal(prior.terms(members).sum(axis=0, keepdims=True))[0])
    return total


def state_of_labels(
    points: np.ndarray, labels: np.ndarray, hyper: HyperParameters, hyper_prior: HyperPrior
) -> State:
    """The state with labels (n,) of points (n, d)."""
    values, labels = np.unique(labels, return_inverse=True)
    return State(labels, statistics_of(Rows(points), labels, len(values), hyper.prior(hyper_prior)), hyper)


def rows_of(
    points: np.ndarray, labels: np.ndarray, lengths: Sequence[int] = (), sample: np.ndarray | None = None
) -> ChainRows:
    """Points with labels (n,), in blocks of these lengths, of which some (m,) are in the sample."""
    lengths = lengths or [len(points)]
    sample = np.arange(len(points)) if sample is None else sample
    parts = [slice(first, end) for first, end in pairwise(np.cumsum([0, *lengths]).tolist())]
    blocks = LocalBlocks([Rows(points[part]) for part in parts], samples_of(sample, lengths))
    for block, part in zip(blocks.states, parts, strict=True):
        block.codes[:] = 2 * np.asarray(labels)[part]
    return ChainRows(blocks, Rows(points[sample]))


def codes_of(rows: ChainRows) -> np.ndarray:
    """Codes of all rows, with what the blocks have yet to be told."""
    codes = np.concatenate([block.codes for block in rows.blocks.states])
    return codes if rows.new_codes is None else rows.new_codes[codes]


class ExactPosterior:
    """Probabilities of all partitions of the points (n, d), n small, with fixed hyper-parameters."""

    def __init__(self, points: np.ndarray, hyper: HyperParameters, hyper_prior: HyperPrior) -> None:
        self.points, self.hyper, self.hyper_prior = points, hyper, hyper_prior
        self.prior = hyper.prior(hyper_prior)
        self.partitions = list(partitions(len(points)))
        self.index = {labels: i for i, labels in enumerate(self.partitions)}
        logs = np.array([log_joint(points, z, self.prior, hyper.alpha) for z in self.partitions])
        self.probabilities = np.exp(logs - logs.max())
        self.probabilities /= self.probabilities.sum()

    def draw(self, rng: np.random.Generator) -> State:
        """Draw a state from the posterior."""
        labels = self.partitions[rng.choice(len(self.partitions), p=self.probabilities)]
        return self.state(labels)

    def state(self, labels: tuple[int, ...]) -> State:
        return state_of_labels(self.points, np.array(labels), self.hyper, self.hyper_prior)

    def number(self, labels: np.ndarray) -> int:
        """Index of a partition."""
        return self.index[tuple(canonical_labels(labels).tolist())]

    def total_variation(self, visits: np.ndarray) -> float:
        """Distance between the posterior and the relative frequencies of visits (partitions,)."""
        return float(0.5 * np.abs(visits / visits.sum() - self.probabilities).sum())

    def noise(self, n_draws: float, rng: np.random.Generator) -> float:
        """Total variation that so many independent draws stay below, but for one time in a million or so."""
        drawn = rng.multinomial(round(n_draws), self.probabilities, size=200)
        distances = np.array([self.total_variation(visits) for visits in drawn])
        return float(distances.mean() + 5 * distances.std())


def fixed(covariance_type: str, n_features: int, alpha: float = 0.8) -> tuple[HyperParameters, HyperPrior]:
    """Hyper-parameters that stay as they are."""
    hyper = HyperParameters(alpha, 0.2, 3.5, np.full(n_features, 0.15))
    prior = HyperPrior(
        covariance_type,
        n_features,
        alpha,
        LogNormal(hyper.kappa, 0.0),
        LogNormal(hyper.degrees, 0.0),
        LogNormal(0.15, 0.0),
    )
    return hyper, prior


def few_points(n: int, n_features: int, seed: int = 3) -> np.ndarray:
    """Points whose partition is uncertain: some near each other, some apart."""
    rng = np.random.default_rng([seed, n, n_features])
    return rng.normal(size=(3, n_features))[rng.integers(3, size=n)] + 0.5 * rng.normal(size=(n, n_features))
