"""What AMCP does when no point is left: clusters that are two are split, and two that are one are merged.

The cluster-wise loop compares a new cluster with the rest, whose density is a constant, and sees encodings
alone. Two clusters side by side may become one, and points between two go to one of them for good. So IntraCM
goes on with all clusters and no rest, over the data themselves, and a perceptron judges whether two groups of
points, parts of a cluster or neighbours, are two clusters or one. It was trained on groups that this search
comes across, where the truth is known (``loss``).

All S data sets go through the search together, and all their clusters, cuts and pairs.

The mixture of Eq 3 over the data themselves, as printed, not over encodings. A reference phi_j is what EM
knows of cluster j: mass, mean, variances and correlations under the plan. f_theta decodes it into a density.
The mean stays as it is, the closed form of Eq 7; widths and correlations depend on the other clusters as
well, since three points say little about a width, and three hundred next to them say much::

    log sd_ja = c + g u_ja + b     u_ja   half the log variance along axis a, minus c
    R_j       = r R^_j + (1-r) I   R^_j   correlations under the plan
                                   c      mean of half the log variances of all clusters
                                   g, b, r  from perceptrons, see ``ClusterJudge``

In double precision, for data of unit spread. A cluster of mass zero is none.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.papers.estimator import batches_of_similar_size

__all__ = [
    "N_EVIDENCE",
    "ClusterJudge",
    "Clusters",
    "Context",
    "Decisions",
    "GroupTruth",
    "Moments",
    "Points",
    "context_of",
    "moments_of",
    "revise_partitions",
]

# Added to every variance: rows may be copies of each other.
MIN_VARIANCE = 1e-6
# Correlations are below this, whatever the data say.
MAX_CORRELATION = 0.995
# Share of a cluster that is none: finite, so that times zero it is zero.
LOG_OF_ZERO = -1e30
# Numbers that the judge sees.
N_EVIDENCE = 13
# Neighbours of a cluster that it may be merged with.
NEIGHBOURS = 2
# EM steps at the start, after each change, of two parts of a cluster, and at the end.
FIRST_STEPS, EM_STEPS, PART_STEPS, LAST_STEPS = 5, 6, 12, 10
# Splits and then merges, this many times.
ROUNDS = 2
# Times that all clusters that changed are looked at again.
MAX_SWEEPS = 20
# Fewer points than this are not split.
MIN_POINTS = 4
# Points of the data sets that are revised together, and numbers that describe groups judged together.
POINTS_AT_A_TIME, NUMBERS_AT_A_TIME = 32768, 400_000

Tensors = TypeVar("Tensors", bound=tuple[Any, ...])


# -- clusters as Gaussians whose widths are learned ------------------------------------------------


class Points(NamedTuple):
    """S data sets of up to N points."""

    x: Tensor  # (S, N, d), zero where there is none
    monomials: Tensor  # (S, N, 1 + d + d^2): one, x and the products of two; zero where there is none
    present: Tensor  # (S, N)
    n_points: Tensor  # (S,)

    @classmethod
    def of(cls, x: Tensor, present: Tensor) -> Points:
        """Prepare points (S, N, d) of which some are ``present`` (S, N)."""
        there = present.unsqueeze(2)
        x = x.double().masked_fill(~there, 0.0)
        products = (x.unsqueeze(3) * x.unsqueeze(2)).flatten(2)
        monomials = torch.cat([there.to(x.dtype), x, products], dim=2)
        return cls(x, monomials, present, monomials[..., 0].sum(1))


class Moments(NamedTuple):
    """What EM knows of K clusters in each of S data sets under a plan."""

    mass: Tensor  # (S, K)
    means: Tensor  # (S, K, d)
    half_logs: Tensor  # (S, K, d), of the variances
    correlations: Tensor  # (S, K, d, d), with zeros on the diagonal
    mean_squares: Tensor  # (S, K), of the correlations


def moments_of(points: Points, plan: Tensor) -> Moments:
    """Moments of clusters under a plan (S, K, N)."""
    d = points.x.shape[2]
    sums = plan @ points.monomials
    mass = sums[..., 0]
    averages = sums[..., 1:] / mass.clamp(min=1e-9).unsqueeze(2)
    means = averages[..., :d]
    covariances = averages[..., d:].unflatten(2, (d, d)) - means.unsqueeze(3) * means.unsqueeze(2)
    half_logs = 0.5 * torch.log(covariances.diagonal(dim1=2, dim2=3).clamp(min=0) + MIN_VARIANCE)
    scales = torch.exp(-half_logs)
    correlations = covariances * (scales.unsqueeze(3) * scales.unsqueeze(2) * (1 - identity(points.x)))
    mean_squares = correlations.square().sum((2, 3)) / max(d * (d - 1), 1)
    return Moments(mass, means, half_logs, correlations, mean_squares)


def identity(x: Tensor) -> Tensor:
    """The identity matrix (d, d) for points (..., d)."""
    return torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


class Context(NamedTuple):
    """What all clusters of a data set have in common, each counting by its mass; all (S,)."""

    width: Tensor  # c, mean of half the log variances
    spread: Tensor  # their standard deviation
    tilt: Tensor  # root mean square of the correlations
    log_n_clusters: Tensor


def context_of(moments: Moments) -> Context:
    """Context of the clusters."""
    mass = moments.mass
    shares = mass / mass.sum(1, keepdim=True)
    width = (shares * moments.half_logs.mean(2)).sum(1)
    deviations = (moments.half_logs - width[:, None, None]).square().mean(2)
    spread, tilt = ((shares * squares).sum(1).sqrt() for squares in (deviations, moments.mean_squares))
    return Context(width, spread, tilt, torch.log((mass > 0).sum(1)).to(mass))


class Clusters(NamedTuple):
    """K Gaussians of each of S data sets, and what they make of the points."""

    moments: Moments
    log_sds: Tensor  # (S, K, d)
    plan: Tensor  # (S, K, N), columns sum to one
    log_likelihood: Tensor  # (S,)
    context: Context

    def labels(self) -> Tensor:
        """The cluster with the largest share of each point, (S, N)."""
        return self.plan.argmax(1)

    def sizes(self, points: Points) -> Tensor:
        """Points with each label, (S, K)."""
        counted = points.present.long()
        return counted.new_zeros(self.plan.shape[:2]).scatter_add(1, self.labels(), counted)

    def neighbours(self) -> Tensor:
        """Pairs (S, K, K) of each cluster with its nearest, by squared distances over sums of variances."""
        means, variances, k = self.moments.means, torch.exp(2 * self.log_sds), self.plan.shape[1]
        squares = (means.unsqueeze(2) - means.unsqueeze(1)).square()
        distances = (squares / (variances.unsqueeze(2) + variances.unsqueeze(1))).sum(3)
        none = self.moments.mass == 0
        itself = torch.eye(k, dtype=torch.bool, device=none.device)
        distances = distances.masked_fill(none.unsqueeze(1) | none.unsqueeze(2) | itself, torch.inf)
        least, nearest = distances.topk(min(NEIGHBOURS, k - 1), dim=2, largest=False)
        near = torch.zeros_like(distances, dtype=torch.bool).scatter(2, nearest, least < torch.inf)
        return (near | near.transpose(1, 2)).triu(1)


def perceptron(n_inputs: int, n_hidden: int, n_outputs: int) -> nn.Sequential:
    """Three layers with rectifiers between them."""
    hidden = (nn.Linear(n_inputs, n_hidden), nn.ReLU(), nn.Linear(n_hidden, n_hidden), nn.ReLU())
    return nn.Sequential(*hidden, nn.Linear(n_hidden, n_outputs))


class ClusterJudge(nn.Module):
    """What is learned: widths and correlations of clusters, and whether two groups are two clusters."""

    def __init__(self) -> None:
        super().__init__()
        self.widths = perceptron(6, 16, 2)
        self.tilts = perceptron(5, 16, 1)
        self.judge = perceptron(N_EVIDENCE, 64, 1)

    def log_sds(self, moments: Moments, context: Context) -> Tensor:
        """Log widths (S, K, d)."""
        width, spread, _, log_n_clusters = (value.view(-1, 1, 1) for value in context)
        own = moments.half_logs - width
        others = (own.sum(2, keepdim=True) - own) / max(own.shape[2] - 1, 1)
        of_mass = (torch.log(moments.mass + 1) / 3 - 1).unsqueeze(2)
        seen = (own, of_mass, others, spread, 0.5 * log_n_clusters, width + 2)
        gate, beyond = _outputs(self.widths, seen).unbind(-1)
        return width + torch.sigmoid(gate) * own + beyond

    def correlations(self, moments: Moments, context: Context) -> Tensor:
        """Learned correlations R_j (S, K, d, d)."""
        tilts, mass = moments.mean_squares.sqrt(), moments.mass
        _, _, of_all, log_n_clusters = (value.view(-1, 1) for value in context)
        by_mass = (tilts * mass.sqrt() / 5).clamp(max=4)
        seen = (tilts, torch.log(mass + 1) / 3 - 1, by_mass, of_all, 0.5 * log_n_clusters)
        kept = MAX_CORRELATION * torch.sigmoid(_outputs(self.tilts, seen))  # r, (S, K, 1)
        return kept.unsqueeze(3) * moments.correlations + identity(moments.means)

    def logits(self, evidence: Tensor) -> Tensor:
        """Above zero where (R, N_EVIDENCE) speaks of two clusters, below for one, (R,)."""
        return _outputs(self.judge, evidence.unbind(1)).squeeze(1)

    def decode(self, moments: Moments, context: Context) -> tuple[Tensor, Tensor]:
        """Log widths (S, K, d), and log densities as coefficients of the monomials, (S, K, 1 + d + d^2)."""
        log_sds, means = self.log_sds(moments, context), moments.means
        factors = torch.linalg.cholesky(self.correlations(moments, context))
        scales = torch.exp(-log_sds)
        precisions = torch.cholesky_inverse(factors) * scales.unsqueeze(3) * scales.unsqueeze(2)
        of_means = (precisions @ means.unsqueeze(3)).squeeze(3)
        log_volume = torch.log(factors.diagonal(dim1=2, dim2=3)).sum(2) + log_sds.sum(2)
        constant = -0.5 * ((of_means * means).sum(2) + means.shape[2] * math.log(2 * math.pi)) - log_volume
        return log_sds, torch.cat([constant.unsqueeze(2), of_means, -0.5 * precisions.flatten(2)], dim=2)

    def em(self, points: Points, plan: Tensor, n_steps: int, context: Context | None = None) -> Clusters:
        """EM steps from a plan (S, K, N); in the clusters' own context at each, if there is no other."""
        for _ in range(n_steps):
            moments = moments_of(points, plan)
            own = context_of(moments) if context is None else context
            log_sds, coefficients = self.decode(moments, own)
            log_shares = torch.log(moments.mass / points.n_points.unsqueeze(1))
            coefficients[..., 0] += log_shares.clamp(min=LOG_OF_ZERO)
            log_joint = coefficients @ points.monomials.transpose(1, 2)
            plan = torch.softmax(log_joint, dim=1)
        log_likelihood = (torch.logsumexp(log_joint, dim=1) * points.present).sum(1)
        return Clusters(moments, log_sds, plan, log_likelihood, own)


def _outputs(layers: nn.Sequential, inputs: tuple[Tensor, ...]) -> Tensor:
    """Outputs (..., n) of a perceptron for inputs of shapes that broadcast."""
    values = torch.stack(torch.broadcast_tensors(*inputs), dim=-1)
    outputs: Tensor = layers(values.to(next(layers.parameters()).dtype))
    return outputs.to(values.dtype)


# -- splits and merges -----------------------------------------------------------------------------


class GroupTruth(NamedTuple):
    """The true clusters of S data sets, for training."""

    labels: Tensor  # (S, N)
    follows: Tensor  # (S,) bool, whether the truth decides what happens next, and not the judge


class Decisions(NamedTuple):
    """What was to be decided about R pairs of groups, for training."""

    evidence: Tensor  # (R, N_EVIDENCE)
    apart: Tensor  # (R,) share of the pairs of points, one of each group, that belong to two clusters
    n_pairs: Tensor  # (R,)
    of_set: Tensor  # (R,) the data set


@torch.no_grad()
def revise_partitions(
    judge: ClusterJudge,
    x: Tensor,
    present: Tensor,
    labels: Tensor,
    max_clusters: Tensor | int,
    min_logits: Tensor | None = None,
    truth: GroupTruth | None = None,
) -> tuple[Tensor, Tensor, list[Decisions]]:
    """Labels (S, N) after splits and merges of clusters, (S,) whether more were capped, and the decisions.

    Points ``x`` (S, N, d) have unit spread; ``labels`` (S, N) are 0 .. K-1 where a point is ``present``. Two
    groups are two clusters if the judge's logit is above ``min_logits`` (S,), zero by default. Decisions are
    kept if the ``truth`` is known.
    """
    caps = torch.as_tensor(max_clusters, device=x.device).expand(len(x))
    least = x.new_zeros(len(x)) if min_logits is None else min_logits
    there = present.unsqueeze(2)
    lowest, highest = x.masked_fill(~there, torch.inf).amin(1), x.masked_fill(~there, -torch.inf).amax(1)
    varies = highest > lowest  # not columns that fill up
    found, capped, decisions = labels.clone(), torch.zeros_like(caps, dtype=torch.bool), []
    for pattern in varies.unique(dim=0):
        alike = (varies == pattern).all(1).nonzero().flatten()
        for sets in alike.split(max(1, POINTS_AT_A_TIME // x.shape[1])) if pattern.any() else ():
            own_truth = truth and GroupTruth(truth.labels[sets], truth.follows[sets])
            points = Points.of(x[sets][..., pattern], present[sets])
            search = Search(judge, points, caps[sets], least[sets], own_truth)
            found[sets], capped[sets] = search.run(labels[sets])
            decisions += [one._replace(of_set=sets[one.of_set]) for one in search.decisions]
    return found, capped, decisions


class Search:
    """Splits and merges of S data sets at once."""

    def __init__(
        self, judge: ClusterJudge, points: Points, caps: Tensor, min_logits: Tensor, truth: GroupTruth | None
    ) -> None:
        self.judge, self.points, self.caps, self.min_logits = judge, points, caps, min_logits
        self.truth, self.decisions = truth, list[Decisions]()

    def run(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Labels (S, N) after the search, and whether a cluster stayed one because of the cap, (S,)."""
        plan = functional.one_hot(labels).transpose(1, 2).to(self.points.x) * self.points.present.unsqueeze(1)
        clusters = self.judge.em(self.points, plan, FIRST_STEPS)
        capped = torch.zeros_like(self.caps, dtype=torch.bool)
        live = torch.arange(len(labels), device=labels.device)
        for _ in range(ROUNDS):
            clusters, splits = self.split(clusters, live, capped)
            clusters, merges = self.merge(clusters, live)
            live = (splits | merges).nonzero().flatten()
            if len(live) == 0:
                break
        return self.judge.em(self.points, clusters.plan, LAST_STEPS).labels(), capped

    def split(self, everything: Clusters, live: Tensor, capped: Tensor) -> tuple[Clusters, Tensor]:
        """The clusters after all splits in the data sets ``live``, and which of S had any.

        Clusters that changed are looked at again after EM steps of all. ``capped`` (S,) is updated.
        """
        any_splits, clusters = torch.zeros_like(capped), rows_of(everything, live)
        changed = clusters.moments.mass > 0
        for _ in range(MAX_SWEEPS):
            plan, splits, capped[live] = self.sweep(clusters, live, changed)
            growing, where = splits[:, 0].unique(return_inverse=True)
            if len(growing) == 0:
                break
            live, (old, new) = live[growing], splits[:, 1:].T
            points = rows_of(self.points, live)
            clusters = self.judge.em(points, plan[growing], EM_STEPS)
            used = clusters.sizes(points) > 0
            # A split that leaves a part without points was none, and must not be tried again and again.
            changed = torch.zeros_like(used)
            changed[where, old] = changed[where, new] = used[where, old] & used[where, new]
            partly = ((clusters.moments.mass > 0) & ~used).any(1).nonzero().flatten()
            if len(partly) > 0:
                kept = clusters.plan[partly] * used[partly].unsqueeze(2)
                clusters = replaced(clusters, partly, self.judge.em(rows_of(points, partly), kept, 1))
            everything = replaced(everything, live, clusters)
            any_splits[live] = True
        return everything, any_splits

    def sweep(self, clusters: Clusters, live: Tensor, changed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Plans (L, K', N) with the parts of the changed clusters (L, K) that are two, as far as caps allow.

        Second, the data set, the old and the new cluster of each split, (R, 3); third, at which caps (L,).
        """
        labels, present = clusters.labels(), self.points.present[live]
        candidates = changed & (clusters.sizes(rows_of(self.points, live)) >= MIN_POINTS)
        where, old = candidates.nonzero().unbind(1)
        members = (labels[where] == old.unsqueeze(1)) & present[where]
        evidence, second = self.evidence(members, live[where], rows_of(clusters.context, where))
        found = second.any(1)
        where, old, members, evidence, second = rows_of((where, old, members, evidence, second), found)
        two = self.logits(evidence, members, second > 0.5, live[where]) > 0
        before = (where.unsqueeze(1) == where).tril() & two
        rank = before.sum(1)  # among the splits of its data set, from 1 on
        n_clusters, k = (clusters.moments.mass > 0).sum(1), clusters.plan.shape[1]
        allowed = two & (n_clusters[where] + rank <= self.caps[live[where]])
        at_cap = torch.zeros_like(live, dtype=torch.bool).index_fill(0, where[two & ~allowed], True)
        where, old, new, second = rows_of((where, old, k + rank - 1, second), allowed)
        given = second * clusters.plan[where, old]
        width = int(new.max()) + 1 - k if len(new) > 0 else 0
        plan = functional.pad(clusters.plan, (0, 0, 0, width))
        plan[where, old] -= given
        plan[where, new] = given
        return plan, torch.stack([where, old, new], dim=1), at_cap

    def merge(self, everything: Clusters, live: Tensor) -> tuple[Clusters, Tensor]:
        """The clusters after all merges in the data sets ``live``, and which of S had any.

        Of each data set the pair that is most likely one is merged, as long as there is such a pair.
        """
        any_merges = torch.zeros_like(self.caps, dtype=torch.bool)
        clusters = rows_of(everything, live)
        while True:
            where, a, b = clusters.neighbours().nonzero().unbind(1)
            k, labels = clusters.plan.shape[1], clusters.labels()[where]
            in_second = (labels == b.unsqueeze(1)) & self.points.present[live[where]]
            members = (labels == a.unsqueeze(1)) & self.points.present[live[where]] | in_second
            proper = in_second.any(1) & (members & ~in_second).any(1)
            logits = torch.full_like(proper, -torch.inf, dtype=torch.double)  # of a cluster without points
            where_, a_, b_, of_both, of_second = rows_of((where, a, b, members, in_second), proper)
            of_a, of_b = clusters.plan[where_, a_], clusters.plan[where_, b_]
            share = of_b / (of_a + of_b).clamp(min=1e-300)  # of other points it may be nothing
            evidence, _ = self.evidence(of_both, live[where_], rows_of(clusters.context, where_), share)
            logits[proper] = self.logits(evidence, of_both, of_second, live[where_])
            table = logits.new_full((len(live), k * k), torch.inf)
            table[where, a * k + b] = logits
            lowest, pair = table.min(1)
            merging = lowest < 0
            if not bool(merging.any()):
                return everything, any_merges
            live, first, second = live[merging], pair[merging] // k, pair[merging] % k
            plan, rows = clusters.plan[merging], torch.arange(len(live), device=live.device)
            plan[rows, first] += plan[rows, second]
            plan[rows, second] = 0
            plan = plan[:, (plan.amax(2) > 0).any(0)]
            clusters = self.judge.em(rows_of(self.points, live), plan, EM_STEPS)
            everything = replaced(everything, live, clusters)
            any_merges[live] = True

    def evidence(
        self, members: Tensor, of_set: Tensor, context: Context, share: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the judge sees (R, N_EVIDENCE) of members (R, N) in two parts, and the share of the second.

        The parts begin at ``share`` (R, N); without one at the best cut, and are zero where there is none.
        """
        evidence, second = (
            context.width.new_zeros(len(members), N_EVIDENCE),
            torch.zeros_like(members).double(),
        )
        numbers = members.sum(1) * 6 * self.points.monomials.shape[2]
        for batch in batches_of_similar_size(numbers.tolist(), NUMBERS_AT_A_TIME):
            some, own = members[batch], rows_of(context, batch)
            ranks = some.cumsum(1) - 1
            n = int(ranks[:, -1].max()) + 1
            places = torch.where(some, ranks, n)
            numbers = torch.arange(some.shape[1], device=some.device).expand_as(some)
            places = numbers.new_zeros(len(some), n + 1).scatter(1, places, numbers)[:, :n]
            inside = torch.arange(n, device=some.device) <= ranks[:, -1:]
            points = Points.of(self.points.x[of_set[batch].unsqueeze(1), places], inside)
            one = self.judge.em(points, inside.unsqueeze(1).to(points.x), 1, own)
            if share is None:
                parts, found = best_cut(self.judge, points, own)
            else:
                own_share = share[batch].gather(1, places) * inside
                parts = self.judge.em(
                    points, torch.stack([points.monomials[..., 0] - own_share, own_share], dim=1), 1, own
                )
                found = torch.ones_like(of_set[batch], dtype=torch.bool)
            evidence[batch] = evidence_of(one, parts, own)
            part = parts.plan[:, 1].gather(1, ranks.clamp(min=0)) * some
            second[batch] = part * found.unsqueeze(1)
        return evidence, second

    def logits(self, evidence: Tensor, members: Tensor, in_second: Tensor, of_set: Tensor) -> Tensor:
        """Above zero for two clusters, below for one (R,), of members (R, N), some of them ``in_second``."""
        logits = self.judge.logits(evidence) - self.min_logits[of_set]
        if self.truth is None:
            return logits
        classes = functional.one_hot(self.truth.labels).to(evidence)[of_set]  # (R, N, K)
        groups = torch.stack([members & ~in_second, in_second], dim=1).to(evidence)
        first, second = (groups @ classes).unbind(1)  # (R, K)
        n_pairs = first.sum(1) * second.sum(1)
        apart = 1 - (first * second).sum(1) / n_pairs.clamp(min=1)
        self.decisions.append(Decisions(evidence, apart, n_pairs, of_set))
        return torch.where(self.truth.follows[of_set], apart - 0.5, logits)


def best_cut(judge: ClusterJudge, points: Points, context: Context) -> tuple[Clusters, Tensor]:
    """The likeliest two parts of each of R groups, and which of these have any, (R,).

    EM begins at cuts across the two longest axes: through the mean, and between either rim and all else, by
    which a few points far out are found.
    """
    mean = points.x.sum(1, keepdim=True) / points.n_points[:, None, None]
    apart = (points.x - mean) * points.present.unsqueeze(2)
    squares, axes = torch.linalg.eigh(apart.transpose(1, 2) @ apart / points.n_points[:, None, None])
    along = (apart @ axes[..., -2:].flip(2)).transpose(1, 2)  # (R, 2, n)
    rim = 1.5 * squares[:, -2:].flip(1).clamp(min=0).sqrt()
    thresholds = torch.stack([torch.zeros_like(rim), rim, -rim], dim=2).unsqueeze(3)
    beyond = ((along.unsqueeze(2) > thresholds) & points.present[:, None, None]).flatten(1, 2)  # (R, 6, n)
    n_beyond = beyond.sum(2)
    proper = (n_beyond > 0) & (n_beyond < points.n_points.unsqueeze(1))
    proper[:, 0] |= ~proper.any(1)  # of copies of one point: a part without mass, which is none
    of_group = proper.nonzero()[:, 0]
    second = beyond[proper].to(points.x)
    plan = torch.stack([points.monomials[of_group, :, 0] - second, second], dim=1)
    parts = judge.em(rows_of(points, of_group), plan, PART_STEPS, rows_of(context, of_group))
    scores = torch.full_like(n_beyond, -torch.inf, dtype=torch.double)
    scores[proper] = parts.log_likelihood.masked_fill(parts.moments.mass.amin(1) < 1, -torch.inf)
    highest, best = scores.max(1)
    numbers = (proper.flatten().cumsum(0) - 1).view_as(proper).clamp(min=0)
    return rows_of(parts, numbers.gather(1, best.unsqueeze(1)).squeeze(1)), highest > -torch.inf


def evidence_of(one: Clusters, parts: Clusters, context: Context) -> Tensor:
    """What the judge sees (R, N_EVIDENCE) of groups as two parts, compared with one cluster."""
    gain, masses = parts.log_likelihood - one.log_likelihood, parts.moments.mass
    large = (masses[:, :1] < masses[:, 1:]).long()
    order = torch.cat([1 - large, large], dim=1)  # the smaller part first
    small_mass, large_mass = masses.gather(1, order).unbind(1)
    widths = torch.cat([one.log_sds.mean(2), parts.log_sds.mean(2).gather(1, order)], dim=1)
    squares = (parts.moments.means[:, 0] - parts.moments.means[:, 1]).square()
    distance = (squares / torch.exp(2 * parts.log_sds).sum(1)).sum(1)
    seen = [
        torch.log(1 + gain.clamp(min=0)) - 2.5,
        (gain / (small_mass + 1)).clamp(-1, 5),
        torch.log(small_mass + 1) / 2 - 1.5,
        torch.log(large_mass + 1) / 2 - 2,
        torch.log(1 + distance) - 1.5,
        *(widths - context.width.unsqueeze(1)).unbind(1),
        context.spread,
        0.5 * context.log_n_clusters,
        context.tilt,
        one.moments.mean_squares[:, 0].sqrt(),
        parts.moments.mean_squares.gather(1, large).squeeze(1).sqrt(),
    ]
    return torch.stack(seen, dim=1)


# -- tensors of some data sets -----------------------------------------------------------------------


def rows_of(values: Tensors, which: Any) -> Tensors:
    """The same of some data sets only, by their numbers or a mask."""
    parts = (rows_of(v, which) if isinstance(v, tuple) else v[which] for v in values)
    return type(values)(*parts) if hasattr(values, "_fields") else type(values)(parts)


def replaced(values: Tensors, sets: Tensor, new: Tensors) -> Tensors:
    """The same with some data sets replaced; zeros where there are fewer clusters than elsewhere."""
    parts = []
    for old, own in zip(values, new, strict=True):
        if isinstance(old, tuple):
            parts.append(replaced(old, sets, own))
            continue
        k = max(old.shape[1], own.shape[1]) if old.dim() > 1 else 0
        wide, row = (
            functional.pad(v, (0, 0) * (v.dim() - 2) + (0, k - v.shape[1])) if k else v for v in (old, own)
        )
        parts.append(wide.index_copy(0, sets, row))
    return type(values)(*parts)
