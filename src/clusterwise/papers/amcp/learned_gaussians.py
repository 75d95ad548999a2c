"""Clusters as Gaussians of the data, whose widths are learned: IntraCM of AMCP when no point is left.

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
from typing import NamedTuple

import torch
from torch import Tensor, nn

__all__ = [
    "N_EVIDENCE",
    "ClusterJudge",
    "Clusters",
    "Context",
    "Moments",
    "Points",
    "context_of",
    "moments_of",
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
