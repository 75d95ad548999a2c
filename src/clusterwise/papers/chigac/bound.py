"""Five ways to infer the cluster vector z of CHiGac while training (section 3.4), behind one function.

A network gives variational parameters psi_0 = (mean, b) of q(z | h, S_I), with standard deviation
sigma_0 exp(-b / 2). The strategies differ in what they make of psi_0 before theta and phi are updated:

==================  ====================================  ================================================
``inference``       psi                                   objective
==================  ====================================  ================================================
``amortized``       psi_0                                 ELBO(psi_0) for theta and phi
``semi-amortized``  M steps of SVI from psi_0             ELBO(psi_M) for both, through the M steps
``iterative``       M steps of a learned update of psi_0  mean of ELBO(psi_0 .. psi_M) for both
``svi``             M steps of SVI from psi_0             ELBO(psi_M) for theta, ELBO(psi_0) for phi
``ergodic``         M steps of SVI from psi_0             log mean_m w_m for theta, ELBO(psi_0) for phi
==================  ====================================  ================================================

with w_m = p(h, z_m) / q(z_m; psi_m). In the last two phi and theta have objectives of their own; what the
other one owns is a constant. Jensen's inequality puts log mean_m w_m above the mean of the ELBOs along the
path, so it is not below ELBO(psi_0) as long as the steps do not lead down.

Readings of ours. (1) A step of SVI follows the natural gradient, as SVI does: sigma^2 dL/dmean and
2 dL/db, the latter clipped. The plain gradient of Algorithm 1 needs another step size for every number of
points. (2) The noise of the M + 1 samples is drawn once, so that a path is a function of psi_0.
(3) The KL divergence to the prior has a closed form and is used wherever a single sample is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "STRATEGIES",
    "Gaussian",
    "Scene",
    "Strategy",
    "elbo",
    "learned_path",
    "log_likelihood",
    "log_weight",
    "objective",
    "svi_path",
]

Strategy = Literal["amortized", "semi-amortized", "iterative", "svi", "ergodic"]
STRATEGIES: tuple[Strategy, ...] = ("amortized", "semi-amortized", "iterative", "svi", "ergodic")

# Temperature tau of the cosines and scale sigma_0 of the cluster vectors, as printed.
TAU = 0.1
SIGMA_0 = 0.1
# Largest change of b in one step of SVI: a factor exp(1 / 4) of the standard deviation.
LARGEST_CHANGE = 0.5
HALF_LOG_TWO_PI = 0.9189385332046727

Update = Callable[["Gaussian", "Gaussian"], "Gaussian"]


class Gaussian(NamedTuple):
    """Diagonal Gaussians over cluster vectors: mean (..., D) and b (..., D), sd = sigma_0 exp(-b / 2)."""

    mean: Tensor
    b: Tensor

    @property
    def sd(self) -> Tensor:
        return SIGMA_0 * torch.exp(-0.5 * self.b)

    def at(self, noise: Tensor) -> Tensor:
        """The reparameterized sample that belongs to standard normal ``noise``."""
        return self.mean + self.sd * noise

    def log_density(self, z: Tensor) -> Tensor:
        standardized = (z - self.mean) / self.sd
        return (-0.5 * standardized.square() - torch.log(self.sd) - HALF_LOG_TWO_PI).sum(-1)

    def detached(self) -> Gaussian:
        return Gaussian(self.mean.detach(), self.b.detach())


class Scene(NamedTuple):
    """All that the decoder (Eq 13) and the prior need for S clusters in each of R data sets: theta's side.

    The logit of membership is ``scale * s + offset + out . relu(hidden + slope * s)`` with
    s = cos(e_i, z) / tau: a multilayer perceptron of s and of the point's context.
    """

    sphere: Tensor  # (R, N, D), e_i on the unit sphere
    hidden: Tensor  # (R, N, H)
    offset: Tensor  # (R, N)
    slope: Tensor  # (H,)
    out: Tensor  # (H,)
    scale: Tensor  # ()
    prior: Gaussian  # (R, S, D)
    target: Tensor  # (R, S, N), h: one for members
    counts: Tensor  # (R, S, N), one where a point takes part: left over, and not the pioneer

    def detached(self) -> Scene:
        """The same as constants."""
        parts = {name: getattr(self, name).detach() for name in self._fields if name != "prior"}
        return Scene(prior=self.prior.detached(), **parts)

    def logits(self, z: Tensor) -> Tensor:
        """Membership logits (R, S, N) for cluster vectors z (R, S, D)."""
        return self.logits_along(functional.normalize(z, dim=-1))

    def typical_direction(self) -> Tensor:
        """The mean of the prior, (R, S, D), divided by the length that draws of it have.

        Noise makes a cluster vector longer, and so all cosines smaller, than its mean alone is.
        """
        length = (self.prior.mean.square() + self.prior.sd.square()).sum(-1, keepdim=True).sqrt()
        return self.prior.mean / length

    def logits_along(self, direction: Tensor) -> Tensor:
        """Membership logits (R, S, N) for cluster vectors that were normalized already, (R, S, D)."""
        s = direction @ self.sphere.transpose(1, 2) / TAU
        bent = torch.relu(self.hidden.unsqueeze(1) + s.unsqueeze(-1) * self.slope) @ self.out
        return self.scale * s + self.offset.unsqueeze(1) + bent


def log_likelihood(scene: Scene, z: Tensor) -> Tensor:
    """log p(h | z, S_I), summed over the points that take part, (R, S)."""
    logits = scene.logits(z)
    return ((scene.target * logits - functional.softplus(logits)) * scene.counts).sum(-1)


def _divergence(q: Gaussian, p: Gaussian) -> Tensor:
    """KL(q, p), (R, S)."""
    variance_ratio = torch.exp(p.b - q.b)
    shift = (q.mean - p.mean).square() / p.sd.square()
    return 0.5 * (variance_ratio + shift - 1 + q.b - p.b).sum(-1)


def elbo(scene: Scene, psi: Gaussian, noise: Tensor) -> Tensor:
    """One-sample estimate of the bound on log p(h | S_I), (R, S); ``noise`` is (R, S, D)."""
    return log_likelihood(scene, psi.at(noise)) - _divergence(psi, scene.prior)


def log_weight(scene: Scene, psi: Gaussian, noise: Tensor) -> Tensor:
    """log w = log p(h, z) - log q(z) at the sample that belongs to ``noise``, (R, S)."""
    z = psi.at(noise)
    return log_likelihood(scene, z) + scene.prior.log_density(z) - psi.log_density(z)


def _natural_gradient(scene: Scene, psi: Gaussian, noise: Tensor, create_graph: bool) -> Gaussian:
    """Gradient of the bound by the mean and by b, in the metric of the Gaussian."""
    with torch.enable_grad():
        free = psi if create_graph else Gaussian(*(part.detach().requires_grad_() for part in psi))
        value = elbo(scene, free, noise).sum()
        by_mean, by_b = torch.autograd.grad(value, tuple(free), create_graph=create_graph)
    change = (2 * by_b).clamp(-LARGEST_CHANGE, LARGEST_CHANGE)
    return Gaussian(by_mean * free.sd.square(), change)


def svi_path(
    scene: Scene, psi: Gaussian, noise: Tensor, rate: float, create_graph: bool = False
) -> list[Gaussian]:
    """psi_0 .. psi_M by ascent of the bound (lines 4-10 of Algorithm 1); ``noise`` is (M + 1, R, S, D).

    Without ``create_graph`` the path is a constant; with it, gradients flow through the steps.
    """
    path = [psi]
    for of_step in noise[:-1]:
        gradient = _natural_gradient(scene, path[-1], of_step, create_graph)
        path.append(Gaussian(*(part + rate * g for part, g in zip(path[-1], gradient, strict=True))))
    return path


def learned_path(scene: Scene, psi: Gaussian, noise: Tensor, update: Update) -> list[Gaussian]:
    """psi_0 .. psi_M where a network reads psi and the gradient of the bound (Marino et al. 2018)."""
    path = [psi]
    for of_step in noise[:-1]:
        gradient = _natural_gradient(scene, path[-1].detached(), of_step, create_graph=False)
        path.append(update(path[-1], gradient.detached()))
    return path


def objective(
    strategy: Strategy, scene: Scene, psi: Gaussian, noise: Tensor, rate: float, update: Update | None = None
) -> Tensor:
    """The objective of theta and phi, (R, S): the strategy's bound, with the gradients that it prescribes.

    ``noise`` (M + 1, R, S, D) holds the samples; ``update`` is the learned update of ``iterative``.
    """
    if strategy == "amortized":
        return elbo(scene, psi, noise[0])
    if strategy == "semi-amortized":
        return elbo(scene, svi_path(scene, psi, noise, rate, create_graph=True)[-1], noise[-1])
    if strategy == "iterative":
        if update is None:
            raise ValueError("iterative inference needs a learned update")
        path = learned_path(scene, psi, noise, update)
        return torch.stack([elbo(scene, p, n) for p, n in zip(path, noise, strict=True)]).mean(0)
    fixed = scene.detached()
    path = svi_path(fixed, psi.detached(), noise, rate)
    if strategy == "svi":
        of_theta = elbo(scene, path[-1], noise[-1])
    else:
        weights = torch.stack([log_weight(scene, p, n) for p, n in zip(path, noise, strict=True)])
        of_theta = torch.logsumexp(weights, dim=0) - torch.log(torch.tensor(float(len(path))))
    of_phi = elbo(fixed, psi, noise[0])
    return of_theta + of_phi - of_phi.detach()
