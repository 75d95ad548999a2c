"""Polish partitions of a data set: EM, splits and mergers of clusters, judged by the evidence.

The evidence is that of a mixture of diagonal Gaussians whose parameters are integrated out (Cheeseman &
Stutz 1996): sufficient statistics under soft memberships q go into the closed form for complete data,
and the entropy of q is added. Its hyper-parameters come from the data set itself, see ``_Evidence``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

from clusterwise.mixture import PRIOR_POINTS, SMALLEST_VARIANCE, DiagonalMixture
from clusterwise.partition import canonical_labels

__all__ = ["Polished", "Scored", "polish"]

# The prior of a cluster's variances is worth this many points that have the pooled variance; the
# evidence averages over all of them, so that the data say how alike the clusters' variances are.
STRENGTHS = np.array([2.0, 5.0, 15.0, 50.0, 150.0])
# The spread of the means counts the spread of the data as this many means.
SPREAD_MEANS = 2.0
# Clusters are things apart: a priori the variance of the means is at least this many times the clusters' own.
APART = 200.0
# Skewness and kurtosis beyond this (chi-squared with two degrees of freedom) call for a trial split.
SUSPICIOUS = 12.0
# Being wider than the others is measured as if variances differed like those of so many points do anyway.
ALIKE = 50.0
# Parts beyond this, in the same units, are not Gaussians themselves.
ODD = 20.0
# A cluster overlaps with others if this share of its points is not its own.
OVERLAP = 0.02
# There is a valley if a third of the way between two means has less than this share of the points on
# either side of it; these are the thirds.
VALLEY = 0.3
DEEP_VALLEY = 0.2
BOTTOMS = np.linspace(0.3, 0.7, 9) + np.array([[-1 / 6], [1 / 6]])
# Without a valley two Gaussians must lie this far apart, squared and in standard deviations.
CLOSE = 2.0
# A proposal whose evidence falls short by no more than this at first is tried with EM steps.
WORTH_A_TRIAL = 5.0
# Mergers go on until the evidence lies this much below the best one on their way.
DEPTH = 20.0
# Rounds of splits and mergers; each raises the evidence, so this is hardly ever reached.
MOST_ROUNDS = 60
# EM runs for at most this many times the steps that were asked for,
PATIENCE = 5
# unless no cluster gains or loses more than this, in points.
STANDSTILL = 0.02
# Its leaps are no longer than this many steps, and may lower the log-likelihood by no more than this.
LONGEST_LEAP = 20.0
TOLERANCE = 0.1
# Clusters of less weight than this are dropped.
SMALLEST_COUNT = 1e-2
# Memberships below this do not count as members of a cluster that is to be split.
SMALLEST_SHARE = 1e-3


@dataclass(frozen=True)
class Scored:
    """A mixture and its log evidence."""

    mixture: DiagonalMixture
    log_evidence: float


@dataclass(frozen=True)
class Polished:
    """The best mixture, and all distinct ones that were found on the way, best first."""

    best: Scored
    scored: tuple[Scored, ...]

    @property
    def mixture(self) -> DiagonalMixture:
        """The mixture with the largest evidence."""
        return self.best.mixture

    @property
    def k_posterior(self) -> dict[int, float]:
        """Probability of each number of clusters among the mixtures that were tried."""
        weights = np.exp([one.log_evidence - self.best.log_evidence for one in self.scored])
        shares: dict[int, float] = {}
        for one, weight in zip(self.scored, weights / weights.sum(), strict=True):
            shares[one.mixture.n_clusters] = shares.get(one.mixture.n_clusters, 0.0) + float(weight)
        return dict(sorted(shares.items()))


class _Moments(NamedTuple):
    """Sufficient statistics of clusters: counts (..., K), means and scatters (..., K, d)."""

    counts: np.ndarray
    means: np.ndarray
    scatters: np.ndarray

    @property
    def squares(self) -> np.ndarray:
        """Sums of squares around zero."""
        return self.scatters + self.counts[..., None] * np.square(self.means)


@dataclass(frozen=True)
class _Hyper:
    """Hyper-parameters that a data set gives to its own clusters."""

    variance: np.ndarray  # (..., 1, d) pooled within the clusters
    spread: np.ndarray  # (..., 1, d) variance of the means
    strength: float  # of the prior of the variances, in points


@dataclass(frozen=True)
class _State:
    """Soft memberships and what follows from them."""

    memberships: np.ndarray  # (K, n)
    entropy: float
    moments: _Moments
    hyper: _Hyper
    log_evidence: float

    @property
    def n_clusters(self) -> int:
        return len(self.memberships)


class _Data:
    """Points (n, d) with the columns that all moments need."""

    def __init__(self, points: np.ndarray) -> None:
        self.centre = points.mean(axis=0)
        self.points = np.ascontiguousarray(points - self.centre)
        self.columns = np.concatenate([self.points, np.square(self.points)], axis=1)  # (n, 2d)
        self.rows = np.ascontiguousarray(self.columns.T)  # (2d, n)
        self.variance = np.maximum(np.square(self.points).mean(axis=0), SMALLEST_VARIANCE)

    def moments(self, memberships: np.ndarray, columns: np.ndarray | None = None) -> _Moments:
        """Moments under memberships (..., K, n); the data have unit spread, so squares may be subtracted."""
        columns = self.columns if columns is None else columns
        counts = memberships.sum(axis=-1)
        sums = memberships @ columns
        d = columns.shape[1] // 2
        means = sums[..., :d] / counts[..., None]
        scatters = np.maximum(sums[..., d:] - counts[..., None] * np.square(means), 0.0)
        return _Moments(counts, means, scatters)


def _variances(moments: _Moments, hyper: _Hyper) -> np.ndarray:
    shrunk = moments.scatters + hyper.strength * hyper.variance
    return np.maximum(shrunk / (moments.counts[..., None] + hyper.strength), SMALLEST_VARIANCE)


def _log_joint(rows: np.ndarray, moments: _Moments, hyper: _Hyper) -> np.ndarray:
    """log(pi_j N(x_i; mu_j, v_j)), (..., K, n), up to a constant; proportions sum to one over K."""
    precision = 1 / _variances(moments, hyper)
    linear = precision * moments.means
    constant = (
        np.log(moments.counts / moments.counts.sum(axis=-1, keepdims=True))
        + 0.5 * np.log(precision).sum(axis=-1)
        - 0.5 * (linear * moments.means).sum(axis=-1)
    )
    return np.concatenate([linear, -0.5 * precision], axis=-1) @ rows + constant[..., None]


def _soft(log_joint: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Memberships (..., K, n), their entropy for each point and the log density of each point, (..., n)."""
    largest = log_joint.max(axis=-2, keepdims=True)
    log_joint = log_joint - largest
    weights = np.exp(log_joint)
    total = weights.sum(axis=-2, keepdims=True)
    weights /= total
    log_total = np.log(total[..., 0, :])
    entropy = log_total - (weights * log_joint).sum(axis=-2)
    return weights, entropy, log_total + largest[..., 0, :]


# -- evidence ----------------------------------------------------------------------------------------


def _pooled_variance(data: _Data, scatter: np.ndarray, k: int) -> np.ndarray:
    """Variance within k clusters, from the sum of their scatters."""
    # Where hardly any point shares a cluster, the spread of the data stands in for the clusters' own.
    left = len(data.points) - k
    guess = 1 / (1 + left) ** 2
    return np.maximum((scatter + guess * data.variance) / (left + guess), SMALLEST_VARIANCE)


def _hyper(data: _Data, moments: _Moments, strength: float = PRIOR_POINTS) -> _Hyper:
    """Pooled variance and spread of the means."""
    k = moments.counts.shape[-1]
    variance = _pooled_variance(data, moments.scatters.sum(axis=-2, keepdims=True), k)
    around = np.square(moments.means).sum(axis=-2, keepdims=True)  # the data are centred
    spread = (SPREAD_MEANS * data.variance + around) / (SPREAD_MEANS + k)
    return _Hyper(variance, np.maximum(spread, APART * variance), strength)


def _log_marginals(moments: _Moments, hyper: _Hyper) -> np.ndarray:
    """Log probability of each cluster's points with its parameters integrated out, (S, ..., K).

    Means have the prior Normal(0, spread); variances the inverse Gamma prior of each of STRENGTHS.
    """
    strength = STRENGTHS.reshape(-1, *[1] * moments.counts.ndim)
    counts = moments.counts
    d = moments.means.shape[-1]
    freedom = (strength + counts - 1) / 2  # (S, ..., K)
    result = gammaln(freedom) - gammaln(strength / 2)
    result *= d
    total = moments.scatters + strength[..., None] * hyper.variance
    result += 0.5 * d * strength * np.log(strength) + 0.5 * strength * np.log(hyper.variance).sum(axis=-1)
    log_total = np.log(total)
    result -= freedom * log_total.sum(axis=-1)
    result -= 0.5 * d * ((counts - 1) * np.log(np.pi) + np.log(counts))
    width = hyper.spread + total / (strength + counts)[..., None] / counts[..., None]
    result -= 0.5 * (np.log(2 * np.pi * width) + np.square(moments.means) / width).sum(axis=-1)
    return result


def _log_partition(sums: np.ndarray, k: int | np.ndarray, n: float) -> np.ndarray:
    """Log probability of a partition of n points in k clusters from ``sums`` (2, ...) of ``_log_sizes``.

    Sizes are either uniform (proportions from Dirichlet(1)) or those of a Chinese restaurant process
    given k, in which tiny clusters are common; the evidence averages over both.
    """
    uniform = gammaln(k + 1) + gammaln(k) - gammaln(n + k)
    restaurant = gammaln(k) - gammaln(n) - (k - 1) * np.log(np.log(n + 1) + np.euler_gamma)
    return np.logaddexp(uniform + sums[0], restaurant + sums[1]) - np.log(2)


def _log_sizes(counts: np.ndarray) -> np.ndarray:
    """What a cluster with such a count adds to the two logs of ``_log_partition``, (2, ...)."""
    factorial = gammaln(counts + 1)
    return np.stack([factorial, factorial - np.log(counts)])


def _average(log_marginals: np.ndarray) -> np.ndarray:
    """Average over the strengths, (S, ...) -> (...)."""
    largest = log_marginals.max(axis=0)
    return np.log(np.exp(log_marginals - largest).mean(axis=0)) + largest


def _log_evidence(data: _Data, moments: _Moments) -> tuple[np.ndarray, np.ndarray]:
    """Evidence of hard clusters with such moments, (...), and the likely strength, (...)."""
    marginals = _log_marginals(moments, _hyper(data, moments)).sum(axis=-1)
    weights = np.exp(marginals - marginals.max(axis=0))
    strength = np.exp(np.tensordot(np.log(STRENGTHS), weights, axes=1) / weights.sum(axis=0))
    sizes = _log_sizes(moments.counts).sum(axis=-1)
    evidence = _average(marginals) + _log_partition(sizes, moments.counts.shape[-1], len(data.points))
    return evidence, strength


def _judge(data: _Data, memberships: np.ndarray, entropy: float, moments: _Moments | None = None) -> _State:
    """Moments, hyper-parameters and evidence of memberships (K, n)."""
    moments = data.moments(memberships) if moments is None else moments
    evidence, strength = _log_evidence(data, moments)
    return _State(
        memberships, entropy, moments, _hyper(data, moments, float(strength)), float(evidence) + entropy
    )


def _refined(data: _Data, state: _State, steps: int) -> _State:
    """Run EM until it stands still, for a limited time; clusters that lose all their weight are dropped.

    Steps that go on in one direction are prolonged (SQUAREM, Varadhan & Roland 2008): where clusters overlap
    EM creeps. A leap that lowers the likelihood is taken back.
    """
    if steps == 0:
        return state
    memberships, entropy, moments, hyper = state.memberships, state.entropy, state.moments, state.hyper
    path: list[_Moments] = []
    ahead, height = moments, -np.inf
    for _ in range(PATIENCE * steps):
        found, doubt, log_density = _soft(_log_joint(data.rows, ahead, hyper))
        if ahead is not moments and log_density.sum() < height - TOLERANCE:
            ahead, path = moments, []
            continue
        height = float(log_density.sum())
        memberships, entropy, before = found, float(doubt.sum()), ahead.counts
        moments = ahead = data.moments(memberships)
        if moments.counts.min() < SMALLEST_COUNT:
            memberships = memberships[moments.counts >= SMALLEST_COUNT]
            memberships /= memberships.sum(axis=0)
            moments = ahead = data.moments(memberships)
            path = []
        elif np.abs(moments.counts - before).max() < STANDSTILL:
            break
        hyper = _hyper(data, moments, hyper.strength)
        path.append(moments)
        if len(path) == 3:
            ahead, path = _leap(*path) or moments, []
    return _judge(data, memberships, entropy, moments)


def _leap(first: _Moments, second: _Moments, third: _Moments) -> _Moments | None:
    """Where EM may be heading, from three of its steps, or None where that is not ahead."""
    start, middle, end = (
        np.concatenate([m.counts[:, None], m.counts[:, None] * m.means, m.squares], axis=1)
        for m in (first, second, third)
    )
    step = middle - start
    bend = end - middle - step
    length = np.sqrt(np.square(step).sum() / max(np.square(bend).sum(), 1e-300))
    length = min(length, LONGEST_LEAP)
    sums = start + 2 * length * step + length**2 * bend
    counts, d = sums[:, :1], first.means.shape[1]
    if length <= 1 or counts.min() < 1:
        return None
    means = sums[:, 1 : 1 + d] / counts
    scatters = sums[:, 1 + d :] - counts * np.square(means)
    return _Moments(counts[:, 0], means, scatters) if scatters.min() >= 0 else None


# -- mergers -----------------------------------------------------------------------------------------


def _pooled(moments: _Moments, first: np.ndarray, second: np.ndarray) -> _Moments:
    """Moments of the unions of clusters ``first`` (P,) and ``second`` (P,)."""
    counts = moments.counts[first] + moments.counts[second]
    share = (moments.counts[second] / counts)[:, None]
    gap = moments.means[second] - moments.means[first]
    means = moments.means[first] + share * gap
    between = moments.counts[first][:, None] * share * np.square(gap)
    return _Moments(counts, means, moments.scatters[first] + moments.scatters[second] + between)


def _pairs(state: _State) -> tuple[np.ndarray, np.ndarray]:
    """Each cluster with the few that are nearest to it in pooled standard deviations."""
    means, variances = state.moments.means, _variances(state.moments, state.hyper)
    gaps = np.square(means[:, None] - means) / (variances[:, None] + variances)
    distances = gaps.sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, : min(3, len(means) - 1)]
    first = np.repeat(np.arange(len(means)), nearest.shape[1])
    pairs = np.unique(np.sort(np.stack([first, nearest.ravel()], axis=1), axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _gains_of_mergers(state: _State) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (P, 2) and what their mergers add to the evidence, (P,), at memberships that stay the same.

    Pairs whose gain is hopeless come with an upper bound.
    """
    first, second = _pairs(state)
    own = _log_marginals(state.moments, state.hyper)  # (S, K)
    union = _log_marginals(_pooled(state.moments, first, second), state.hyper)  # (S, P)
    whole = own.sum(axis=1)
    merged = _average(whole[:, None] + union - own[:, first] - own[:, second])
    counts, k, n = state.moments.counts, state.n_clusters, state.moments.counts.sum()
    sizes = _log_sizes(counts)
    pooled = sizes.sum(axis=1)[:, None] - sizes[:, first] - sizes[:, second]
    pooled = pooled + _log_sizes(counts[first] + counts[second])
    gains = merged - _average(whole) + _log_partition(pooled, k - 1, n)
    gains -= _log_partition(sizes.sum(axis=1), k, n)
    for pair in np.nonzero(gains > -DEPTH)[0]:
        one, other = state.memberships[first[pair]], state.memberships[second[pair]]
        both = one + other
        gains[pair] -= float(_plogp(both).sum() - _plogp(one).sum() - _plogp(other).sum())
    return np.stack([first, second], axis=1), gains


def _plogp(p: np.ndarray) -> np.ndarray:
    return p * np.log(np.maximum(p, 1e-300))


def _merge(data: _Data, state: _State, pairs: Sequence[np.ndarray]) -> _State:
    """Merge disjoint pairs of clusters."""
    memberships = state.memberships.copy()
    entropy = state.entropy
    for i, j in pairs:
        both = memberships[i] + memberships[j]
        entropy -= float(_plogp(both).sum() - _plogp(memberships[i]).sum() - _plogp(memberships[j]).sum())
        memberships[i] = both
    gone = [int(j) for _, j in pairs]
    return _judge(data, np.delete(memberships, gone, axis=0), entropy)


# -- splits ------------------------------------------------------------------------------------------


def _truncation_table(size: int = 199) -> np.ndarray:
    """What cutting a Gaussian at its quantile p adds to the log-likelihood per point, for p in (0, 1).

    That is below zero: the halves of one Gaussian, each with its own Gaussian, pay for their label.
    """
    p = np.arange(1, size + 1) / (size + 1)
    cut = norm.ppf(p)
    density = norm.pdf(cut)
    left, right = -density / p, density / (1 - p)
    below = 1 - cut * density / p - np.square(left)
    above = 1 + cut * density / (1 - p) - np.square(right)
    return -0.5 * (p * np.log(below) + (1 - p) * np.log(above)) + _plogp(p) + _plogp(1 - p)


CUT_GAUSSIAN = _truncation_table()


def _shape(points: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray]:
    """How little weighted points (n, d) look like a Gaussian, and their projections (m, n).

    The projections are those on the axes and the principal directions, in standard deviations. Correlation
    of the axes, skewness and kurtosis of the projections are all measured as chi-squared; the largest counts.
    """
    count, d = weights.sum(), points.shape[1]
    centred = points - weights @ points / count
    centred = centred / np.sqrt(np.maximum(weights @ np.square(centred) / count, SMALLEST_VARIANCE))
    directions, suspicion = np.eye(d), 0.0
    if d > 1:
        correlation = (centred * weights[:, None]).T @ centred / count
        suspicion = count * np.square(np.triu(correlation, 1)).max()
        directions = np.concatenate([directions, np.linalg.eigh(correlation)[1].T])
    projections = directions @ centred.T
    squares = np.square(projections)
    second = np.maximum(squares @ weights / count, 1e-12)
    skewness = (squares * projections) @ weights / count / second**1.5
    kurtosis = np.square(squares) @ weights / count / second**2 - 3
    shape = count / 6 * (np.square(skewness) + np.square(kurtosis) / 4)
    return max(suspicion, float(shape.max())), projections


def _convincing(
    points: np.ndarray, parts: np.ndarray, moments: _Moments, hyper: _Hyper, isolated: bool
) -> bool:
    """Whether two parts with weights (2, n) are clusters of their own, rather than pieces of one odd shape.

    They are if there is a valley between them, or if both look like Gaussians that lie apart, unless the
    cluster overlaps with a third one: then it is a piece of a longer shape already.
    """
    gap = moments.means[1] - moments.means[0]
    scale = _variances(moments, hyper).mean(axis=0)
    distance = (np.square(gap) / scale).sum()
    place = (points - moments.means[0]) @ (gap / scale) / max(distance, 1e-12)  # 0 and 1 at the means
    order = np.argsort(place, kind="stable")
    passed = np.concatenate([[0.0], np.cumsum(parts.sum(axis=0)[order])])
    left, right = passed[np.searchsorted(place[order], BOTTOMS)]  # (2, bottoms)
    deep = VALLEY if isolated else DEEP_VALLEY
    if (right - left < deep * np.minimum(left, passed[-1] - right)).any():
        return True
    return isolated and distance > CLOSE and all(_shape(points, part)[0] < ODD for part in parts)


def _starts(columns: np.ndarray, weights: np.ndarray, projections: np.ndarray, hyper: _Hyper) -> np.ndarray:
    """Hard cuts of one cluster across each direction, (starts, n) bool: the best one in the bulk
    compared with a cut Gaussian, and the best one at the edges."""
    n, d = len(weights), columns.shape[1] // 2
    order = np.argsort(projections, axis=1, kind="stable")  # (m, n)
    weighted = np.concatenate([np.ones((n, 1)), columns], axis=1) * weights[:, None]
    left = np.cumsum(weighted[order], axis=1)  # (m, n, 1 + 2d)
    whole = left[:, -1:]
    gains = np.zeros((len(order), n - 1))
    count = whole[..., 0]
    for part in (left[:, :-1], whole - left[:, :-1], whole):
        counts = np.maximum(part[..., :1], 1e-9)
        scatter = np.maximum(part[..., 1 + d :] - np.square(part[..., 1 : 1 + d]) / counts, 0.0)
        variances = (scatter + hyper.strength * hyper.variance) / (counts + hyper.strength)
        value = 0.5 * counts[..., 0] * np.log(np.maximum(variances, SMALLEST_VARIANCE)).sum(axis=-1)
        value -= counts[..., 0] * np.log(counts[..., 0] / count)
        gains = gains + (value if part is whole else -value)
    share = left[:, :-1, 0] / count
    table = np.arange(1, len(CUT_GAUSSIAN) + 1) / (len(CUT_GAUSSIAN) + 1)
    excess = gains - count * np.interp(share, table, CUT_GAUSSIAN)
    excess[(share < 0.03) | (share > 0.97)] = -np.inf
    cuts = np.concatenate([gains.argmax(axis=1), excess.argmax(axis=1)])
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(n), order.shape), axis=1)
    return np.concatenate([rank, rank]) <= cuts[:, None]


def _joined(others: _Moments, parts: _Moments) -> _Moments:
    """Clusters (K - 1) beside each of several pairs of parts (starts, 2), as (starts, K + 1)."""
    shape = (len(parts.counts),)
    return _Moments(
        *(
            np.concatenate([np.broadcast_to(other, shape + other.shape), part], axis=1)
            for other, part in zip(others, parts, strict=True)
        )
    )


def _local_split(
    data: _Data, state: _State, j: int, steps: int
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Best split of cluster ``j``: gain of evidence, its rows, and its share (2, rows) of them."""
    rows = np.nonzero(state.memberships[j] > SMALLEST_SHARE)[0]
    weights = state.memberships[j, rows]
    count = weights.sum()
    if count < 1.5 or len(rows) < 2:
        return None
    width = (state.moments.scatters[j] / count / state.hyper.variance).max() - 1
    suspicion, projections = _shape(data.points[rows], weights)
    if max(suspicion, 0.5 * width * count * ALIKE / (count + ALIKE)) < SUSPICIOUS:
        return None
    columns = data.columns[rows]
    others = _Moments(*(np.delete(values, j, axis=0) for values in state.moments))
    rest = others.scatters.sum(axis=0)
    side = _starts(columns, weights, projections, state.hyper)
    shares = np.stack([side, ~side], axis=1) * 1.0  # (starts, 2, n)
    for _ in range(steps):
        moments = data.moments(shares * weights, columns)
        scatter = rest + moments.scatters.sum(axis=1, keepdims=True)
        # How alike the clusters are is not known before they are parted: the prior must be weak here.
        hyper = _Hyper(
            _pooled_variance(data, scatter, state.n_clusters + 1), state.hyper.spread, PRIOR_POINTS
        )
        shares, entropy, _ = _soft(_log_joint(columns.T, moments, hyper))
        alive = (shares @ weights).min(axis=1) > 0.5
        if not alive.any():
            return None
        shares, entropy = shares[alive], entropy[alive]
    moments = data.moments(shares * weights, columns)
    alone = state.log_evidence - state.entropy
    gains = _log_evidence(data, _joined(others, moments))[0] - alone + entropy @ weights
    isolated = 1 - np.square(weights).sum() / count < OVERLAP
    for best in np.argsort(-gains, kind="stable"):
        if gains[best] < -WORTH_A_TRIAL:
            break
        parts = _Moments(moments.counts[best], moments.means[best], moments.scatters[best])
        if _convincing(data.points[rows], shares[best] * weights, parts, state.hyper, isolated):
            return float(gains[best]), rows, shares[best]
    return None


def _split(data: _Data, state: _State, splits: dict[int, tuple[np.ndarray, np.ndarray]]) -> _State:
    """Replace clusters by their two parts."""
    changed = state.memberships.copy()
    entropy = state.entropy
    added = []
    for j, (rows, shares) in splits.items():
        parts = np.zeros((2, len(data.points)))
        parts[0] = state.memberships[j]
        parts[:, rows] = shares * state.memberships[j, rows]
        changed[j] = parts[0]
        added.append(parts[1])
        entropy -= float(_plogp(parts).sum() - _plogp(state.memberships[j]).sum())
    memberships = np.concatenate([changed, np.stack(added)])
    return _judge(data, memberships, entropy)


# -- search ------------------------------------------------------------------------------------------


def _descend(data: _Data, state: _State, steps: int) -> Iterator[_State]:
    """Merge the best pairs again and again, also for a while where the evidence falls: many fragments of a
    cluster may have to merge before it gains. Yields all states on the way."""
    floor = state.log_evidence - DEPTH
    while state.n_clusters > 1:
        pairs, gains = _gains_of_mergers(state)
        order = np.argsort(-gains, kind="stable")
        if state.log_evidence + gains[order[0]] < floor:
            break
        chosen = [pairs[order[0]]]
        for p in order[1:]:
            if gains[p] > 0 and not np.isin(pairs[p], chosen).any():
                chosen.append(pairs[p])
        state = _refined(data, _merge(data, state, chosen), steps)
        floor = max(floor, state.log_evidence - DEPTH)
        yield state


def _ascend(data: _Data, state: _State, steps: int) -> Iterator[_State]:
    """Split clusters, all that seem to gain at once and then one by one until one gains."""
    found = {j: _local_split(data, state, j, steps) for j in range(state.n_clusters)}
    splits = {j: split for j, split in found.items() if split is not None and split[0] > -WORTH_A_TRIAL}
    good = {j: split[1:] for j, split in splits.items() if split[0] > 0}
    options = [good] if len(good) > 1 else []
    options += [{j: splits[j][1:]} for j in sorted(splits, key=lambda j: -splits[j][0])]
    for option in options:
        trial = _refined(data, _split(data, state, option), steps)
        yield trial
        if trial.log_evidence > state.log_evidence:
            break


def _search(data: _Data, state: _State, steps: int) -> list[_State]:
    """Merge and split as long as the evidence gains; returns all states that were tried."""
    tried = [state]
    for _ in range(MOST_ROUNDS):
        before = state
        for move in (_descend, _ascend):
            tried += move(data, state, steps)
            state = max(tried, key=lambda one: one.log_evidence)
        if state is before:
            break
    return tried


def _mixture(data: _Data, state: _State) -> DiagonalMixture:
    """Maximum a posteriori parameters, largest cluster first."""
    moments = state.moments
    proportions = moments.counts / moments.counts.sum()
    return DiagonalMixture(proportions, moments.means + data.centre, _variances(moments, state.hyper))


def polish(points: np.ndarray, candidates: Sequence[np.ndarray], refine_steps: int) -> Polished:
    """Polish partitions of points (n, d) of unit spread and return the best mixture and all others.

    ``candidates`` are labels (n,) each. Deterministic; rows in another order give the same up to rounding.
    """
    data = _Data(points)
    scored: dict[tuple[int, float], Scored] = {}
    done: set[tuple[int, float]] = set()
    distinct = {labels.tobytes(): labels for labels in map(canonical_labels, candidates)}
    for labels in distinct.values():
        state = _judge(data, np.ascontiguousarray(np.eye(labels.max() + 1)[labels].T), 0.0)
        state = _refined(data, state, refine_steps)
        if _key(state) in done:
            continue
        done.add(_key(state))
        for tried in _search(data, state, refine_steps):
            if _key(tried) not in scored:
                scored[_key(tried)] = Scored(_mixture(data, tried), tried.log_evidence)
    ranked = tuple(sorted(scored.values(), key=lambda one: -one.log_evidence))
    return Polished(ranked[0], ranked)


def _key(state: _State) -> tuple[int, float]:
    """States with the same number of clusters and the same evidence are the same."""
    return state.n_clusters, round(state.log_evidence, 3)
