"""IntraCM of AMCP in numpy, for the paths of one data set: ``AMCP.intra_cluster_mixing`` without gradients.

Training unrolls the EM steps in torch. The cluster-wise loop runs them thousands of times on arrays so small
that a call of torch takes longer than its arithmetic; here a step is a few calls of numpy. Components come
before points, (P, J, N), for P paths, so that sums over components run along the points.
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
    from clusterwise.models.amcp import AMCP, Options

__all__ = ["NEVER", "Mixed", "PathsMixing"]

# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4


class Mixed(NamedTuple):
    """A mixture over the encodings of one data set, for each of P paths; the last component is the rest."""

    references: np.ndarray  # phi, (P, J, D)
    scores: np.ndarray  # log q up to a term that depends on the point alone, (P, J, N)
    plan: np.ndarray  # q, (P, J, N), sums to one over the components


class PathsMixing:
    """The EM steps of IntraCM over encodings x (N, D)."""

    def __init__(self, model: AMCP, x: np.ndarray, options: Options) -> None:
        self.x, self.options = x, options
        self.decoder, self.device = model.decoder, model.log_sd.device
        self.n_steps = options.n_em_steps or model.config.n_em_steps
        self.precision = math.exp(-2 * float(model.log_sd))
        self.extended = np.ones((len(x), x.shape[1] + 1), x.dtype)  # x and a one
        self.extended[:, :-1] = x
        # log p(x | c) = (x . c - |c|^2 / 2 - |x|^2 / 2) / sd^2. The last term depends on the point alone and
        # is left out, hence the constant density of the rest has the opposite.
        self.scaled = np.ascontiguousarray(x.T) * self.precision
        self.rest = 0.5 * self.precision * np.vecdot(x, x) + float(model.log_density_of_rest)

    def run(self, columns: np.ndarray, seeds: np.ndarray, k: int) -> Mixed:
        """T EM steps from ``columns`` (P, N), -1 for unassigned points; ``seeds`` (P,) start component k."""
        references, log_proportions = self._start(columns, seeds, k)
        scores, plan = self._e_step(references, log_proportions)
        for _ in range(self.n_steps - 1):
            references, log_proportions = self._m_step(references, log_proportions, plan)
            scores, plan = self._e_step(references, log_proportions)
        return Mixed(references, scores, plan)

    def centres(self, references: np.ndarray) -> np.ndarray:
        """f_theta(phi), (P, J, D)."""
        return references if self.decoder.kind == "linear" else self._in_torch(self.decoder, references)

    def _start(self, columns: np.ndarray, seeds: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """References (P, J, D) and log proportions (P, J) that the columns stand for."""
        codes = np.arange(k + 2, dtype=columns.dtype)
        codes[-1] = -1
        mass, sums = self._sums((columns[:, None, :] == codes[:, None]).astype(self.x.dtype))
        means = sums / np.maximum(mass, 1)[..., None]
        means[:, k] = self.x[seeds]
        # What is unassigned is half the new cluster's until the first E-step says more.
        mass[:, k:] = 0.5 * mass[:, -1:]
        references = means if self.decoder.kind == "linear" else self._in_torch(self.decoder.start, means)
        if self.options.proportions == "balanced":
            return references, np.full_like(mass, -math.log(k + 2))
        return references, self._log_shares(mass)

    def _e_step(self, references: np.ndarray, log_proportions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores and plan of Eq 4 or Eq 6, (P, J, N)."""
        centres = self.centres(references[:, :-1])
        joint = np.empty((*log_proportions.shape, len(self.x)), self.x.dtype)
        np.matmul(centres, self.scaled, out=joint[:, :-1])
        offsets = log_proportions[:, :-1] - 0.5 * self.precision * np.vecdot(centres, centres)
        joint[:, :-1] += offsets[..., None]
        np.add(self.rest, log_proportions[:, -1:], out=joint[:, -1])
        plan = _softmax(joint)
        if self.options.e_step == "regular":
            return joint, plan
        if self.options.proportions == "free":
            log_proportions = self._log_shares(self._sums(plan)[0])
        log_plan = self._transport(joint, log_proportions)
        return log_plan, np.exp(log_plan)

    def _m_step(
        self, references: np.ndarray, log_proportions: np.ndarray, plan: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
        mass, sums = self._sums(plan)
        means = sums / (mass + 1e-6)[..., None]
        if mass.min() <= 1e-3:  # a component that no point wants stays where it is
            means = np.where(mass[..., None] > 1e-3, means, self.centres(references))
        if self.options.proportions == "free":
            log_proportions = self._log_shares(mass)
        if self.decoder.kind == "linear":
            return means, log_proportions
        return self._in_torch(self.decoder.m_step, references, means), log_proportions

    def _sums(self, plan: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mass (P, J) of each component under a plan, and the sum of its encodings (P, J, D)."""
        sums = (plan.reshape(-1, len(self.x)) @ self.extended).reshape(*plan.shape[:2], -1)
        return sums[..., -1], sums[..., :-1]

    def _log_shares(self, mass: np.ndarray) -> np.ndarray:
        """Log proportions (P, J) of components with this mass; one without any gets no point ever."""
        if mass.min() > 1e-9:
            shares: np.ndarray = np.log(mass / len(self.x))
            return shares
        return np.where(mass > 0, np.log(np.maximum(mass, 1e-9) / len(self.x)), mass.dtype.type(NEVER))

    def _transport(self, joint: np.ndarray, log_columns: np.ndarray) -> np.ndarray:
        """Log of the Sinkhorn plan, (P, J, N)."""

        def plan(log_kernel: Tensor, log_columns: Tensor) -> Tensor:
            rows = torch.full_like(log_kernel[:, :, 0], -math.log(len(self.x)))
            options = self.options
            found = sinkhorn(log_kernel, rows, log_columns, options.epsilon, options.sinkhorn_iterations)
            return torch.log_softmax(found, dim=-1).transpose(1, 2)

        return self._in_torch(plan, joint.transpose(0, 2, 1), log_columns)

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
