"""Mixtures of Gaussians: laws of the partition and of the clusters' parameters, and the oracle.

Partitions come from Dirichlet weights, or from the Chinese restaurant process.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.prior import Components, Prior, TaskBatch, check_options

__all__ = [
    "ChineseRestaurantMixture",
    "CorrelatedComponents",
    "CorrelatedGaussians",
    "GaussianComponents",
    "MixtureOfGaussians",
    "MixturePrior",
    "categorical_labels",
    "crp_labels",
    "crp_labels_exact_k",
    "dirichlet_weights",
    "log_stirling_first",
]

# Standard deviations between the means of adjacent clusters.
ADJACENT = (1.5, 5.0)


@dataclass(frozen=True)
class MixturePrior(Prior):
    """pi ~ Dir(concentration, ..., concentration), labels ~ Cat(pi); the rest is up to the mixture.

    k is ``k_exact`` where it is given, else uniform on 1 .. k_max, or k - 1 ~ Binomial(k_max - 1, 1/2).
    """

    n_features: int = 2
    k_max: int = 4
    k_exact: int | None = None
    k_law: Literal["binomial", "uniform"] = "binomial"
    concentration: float = 1.0
    mean_sd: float = 3.0
    sd_median: float = 0.25
    sd_log_sd: float = field(default=0.1, metadata={"least": 0})

    def __post_init__(self) -> None:
        check_options(self, f"of {type(self).__name__}")

    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        """Numbers of clusters, (n_sets,)."""
        if self.k_exact is not None:
            return np.full(n_sets, self.k_exact)
        if self.k_law == "uniform":
            return rng.integers(1, self.k_max + 1, n_sets)
        return 1 + rng.binomial(self.k_max - 1, 0.5, n_sets)

    def draw_labels(
        self, rng: np.random.Generator, n_sets: int, n_points: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers of clusters (B,), weights (B, max k), zero beyond k, and labels (B, N)."""
        k = self.draw_k(rng, n_sets)
        weights = dirichlet_weights(rng, k, self.concentration)
        return k, weights, categorical_labels(rng, weights, n_points)


@dataclass(frozen=True)
class GaussianComponents(Components):
    """Weights (K,), means (K, d) and standard deviations (K, d) of a diagonal mixture."""

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        standardized = (points[:, None, :] - self.means) / self.sds
        normalizers = np.log(self.sds).sum(axis=1) + 0.5 * points.shape[1] * np.log(2 * np.pi)
        log_density: np.ndarray = -0.5 * np.square(standardized).sum(axis=2) - normalizers
        return log_density


@dataclass(frozen=True)
class MixtureOfGaussians(MixturePrior):
    """DAC Eq 13, in any number of dimensions.

    k - 1 ~ Binomial(k_max - 1, 1/2); pi ~ Dir(concentration, ..., concentration);
    mu_j ~ Normal(0, mean_sd^2 I); log sigma_j ~ Normal(log sd_median, sd_log_sd^2 I).

    The paper does not print the concentration alpha. With alpha = 1 the oracle log-likelihoods
    are the printed ones (-0.693 and -1.527); with alpha = 5 they are not (-0.81 and -1.78).

    ``k_law="uniform"`` draws k uniformly from 1 .. k_max instead, for training on larger k: the
    binomial with a large k_max would hardly ever show a data set of one cluster.

    ``adjacent`` is the share of clusters, apart from the first, that lie beside an earlier one, at 1.5 to 5
    of its standard deviations: hard to tell apart, which few data sets show by chance.
    """

    adjacent: float = field(default=0.0, metadata={"least": 0})

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        width = int(k.max())
        means = rng.normal(0.0, self.mean_sd, (n_sets, width, self.n_features))
        log_sds = rng.normal(np.log(self.sd_median), self.sd_log_sd, (n_sets, width, self.n_features))
        sds = np.exp(log_sds)
        if self.adjacent > 0:
            _move_beside(rng, means, sds, self.adjacent)
        noise = rng.standard_normal((n_sets, n_points, self.n_features))
        row = np.arange(n_sets)[:, None]
        points = means[row, labels] + sds[row, labels] * noise
        components = [
            GaussianComponents(weights[b, : k[b]], means[b, : k[b]], sds[b, : k[b]]) for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)


def _move_beside(rng: np.random.Generator, means: np.ndarray, sds: np.ndarray, share: float) -> None:
    """Move a share of the means (B, K, d), in place, to where an earlier cluster of their set is."""
    n_sets, width, d = means.shape
    rows = np.arange(n_sets)
    for j in range(1, width):
        moved = rng.random((n_sets, 1)) < share
        beside = rng.integers(j, size=n_sets)
        direction = rng.standard_normal((n_sets, d))
        direction *= rng.uniform(*ADJACENT, (n_sets, 1)) / np.linalg.norm(direction, axis=1, keepdims=True)
        there = means[rows, beside] + direction * sds[rows, beside]
        means[:, j] = np.where(moved, there, means[:, j])


@dataclass(frozen=True)
class CorrelatedComponents(Components):
    """Weights (K,), means (K, d) and roots (K, d, d) with root root' the covariance of a mixture."""

    weights: np.ndarray
    means: np.ndarray
    roots: np.ndarray

    def log_density(self, points: np.ndarray) -> np.ndarray:
        whitened = np.linalg.solve(self.roots, (points[:, None, :] - self.means).transpose(1, 2, 0))
        normalizers = np.linalg.slogdet(self.roots)[1] + 0.5 * points.shape[1] * np.log(2 * np.pi)
        log_density: np.ndarray = -0.5 * np.square(whitened).sum(axis=1).T - normalizers
        return log_density


@dataclass(frozen=True)
class CorrelatedGaussians(MixturePrior):
    """Gaussians of any covariances: tilted and elongated clusters; mu_j ~ Normal(0, mean_sd^2 I).

    Sigma_j = R_j diag(sigma_j^2) R_j' with R_j a uniformly drawn rotation and log sigma_j ~
    Normal(log sd_median, sd_log_sd^2 I), so that clusters are more elongated with a larger ``sd_log_sd``.
    """

    k_max: int = 12
    k_law: Literal["binomial", "uniform"] = "uniform"
    sd_median: float = 0.5
    sd_log_sd: float = field(default=0.5, metadata={"least": 0})

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        d, width = self.n_features, int(k.max())
        means = rng.normal(0.0, self.mean_sd, (n_sets, width, d))
        sds = np.exp(rng.normal(np.log(self.sd_median), self.sd_log_sd, (n_sets, width, 1, d)))
        roots = np.linalg.qr(rng.standard_normal((n_sets, width, d, d)))[0] * sds
        noise = rng.standard_normal((n_sets, n_points, d))
        row = np.arange(n_sets)[:, None]
        points = means[row, labels] + np.einsum("bnij,bnj->bni", roots[row, labels], noise)
        components = [
            CorrelatedComponents(weights[b, : k[b]], means[b, : k[b]], roots[b, : k[b]])
            for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)


@dataclass(frozen=True)
class ChineseRestaurantMixture(Prior):
    """AMCP section 4.1, in any number of dimensions.

    alpha ~ Exp(1), or ``alpha`` if it is given; c ~ CRP(alpha), given K = ``k_exact`` if that is
    given (the partition does not depend on alpha then);
    mu_k ~ Normal(0, mean_sd^2 I); x_i ~ Normal(mu_{c_i}, sd^2 I).

    The default scales are those of NCP. The AMCP text prints ``mean_sd = sd = 10``, under which not
    even the oracle can tell the clusters apart; DAC's scales are ``mean_sd = 3``, ``sd = 0.25``.

    A CRP partition comes without mixture weights, so the weights that the oracle knows are the
    empirical proportions n_j / N of the data set.
    """

    n_features: int = 2
    mean_sd: float = 10.0
    sd: float = 1.0
    alpha: float | None = None
    k_exact: int | None = None

    def __post_init__(self) -> None:
        check_options(self, f"of {type(self).__name__}")

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        labels = self._draw_labels(rng, n_sets, n_points)
        k = labels.max(axis=1) + 1  # labels are numbered by first appearance, without gaps
        means = rng.normal(0.0, self.mean_sd, (n_sets, int(k.max()), self.n_features))
        noise = rng.standard_normal((n_sets, n_points, self.n_features))
        points = means[np.arange(n_sets)[:, None], labels] + self.sd * noise
        components = [
            GaussianComponents(
                weights=np.bincount(labels[b]) / n_points,
                means=means[b, : k[b]],
                sds=np.full((k[b], self.n_features), float(self.sd)),
            )
            for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)

    def _draw_labels(self, rng: np.random.Generator, n_sets: int, n_points: int) -> np.ndarray:
        if self.k_exact is not None:
            return crp_labels_exact_k(rng, n_sets, self.k_exact, n_points)
        if self.alpha is not None:
            return crp_labels(rng, np.full(n_sets, float(self.alpha)), n_points)
        return crp_labels(rng, rng.exponential(1.0, n_sets), n_points)


def dirichlet_weights(rng: np.random.Generator, k: np.ndarray, concentration: float) -> np.ndarray:
    """Draw pi ~ Dir(concentration 1_k) for each set; shape (B, max k), zero beyond k."""
    gammas = rng.standard_gamma(concentration, (len(k), int(k.max())))
    gammas *= np.arange(gammas.shape[1]) < k[:, None]
    weights: np.ndarray = gammas / gammas.sum(axis=1, keepdims=True)
    return weights


def categorical_labels(rng: np.random.Generator, weights: np.ndarray, n_points: int) -> np.ndarray:
    """Draw y_i ~ Cat(pi) for each set, by inversion; ``weights`` is (B, K), the result (B, N)."""
    edges = np.cumsum(weights, axis=1)
    edges /= edges[:, -1:]  # exactly 1 from the last used component on, so no draw falls beyond it
    uniforms = rng.random((len(weights), n_points))
    labels: np.ndarray = (uniforms[:, :, None] >= edges[:, None, :-1]).sum(axis=2)
    return labels


def _seat(rng: np.random.Generator, opens: np.ndarray) -> np.ndarray:
    """Seat the customers of B restaurants, given which of them open a table; both (B, N).

    Who opens no table joins that of an earlier customer chosen uniformly, which is the same as
    choosing a table by its size. Following these links to the customer who opened the table takes
    O(log N) rounds when each round doubles the length of every link.
    """
    customer = np.arange(opens.shape[1])
    earlier = (rng.random(opens.shape) * customer).astype(np.intp)
    link = np.where(opens, customer, earlier)
    while True:
        further = np.take_along_axis(link, link, axis=1)
        if np.array_equal(further, link):
            break
        link = further
    tables = np.cumsum(opens, axis=1) - 1  # tables are numbered as they open: by first appearance
    return np.take_along_axis(tables, link, axis=1)


def crp_labels(rng: np.random.Generator, alpha: np.ndarray, n_points: int) -> np.ndarray:
    """Draw c ~ CRP(alpha_b) for each of B concentrations; ``alpha`` is (B,), the result (B, N).

    Labels are numbered by first appearance.
    """
    seated = np.arange(n_points)
    opens = rng.random((len(alpha), n_points)) * (alpha[:, None] + seated) < alpha[:, None]
    opens[:, :1] = True  # the first customer opens a table however small alpha is
    return _seat(rng, opens)


def log_stirling_first(n: int, k: int) -> np.ndarray:
    """Return ``log |s(i, j)|``, unsigned Stirling numbers of the first kind, shape (n + 1, k + 1).

    ``|s(i, j)|`` is the sum of prod (n_l - 1)! over the partitions of i points into j clusters.
    """
    table = np.full((n + 1, k + 1), -np.inf)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        if i > 1:
            table[i] = np.log(i - 1) + table[i - 1]
        table[i, 1:] = np.logaddexp(table[i, 1:], table[i - 1, :-1])
    return table


@lru_cache(maxsize=32)
def _opening_probabilities(n: int, k: int) -> np.ndarray:
    """P(customer i opened a table | i customers sit at j tables), shape (n + 1, k + 1)."""
    log_counts = log_stirling_first(n, k)
    possible = np.isfinite(log_counts[1:, 1:])
    log_ratio = np.full((n, k), -np.inf)
    np.subtract(log_counts[:-1, :-1], log_counts[1:, 1:], out=log_ratio, where=possible)
    probabilities = np.zeros((n + 1, k + 1))
    probabilities[1:, 1:] = np.exp(log_ratio)
    probabilities.flags.writeable = False  # shared between calls
    return probabilities


def crp_labels_exact_k(rng: np.random.Generator, n_sets: int, k: int, n_points: int) -> np.ndarray:
    """Draw a CRP partition given that it has ``k`` clusters, exactly; shape (n_sets, n_points).

    Given K the law is proportional to prod (n_j - 1)! whatever alpha is. Going backwards, the last
    of n customers at k tables opened one with probability ``|s(n-1, k-1)| / |s(n, k)|``; then the others
    are seated forwards. Labels are numbered by first appearance.
    """
    if not 1 <= k <= n_points:
        raise RecipeError(
            f"{n_points} points cannot form exactly {k} clusters: set k_exact from 1 to the number of points."
        )
    probabilities = _opening_probabilities(n_points, k)
    uniforms = rng.random((n_points, n_sets))
    opens = np.empty((n_points, n_sets), dtype=bool)
    tables = np.full(n_sets, k)
    for n in range(n_points, 0, -1):
        opens[n - 1] = uniforms[n - 1] < probabilities[n, tables]
        tables -= opens[n - 1]
    return _seat(rng, opens.T)
