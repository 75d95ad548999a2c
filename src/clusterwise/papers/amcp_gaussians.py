"""Clusters as Gaussians of the data, whose widths are learned: IntraCM when no point is left, compiled.

The mixture of Eq 3 over the data themselves, as printed, not over encodings. A reference phi_j is what EM
knows of cluster j: mass, mean, variances and correlations under the plan. f_theta decodes it into a density.
The mean stays as it is, the closed form of Eq 7; widths and correlations depend on the other clusters as
well, since three points say little about a width, and three hundred next to them say much::

    log sd_ja = c + g u_ja + b     u_ja   half the log variance along axis a, minus c
    R_j       = r R^_j + (1-r) I   R^_j   correlations under the plan
                                   c      mean of half the log variances of all clusters
                                   g, b, r  from perceptrons, see ``Perceptrons``

Components and features come before points, (K, N) and (d, N), so that loops run along the points. Everything
is in double precision, for data of unit spread.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["Context", "Mixture", "Perceptron", "Perceptrons", "applied", "described", "settled", "tilt_of"]

# Added to every variance: rows may be copies of each other.
LEAST_VARIANCE = 1e-6
# Correlations are below this, whatever the data say.
LARGEST_CORRELATION = 0.995
# Compared with one, the exponential of anything below is lost.
LOG_OF_NOTHING = -36.0


class Perceptron(NamedTuple):
    """Three layers with rectifiers between them."""

    first: np.ndarray  # (H, inputs)
    first_bias: np.ndarray
    second: np.ndarray  # (H, H)
    second_bias: np.ndarray
    third: np.ndarray  # (outputs, H)
    third_bias: np.ndarray


class Perceptrons(NamedTuple):
    """What is learned of the revision; ``amcp_reviser`` trains it."""

    widths: Perceptron  # 6 inputs, g and b
    tilts: Perceptron  # 5 inputs, r
    judge: Perceptron  # whether a cluster is two, see ``amcp_revision``


class Context(NamedTuple):
    """What all clusters have in common, each counting by its mass."""

    width: float  # c, mean of half the log variances
    spread: float  # their standard deviation
    tilt: float  # root mean square of the correlations
    n_clusters: int


class Mixture(NamedTuple):
    """K Gaussians, and what they make of N points."""

    means: np.ndarray  # (K, d)
    log_sds: np.ndarray  # (K, d)
    correlations: np.ndarray  # (K, d, d), under the plan, before they are shrunk
    mass: np.ndarray  # (K,)
    plan: np.ndarray  # (K, N), columns sum to one
    log_likelihood: float


@compiled
def _layer(weight: np.ndarray, bias: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    outputs = weight @ inputs
    for row in range(len(outputs)):
        for column in range(outputs.shape[1]):
            outputs[row, column] += bias[row]
    return outputs


@compiled
def applied(perceptron: Perceptron, inputs: np.ndarray) -> np.ndarray:
    """Outputs (outputs, M) of a perceptron for M columns of inputs."""
    hidden = np.maximum(_layer(perceptron.first, perceptron.first_bias, inputs), 0.0)
    hidden = np.maximum(_layer(perceptron.second, perceptron.second_bias, hidden), 0.0)
    return _layer(perceptron.third, perceptron.third_bias, hidden)


@compiled
def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > LOG_OF_NOTHING else 0.0


@compiled
def _moments(x: np.ndarray, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Means (K, d), half log variances (K, d), correlations (K, d, d) and mass (K,) under a plan."""
    k, (d, n) = len(plan), x.shape
    # A row for each mean, then one for each product.
    products = np.empty((d + d * (d + 1) // 2, n))
    products[:d], at = x, d
    for a in range(d):
        for b in range(a, d):
            products[at] = x[a] * x[b]
            at += 1
    mass, sums = plan.sum(axis=1), plan @ products.T
    means, covariances = np.ascontiguousarray(sums[:, :d]), np.empty((k, d, d))
    at = d
    for a in range(d):
        for b in range(a, d):
            covariances[:, a, b] = sums[:, at]
            at += 1
    half_logs, correlations = np.empty((k, d)), np.ones((k, d, d))
    for j in range(k):
        share = 1 / max(mass[j], 1e-9)
        means[j] *= share
        for a in range(d):
            variance = max(covariances[j, a, a] * share - means[j, a] ** 2, 0.0) + LEAST_VARIANCE
            half_logs[j, a] = 0.5 * math.log(variance)
        for a in range(d):
            for b in range(a + 1, d):
                product = covariances[j, a, b] * share - means[j, a] * means[j, b]
                correlation = product * math.exp(-half_logs[j, a] - half_logs[j, b])
                correlations[j, a, b] = correlations[j, b, a] = correlation
    return means, half_logs, correlations, mass


@compiled
def tilt_of(correlations: np.ndarray) -> float:
    """Root mean square of the correlations (d, d) of one cluster."""
    d, total = len(correlations), 0.0
    for a in range(d):
        for b in range(a + 1, d):
            total += correlations[a, b] ** 2
    return math.sqrt(total / max(d * (d - 1) / 2, 1))


@compiled
def _context(half_logs: np.ndarray, correlations: np.ndarray, mass: np.ndarray) -> Context:
    k, d = half_logs.shape
    width, spread, tilt = 0.0, 0.0, 0.0
    shares = mass / mass.sum()
    for j in range(k):
        width += shares[j] * half_logs[j].mean()
        tilt += shares[j] * tilt_of(correlations[j]) ** 2
    for j in range(k):
        for a in range(d):
            spread += shares[j] * (half_logs[j, a] - width) ** 2 / d
    return Context(width, math.sqrt(spread), math.sqrt(tilt), k)


@compiled
def _log_sds(half_logs: np.ndarray, mass: np.ndarray, context: Context, widths: Perceptron) -> np.ndarray:
    """Learned log widths (K, d)."""
    k, d = half_logs.shape
    inputs = np.empty((6, k * d))
    for j in range(k):
        together = half_logs[j].sum() - d * context.width
        for a in range(d):
            own, at = half_logs[j, a] - context.width, j * d + a
            inputs[0, at], inputs[1, at] = own, math.log(mass[j] + 1) / 3 - 1
            inputs[2, at] = (together - own) / max(d - 1, 1)
    inputs[3], inputs[4] = context.spread, 0.5 * math.log(context.n_clusters)
    inputs[5] = context.width + 2
    gates, beyond = applied(widths, inputs)
    log_sds = np.empty((k, d))
    for at in range(k * d):
        log_sds[at // d, at % d] = context.width + _sigmoid(gates[at]) * inputs[0, at] + beyond[at]
    return log_sds


@compiled
def _shrinkages(
    correlations: np.ndarray, mass: np.ndarray, context: Context, tilts: Perceptron
) -> np.ndarray:
    """r (K,), by which the correlations (K, d, d) of each cluster are multiplied."""
    inputs = np.empty((5, len(mass)))
    for j in range(len(mass)):
        tilt = tilt_of(correlations[j])
        inputs[0, j], inputs[1, j] = tilt, math.log(mass[j] + 1) / 3 - 1
        inputs[2, j] = min(tilt * math.sqrt(mass[j]) / 5, 4.0)
    inputs[3], inputs[4] = context.tilt, 0.5 * math.log(context.n_clusters)
    shrinkages = applied(tilts, inputs)[0]
    for j in range(len(mass)):
        shrinkages[j] = LARGEST_CORRELATION * _sigmoid(shrinkages[j])
    return shrinkages


@compiled
def _e_step(
    x: np.ndarray, means: np.ndarray, log_sds: np.ndarray, factors: np.ndarray, log_shares: np.ndarray
) -> tuple[np.ndarray, float]:
    """Plan (K, N) and log-likelihood; ``factors`` (K, d, d) are the Cholesky factors of correlations."""
    (d, n), k = x.shape, len(means)
    plan, along = np.empty((k, n)), np.empty(n)
    largest, total = np.full(n, -np.inf), np.zeros(n)
    for j in range(k):
        whitening = np.linalg.inv(factors[j])
        offset = log_shares[j] - 0.5 * d * math.log(2 * math.pi)
        for a in range(d):
            offset += math.log(whitening[a, a]) - log_sds[j, a]
            whitening[:, a] *= math.exp(-log_sds[j, a])
        scores = plan[j]
        scores[:] = offset
        for a in range(d):
            along[:] = 0.0
            for b in range(a + 1):
                factor, mean = whitening[a, b], means[j, b]
                for i in range(n):
                    along[i] += factor * (x[b, i] - mean)
            for i in range(n):
                scores[i] -= 0.5 * along[i] * along[i]
        for i in range(n):
            largest[i] = max(largest[i], scores[i])
    for j in range(k):
        for i in range(n):
            gap = plan[j, i] - largest[i]
            plan[j, i] = math.exp(gap) if gap > LOG_OF_NOTHING else 0.0
            total[i] += plan[j, i]
    log_likelihood = 0.0
    for i in range(n):
        log_likelihood += largest[i] + math.log(total[i])
        total[i] = 1 / total[i]
    for j in range(k):
        for i in range(n):
            plan[j, i] *= total[i]
    return plan, log_likelihood


@compiled
def _of_moments(
    x: np.ndarray,
    moments: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    context: Context,
    learned: Perceptrons,
) -> Mixture:
    """The densities that f_theta decodes, and what they make of the points."""
    means, half_logs, correlations, mass = moments
    log_sds = _log_sds(half_logs, mass, context, learned.widths)
    shrinkages = _shrinkages(correlations, mass, context, learned.tilts)
    factors = np.empty_like(correlations)
    for j in range(len(mass)):
        shrunk = shrinkages[j] * correlations[j]
        for a in range(len(shrunk)):
            shrunk[a, a] = 1.0
        factors[j] = np.linalg.cholesky(shrunk)
    log_shares = np.log(np.maximum(mass, 1e-9) / x.shape[1])
    plan, log_likelihood = _e_step(x, means, log_sds, factors, log_shares)
    return Mixture(means, log_sds, correlations, mass, plan, log_likelihood)


@compiled
def described(
    x: np.ndarray, plan: np.ndarray, n_steps: int, context: Context, learned: Perceptrons
) -> Mixture:
    """EM steps from a plan (K, N) of points (d, N), in a context that stays as it is."""
    mixture = _of_moments(x, _moments(x, plan), context, learned)
    for _ in range(n_steps - 1):
        mixture = _of_moments(x, _moments(x, mixture.plan), context, learned)
    return mixture


@compiled
def settled(x: np.ndarray, plan: np.ndarray, n_steps: int, learned: Perceptrons) -> tuple[Mixture, Context]:
    """EM steps of all clusters, each in the context of the plan before it."""
    for _ in range(n_steps):
        moments = _moments(x, plan)
        context = _context(moments[1], moments[2], moments[3])
        mixture = _of_moments(x, moments, context, learned)
        plan = mixture.plan
    return mixture, context
