"""The learned part of AMCP's revision: perceptrons that decode Gaussians, one that judges, and their loss.

``amcp_gaussians`` and ``amcp_revision`` say what they are for and run them, compiled. Here they are trained:

- *densities:* the likelihood of a whole true cluster, from a random part of it, from all of it with a few
  points of its neighbour, or of two neighbours taken as one (``density_loss``);
- *judge:* logistic loss of the decisions that come up when the loop's clusters of a data set are revised. In
  half of the data sets the truth decides what happens next, in the others the judge as it is now, so that it
  learns from states that it will meet. A decision counts by the pairs of points that it puts right or wrong,
  which is what the adjusted Rand index counts (``judge_loss``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.papers.amcp_gaussians import (
    LARGEST_CORRELATION,
    LEAST_VARIANCE,
    Perceptron,
    Perceptrons,
)
from clusterwise.papers.amcp_revision import N_EVIDENCE, revised
from clusterwise.papers.model import Inference

__all__ = ["Reviser", "examples", "log_likelihood"]

# True clusters of a data set that a training step looks at.
N_EXAMPLES = 6
# Shares of these that are shown in part, with some of a neighbour's points, and with all of them.
IN_PART, WITH_SOME, WITH_ALL = 0.33, 0.2, 0.2
# Share of a neighbour's points that are some of them.
SOME = 0.05
# A log density is no lower than this for the average point of a cluster.
LOWEST = -50.0
# What any decision counts, besides the share of pairs that it decides.
LEAST_WEIGHT = 0.02


def _perceptron(n_inputs: int, n_hidden: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_inputs, n_hidden),
        nn.ReLU(),
        nn.Linear(n_hidden, n_hidden),
        nn.ReLU(),
        nn.Linear(n_hidden, n_outputs),
    )


class Reviser(nn.Module):
    """Widths, correlations and decisions of the revision; any number of features."""

    def __init__(self) -> None:
        super().__init__()
        self.widths = _perceptron(6, 16, 2)
        self.tilts = _perceptron(5, 16, 1)
        self.judge = _perceptron(N_EVIDENCE, 64, 1)

    def compiled(self) -> Perceptrons:
        """The same for compiled code, with the parameters of now."""
        parts = (self.widths, self.tilts, self.judge)
        return Perceptrons(*(Perceptron(*(_array(p) for p in part.parameters())) for part in parts))

    def of_all(
        self,
        found: Sequence[Inference],
        points: np.ndarray,
        present: np.ndarray,
        uniform: Sequence[np.ndarray],
        max_clusters: int,
    ) -> list[Inference]:
        """What is found in B data sets (B, N, d) after the revision of all paths; steps stay the loop's.

        A drawn path has a number of ``uniform`` (draws,) of its data set, and takes two groups for two
        clusters if their probability of being two is larger; the first path, if it is larger than one half.
        """
        learned, revisions = self.compiled(), []
        for one, numbers, of_set, rows in zip(found, uniform, points, present, strict=True):
            paths, capped = [], []
            for labels, number in zip((one.labels, *one.draws), (0.5, *numbers), strict=True):
                least_logit = np.log(max(number, 1e-9)) - np.log(max(1 - number, 1e-9))
                judge = learned.judge._replace(third_bias=learned.judge.third_bias - least_logit)
                changed = labels.cpu().numpy().astype(np.int64)
                own = learned._replace(judge=judge)
                changed[rows], at_cap, _ = revised(of_set[rows], changed[rows], own, max_clusters)
                paths.append(torch.from_numpy(changed).to(labels.device))
                capped.append(at_cap)
            revisions.append(replace(one, labels=paths[0], draws=tuple(paths[1:]), cap_reached=capped[0]))
        return revisions

    def log_sds(self, half_logs: Tensor, mass: Tensor, context: Tensor) -> Tensor:
        """Log widths (B, C, d) of clusters with these half log variances; ``context`` is (B, 4)."""
        width, spread, _, n_clusters = (value.view(-1, 1, 1) for value in context.T)
        own = half_logs - width
        others = (own.sum(2, keepdim=True) - own) / max(own.shape[2] - 1, 1)
        of_mass = (torch.log(mass + 1) / 3 - 1).unsqueeze(2)
        inputs = (own, of_mass, others, spread, 0.5 * torch.log(n_clusters), width + 2)
        gate, beyond = self.widths(torch.stack([one.expand_as(own) for one in inputs], dim=-1)).unbind(-1)
        log_sds: Tensor = width + torch.sigmoid(gate) * own + beyond
        return log_sds

    def shrinkage(self, correlations: Tensor, mass: Tensor, context: Tensor) -> Tensor:
        """By what correlations (B, C, d, d) are multiplied, (B, C)."""
        tilt = _tilts(correlations)
        of_all, n_clusters = (value.view(-1, 1) for value in context.T[2:])
        inputs = (
            tilt,
            torch.log(mass + 1) / 3 - 1,
            (tilt * mass.sqrt() / 5).clamp(max=4),
            of_all,
            0.5 * torch.log(n_clusters),
        )
        logits = self.tilts(torch.stack([one.expand_as(tilt) for one in inputs], dim=-1)).squeeze(-1)
        return LARGEST_CORRELATION * torch.sigmoid(logits)

    def density_loss(self, points: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Minus the log-likelihood of the average point of a true cluster, from what is shown of it."""
        members = functional.one_hot(labels).to(points.dtype).transpose(1, 2)  # (B, K, N)
        half_logs, correlations, mass = _moments(points, members)[1:]
        shown, meant = examples(points, members, generator)  # (B, C, N)
        means, own_logs, own_correlations, own_mass = _moments(points, shown)
        context = _context(half_logs, correlations, mass)
        log_sds = self.log_sds(own_logs, own_mass, context)
        eye = torch.eye(points.shape[2], dtype=points.dtype, device=points.device)
        shrinkage = self.shrinkage(own_correlations, own_mass, context)[..., None, None]
        matrices = shrinkage * own_correlations * (1 - eye) + eye
        of_points = log_likelihood(points, means, log_sds, matrices)
        average = (of_points * meant).sum(2) / meant.sum(2).clamp(min=1)
        some = shown.sum(2) >= 2
        return -(average.clamp(min=LOWEST) * some).sum() / some.sum().clamp(min=1)

    def judge_loss(self, points: Tensor, labels: Tensor, found: Sequence[Tensor]) -> Tensor:
        """Logistic loss of decisions on the way from ``found``, labels (N,) of each of B data sets."""
        learned = self.compiled()
        evidence, weights, targets = [], [], []
        for place, (x, truth, start) in enumerate(zip(points, labels.numpy(), found, strict=True)):
            sizes = np.bincount(truth)
            most = 2 * int((sizes > 0).sum()) + 2
            follow = place % 2 == 0
            decisions = revised(x.numpy(), start.numpy(), learned, most, truth, follow).decisions
            share = np.minimum(decisions.n_pairs / np.square(sizes).sum(), 1) + LEAST_WEIGHT
            evidence.append(decisions.evidence)
            weights.append(share * np.abs(2 * decisions.apart - 1))
            targets.append(decisions.apart > 0.5)
        seen, weight, target = (
            torch.from_numpy(np.concatenate(parts)).to(points.dtype) for parts in (evidence, weights, targets)
        )
        losses = functional.binary_cross_entropy_with_logits(
            self.judge(seen).squeeze(1), target, reduction="none"
        )
        return (weight * losses).sum() / weight.sum().clamp(min=LEAST_WEIGHT)


def _array(parameter: Tensor) -> np.ndarray:
    return np.ascontiguousarray(parameter.detach().cpu().numpy(), dtype=np.float64)


def _moments(points: Tensor, plan: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means (B, C, d), half log variances, correlations (B, C, d, d), mass (B, C) under plans (B, C, N)."""
    # In double precision: a cluster may be a thousand times narrower than the data.
    mass, x, d = plan.sum(2), points.double(), points.shape[2]
    weights = plan.double() / mass.clamp(min=1e-9).unsqueeze(2)
    means = weights @ x
    products = (x.unsqueeze(3) * x.unsqueeze(2)).flatten(2)  # (B, N, d * d)
    covariances = (weights @ products).unflatten(2, (d, d)) - means.unsqueeze(3) * means.unsqueeze(2)
    half_logs = 0.5 * torch.log(covariances.diagonal(dim1=2, dim2=3).clamp(min=0) + LEAST_VARIANCE)
    correlations = covariances * torch.exp(-half_logs.unsqueeze(3) - half_logs.unsqueeze(2))
    return means.to(points), half_logs.to(points), correlations.to(points), mass


def _tilts(correlations: Tensor) -> Tensor:
    """Root mean square of the correlations of each cluster, (B, C)."""
    d = correlations.shape[-1]
    beyond = correlations.square().sum((2, 3)) - correlations.diagonal(dim1=2, dim2=3).square().sum(2)
    return torch.sqrt(beyond.clamp(min=0) / max(d * (d - 1), 1))


def _context(half_logs: Tensor, correlations: Tensor, mass: Tensor) -> Tensor:
    """Width, spread, tilt and number of clusters of each data set, (B, 4); see ``Context``."""
    shares = mass / mass.sum(1, keepdim=True)
    width = (shares * half_logs.mean(2)).sum(1)
    spread = (shares * (half_logs - width[:, None, None]).square().mean(2)).sum(1).sqrt()
    tilt = (shares * _tilts(correlations).square()).sum(1).sqrt()
    return torch.stack([width, spread, tilt, (mass > 0).sum(1).to(mass.dtype)], dim=1)


def examples(points: Tensor, members: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """What is shown of some true clusters, and the points that are meant by it, both (B, C, N).

    ``members`` (B, K, N) are those of the true clusters, some of which may be empty.
    """
    sizes = members.sum(2)
    drawn = torch.multinomial((sizes >= 2) + 1e-9, N_EXAMPLES, replacement=True, generator=generator)
    means = members @ points / sizes.clamp(min=1).unsqueeze(2)
    no_neighbour = (sizes == 0).unsqueeze(1) | torch.eye(sizes.shape[1], dtype=torch.bool)
    nearest = torch.cdist(means, means).masked_fill(no_neighbour, torch.inf).argmin(2)
    rows = torch.arange(len(points)).unsqueeze(1)
    whole, other = members[rows, drawn], members[rows, nearest.gather(1, drawn)]
    kind = torch.rand(drawn.shape, generator=generator).unsqueeze(2)
    kept = 0.1 + 0.9 * torch.rand(drawn.shape, generator=generator).unsqueeze(2)
    part = whole * (torch.rand(whole.shape, generator=generator) < kept)
    some = other * (torch.rand(whole.shape, generator=generator) < SOME)
    both = torch.maximum(whole, other)
    united = kind > 1 - WITH_ALL
    shown = torch.where(kind < IN_PART, part, torch.where(united, both, whole))
    with_some = ~united & (kind > 1 - WITH_ALL - WITH_SOME)
    return torch.where(with_some, torch.maximum(whole, some), shown), torch.where(united, both, whole)


def log_likelihood(points: Tensor, means: Tensor, log_sds: Tensor, correlations: Tensor) -> Tensor:
    """Log density of points (B, N, d) under Gaussians (B, C, ...), (B, C, N)."""
    apart = (points.unsqueeze(1) - means.unsqueeze(2)) * torch.exp(-log_sds).unsqueeze(2)  # (B, C, N, d)
    factors = torch.linalg.cholesky(correlations)
    white = torch.linalg.solve_triangular(factors, apart.transpose(2, 3), upper=False)
    log_volume = torch.log(factors.diagonal(dim1=2, dim2=3)).sum(2) + log_sds.sum(2)
    constant = 0.5 * points.shape[2] * np.log(2 * np.pi)
    return -0.5 * white.square().sum(2) - log_volume.unsqueeze(2) - constant
