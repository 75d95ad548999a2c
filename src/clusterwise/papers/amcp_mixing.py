"""IntraCM of AMCP in numpy, for the cluster-wise loop: ``AMCP.intra_cluster_mixing`` and its variants.

Training unrolls the EM steps in torch. The loop runs them on arrays so small that a call of torch takes
longer than its arithmetic; here a step is a few calls of numpy. Components come before points, (P, J, N), for
P paths, so that sums over components run along the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterwise.nn.sinkhorn import sinkhorn

if TYPE_CHECKING:
    from clusterwise.papers.amcp import AMCP
    from clusterwise.papers.amcp_options import Options

__all__ = ["ABSENT", "NEVER", "UNASSIGNED", "Encodings", "IntraCM", "Mixed", "SeedWeights"]

# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4
# Columns of points that belong to no cluster.
UNASSIGNED, ABSENT = -1, -2


class Encodings(NamedTuple):
    """Encodings for P paths: of one data set that all of them go through, S = 1, or of one each, S = P."""

    x: np.ndarray  # (S, N, D)
    extended: np.ndarray  # (S, N, D + 1), x and a one, zero for absent points
    scaled: np.ndarray  # (S, D, N), x / sd^2, transposed
    rest: np.ndarray  # (S, N), |x|^2 / (2 sd^2)
    n_points: np.ndarray  # (S, 1), those that are present

    @classmethod
    def of(cls, x: np.ndarray, mask: np.ndarray, precision: float) -> Encodings:
        """Prepare encodings (S, N, D) of the points that ``mask`` (S, N) marks; ``precision`` is 1 / sd^2."""
        extended = np.ones((*x.shape[:2], x.shape[2] + 1), x.dtype)
        extended[..., :-1] = x
        n_points = mask.sum(axis=1, keepdims=True, dtype=x.dtype)
        if n_points.min() < x.shape[1]:
            extended[~mask] = 0
        scaled = np.multiply(x.transpose(0, 2, 1), precision, order="C")
        return cls(x, extended, scaled, 0.5 * precision * np.vecdot(x, x), n_points)

    def of_paths(self, paths: np.ndarray) -> Encodings:
        """Leave out the others."""
        return self if len(self.x) == 1 else Encodings(*(array[paths] for array in self))

    def of_points(self, points: np.ndarray) -> np.ndarray:
        """Encodings (P, D) of one point for each path."""
        return self.x[0, points] if len(self.x) == 1 else self.x[np.arange(len(points)), points]

    def sums(self, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass (P, J) of each component under a plan, and the sum of its encodings (P, J, D)."""
        if len(self.x) == 1:  # one product for all paths
            sums = (plan.reshape(-1, plan.shape[2]) @ self.extended[0]).reshape(*plan.shape[:2], -1)
        else:
            sums = plan @ self.extended
        return sums[..., -1], sums[..., :-1]

    def log_shares(self, mass: np.ndarray) -> np.ndarray:
        """Log proportions (P, J) of components with this mass; one without any gets no point ever."""
        if mass.min() > 1e-9:
            shares: np.ndarray = np.log(mass / self.n_points)
            return shares
        return np.where(mass > 0, np.log(np.maximum(mass, 1e-9) / self.n_points), mass.dtype.type(NEVER))


class Mixed(NamedTuple):
    """A mixture over the encodings for each of P paths; the last component is the rest."""

    references: np.ndarray  # phi, (P, J, D)
    scores: np.ndarray  # log q up to a term that depends on the point alone, (P, J, N)
    plan: np.ndarray  # q, (P, J, N), sums to one over the components


class SeedWeights(NamedTuple):
    """How much a seed's chance depends on what is assigned, and on the loss expected of it (Eq 10)."""

    dissimilarity: float
    expected_loss: float


class IntraCM:
    """The EM steps with the parameters of a network."""

    def __init__(self, model: AMCP, options: Options) -> None:
        options = options.of_network(model.config)
        self.options, self.decoder, self.device = options, model.decoder, model.log_sd.device
        self.n_steps = options.n_em_steps or model.config.n_em_steps
        epsilon, strictness = model.of_transport()
        self.epsilon = epsilon if options.epsilon is None else options.epsilon
        self.strictness = strictness if options.strictness is None else options.strictness
        self.seed_weights = SeedWeights(
            math.exp(model.log_weight_of_dissimilarity.item()) if options.coupling else 0.0,
            math.exp(model.log_weight_of_expected_loss.item()),
        )
        self.precision = math.exp(-2 * model.log_sd.item())
        self.log_density_of_rest = model.log_density_of_rest.item()

    def run(self, points: Encodings, columns: np.ndarray, seeds: np.ndarray, k: int) -> Mixed:
        """T EM steps from the present ``columns`` (P, N) of the points; ``seeds`` (P,) start component k."""
        references, log_proportions = self._start(points, columns, seeds, k)
        scores, plan = self._e_step(points, references, log_proportions)
        for _ in range(self.n_steps - 1):
            references, log_proportions = self._m_step(points, references, log_proportions, plan)
            scores, plan = self._e_step(points, references, log_proportions)
        return Mixed(references, scores, plan)

    def centres(self, references: np.ndarray) -> np.ndarray:
        """f_theta(phi), (P, J, D)."""
        return references if self.decoder.kind == "linear" else self._in_torch(self.decoder, references)

    def _start(
        self, points: Encodings, columns: np.ndarray, seeds: np.ndarray, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """References (P, J, D) and log proportions (P, J) that the columns stand for."""
        codes = np.arange(k + 2, dtype=columns.dtype)
        codes[-1] = UNASSIGNED
        mass, sums = points.sums((columns[:, None, :] == codes[:, None]).astype(points.x.dtype))
        means = sums / np.maximum(mass, 1)[..., None]
        means[:, k] = points.of_points(seeds)
        # What is unassigned is half the new cluster's until the first E-step says more.
        mass[:, k:] = 0.5 * mass[:, -1:]
        references = means if self.decoder.kind == "linear" else self._in_torch(self.decoder.start, means)
        if self.options.proportions == "balanced":
            return references, np.full_like(mass, -math.log(k + 2))  # of the clusters, the new one, the rest
        return references, points.log_shares(mass)

    def _e_step(
        self, points: Encodings, references: np.ndarray, log_proportions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and plan of Eq 4 or Eq 6, (P, J, N)."""
        # log p(x | c) = (x . c - |c|^2 / 2 - |x|^2 / 2) / sd^2. The last term depends on the point alone and
        # is left out, hence the constant density of the rest has the opposite.
        centres = self.centres(references[:, :-1])
        joint = np.empty((*log_proportions.shape, points.x.shape[1]), points.x.dtype)
        np.matmul(centres, points.scaled, out=joint[:, :-1])
        offsets = log_proportions[:, :-1] - 0.5 * self.precision * np.vecdot(centres, centres)
        joint[:, :-1] += offsets[..., None]
        np.add(points.rest, log_proportions[:, -1:] + self.log_density_of_rest, out=joint[:, -1])
        if self.options.e_step == "regular":
            return joint, _softmax(joint)
        # The kernel is without the proportions, which are the columns: those of the step before.
        log_plan = self._transport(points, joint - log_proportions[..., None], log_proportions)
        return log_plan, np.exp(log_plan)

    def _m_step(
        self, points: Encodings, references: np.ndarray, log_proportions: np.ndarray, plan: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
        mass, sums = points.sums(plan)
        means = sums / (mass + 1e-6)[..., None]
        if mass.min() <= 1e-3:  # a component that no point wants stays where it is
            means = np.where(mass[..., None] > 1e-3, means, self.centres(references))
        if self.options.proportions == "free":
            log_proportions = points.log_shares(mass)
        if self.decoder.kind == "linear":
            return means, log_proportions
        return self._in_torch(self.decoder.m_step, references, means), log_proportions

    def _transport(self, points: Encodings, kernel: np.ndarray, log_columns: np.ndarray) -> np.ndarray:
        """Log of the Sinkhorn plan, (P, J, N)."""
        present = points.extended[..., -1] > 0
        log_rows = np.where(present, -np.log(points.n_points), -np.inf)
        log_rows = np.broadcast_to(log_rows, (len(kernel), kernel.shape[2])).copy()

        def log_plan(log_kernel: Tensor, log_rows: Tensor, log_columns: Tensor) -> Tensor:
            options = self.options
            assert options.sinkhorn_iterations is not None
            plan = sinkhorn(
                log_kernel, log_rows, log_columns, self.epsilon, options.sinkhorn_iterations, self.strictness
            )
            absent = torch.isneginf(log_rows).unsqueeze(-1)
            return torch.log_softmax(plan.masked_fill(absent, 0.0), dim=-1).transpose(1, 2)

        return self._in_torch(log_plan, kernel.transpose(0, 2, 1), log_rows, log_columns)

    def _in_torch(self, function: Callable[..., Tensor], *arrays: np.ndarray) -> np.ndarray:
        """What is rarely asked for exists in torch alone."""
        tensors = (torch.from_numpy(array).to(self.device) for array in arrays)
        result: np.ndarray = function(*tensors).cpu().numpy()
        return result


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities over the middle axis."""
    plan = scores - scores.max(axis=1, keepdims=True)
    np.exp(plan, out=plan)
    plan /= plan.sum(axis=1, keepdims=True)
    return plan
