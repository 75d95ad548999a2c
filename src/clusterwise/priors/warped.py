"""Warped Gaussians: noisy arcs of ellipses, Eq 16 of DAC (Lee, Lee & Teh 2019), App. D.

The equation leaves room. Where it does, the prior follows the generator that the authors published.

- The weights have Dirichlet parameter 5; the paper does not print it.
- MoG_1(y): the position along the arc is r~_i ~ Normal(m_{y_i}, sigma_{y_i}^2) with m and sigma drawn
  as the mean and the standard deviation of Eq 13 in one dimension, and r = 0.8 pi r~ with pi = 3.14159...
- Noise across the arc: as printed, the points lie on a curve, where a density is infinite. The offset is
  0.1 eps_i along the unit normal (b cos r, a sin r) / sqrt(b^2 cos^2 r + a^2 sin^2 r), eps_i ~ Normal(0, 1).
- a_j, b_j ~ Normal(0, 2^2).
- lambda_j ~ Normal(min(k, 4) [1, 1], I) would move all clusters of a data set together: min(k_max, 4) is
  the scale, lambda_j = min(k_max, 4) Normal(0, I).

The oracle's log-likelihood per point is -1.11 +- 0.03 for k_max = 4 and -2.07 +- 0.02 for k_max = 12
(400 data sets). DAC prints -1.275
and -2.436 for its own network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.base import Components, TaskBatch
from clusterwise.priors.ellipses import ellipse_normals
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.partitions import binomial_k, uniform_k

__all__ = ["WarpedComponents", "WarpedGaussians", "wrapped_normal_log_density"]

_TURN = 0.8 * np.pi  # r = _TURN * r~
_THICKNESS = 0.1
_AXIS_SD = 2.0
_LARGEST_SHIFT_SD = 4


def wrapped_normal_log_density(angles: np.ndarray, means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Return the log density at ``angles`` (..., K) of Normal(means, sds^2) modulo 2 pi; both are (K,)."""
    nearest = np.remainder(angles - means + np.pi, 2 * np.pi) - np.pi
    n_turns = 1 + int(np.ceil(8 * np.max(sds) / (2 * np.pi)))  # the terms left out are below exp(-32)
    total = np.full(nearest.shape, -np.inf)
    for turn in range(-n_turns, n_turns + 1):
        total = np.logaddexp(total, -0.5 * np.square((nearest + 2 * np.pi * turn) / sds))
    log_density: np.ndarray = total - np.log(sds) - 0.5 * np.log(2 * np.pi)
    return log_density


@dataclass(frozen=True)
class WarpedComponents(Components):
    """The true arcs behind one data set of warped Gaussians.

    The density is exact: a point is reached from every (r, eps) whose normal passes through it, so the
    densities of all of them are summed, each divided by its Jacobian.
    """

    weights: np.ndarray  # (K,)
    angle_means: np.ndarray  # (K,) of r
    angle_sds: np.ndarray  # (K,) of r
    axes: np.ndarray  # (K, 2): a and b
    rotations: np.ndarray  # (K,)
    shifts: np.ndarray  # (K, 2)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        x, y = np.moveaxis(points[:, None, :] - self.shifts, 2, 0)
        cosine, sine = np.cos(self.rotations), np.sin(self.rotations)
        a, b = self.axes.T
        normals = ellipse_normals(
            cosine * x + sine * y,
            cosine * y - sine * x,
            np.broadcast_to(a, x.shape),
            np.broadcast_to(b, x.shape),
        )
        length = np.hypot(b * np.cos(normals.angle), a * np.sin(normals.angle))  # of (b cos r, a sin r)
        unit = _THICKNESS / length  # delta = unit * eps, and unit depends on r only
        eps = normals.tau / (a * b * unit)
        jacobian = np.maximum(np.abs(normals.spread) * unit, np.finfo(float).tiny)
        log_terms = (
            wrapped_normal_log_density(normals.angle, self.angle_means, self.angle_sds)
            - 0.5 * np.square(eps)
            - 0.5 * np.log(2 * np.pi)
            - np.log(jacobian)
        )
        log_density: np.ndarray = np.logaddexp.reduce(log_terms, axis=0)
        return log_density


@dataclass(frozen=True)
class WarpedGaussians(MixturePrior):
    """DAC Eq 16, which is defined in two dimensions only; the module says how we read it.

    k and the labels are drawn as in Eq 13; ``mean_sd``, ``sd_median`` and ``sd_log_sd`` are those of its
    one-dimensional mixture over positions along the arc. ``k_law="uniform"`` draws k uniformly from
    1 .. k_max instead, for training on larger k.
    """

    concentration: float = 5.0
    k_law: Literal["binomial", "uniform"] = "binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_features != 2:
            raise RecipeError(
                f"Warped Gaussians are defined for n_features=2 only, but n_features is {self.n_features}."
            )

    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        return (uniform_k if self.k_law == "uniform" else binomial_k)(rng, n_sets, self.k_max)

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        size = (n_sets, int(k.max()))
        angle_means = _TURN * rng.normal(0.0, self.mean_sd, size)
        angle_sds = _TURN * np.exp(rng.normal(np.log(self.sd_median), self.sd_log_sd, size))
        axes = rng.normal(0.0, _AXIS_SD, (*size, 2))
        rotations = rng.uniform(0.0, 2 * np.pi, size)
        shifts = min(self.k_max, _LARGEST_SHIFT_SD) * rng.standard_normal((*size, 2))
        position, eps = rng.standard_normal((2, n_sets, n_points))

        own = (np.arange(n_sets)[:, None], labels)
        angle = angle_means[own] + angle_sds[own] * position
        a, b = np.moveaxis(axes[own], 2, 0)
        along, across = np.cos(angle), np.sin(angle)
        delta = _THICKNESS * eps / np.hypot(b * along, a * across)
        s = (a + delta * b) * along
        t = (b + delta * a) * across
        cosine, sine = np.cos(rotations)[own], np.sin(rotations)[own]
        points = np.stack([cosine * s - sine * t, sine * s + cosine * t], axis=2) + shifts[own]
        components = [
            WarpedComponents(
                *(array[i, : k[i]] for array in (weights, angle_means, angle_sds, axes, rotations, shifts))
            )
            for i in range(n_sets)
        ]
        return TaskBatch(points, labels, components)
