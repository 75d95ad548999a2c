"""Warped Gaussians: noisy arcs of ellipses, Eq 16 of DAC (Lee, Lee & Teh 2019), App. D.

The equation leaves room; these are our readings.

- MoG_1(y): the position along the arc is r~_i ~ Normal(m_{y_i}, sigma_{y_i}^2) with m and sigma drawn
  as the mean and the standard deviation of Eq 13 in one dimension, and r = 0.8 pi r~ with pi = 3.14159...
- Noise across the arc: as printed, the points lie on a curve, where a density is infinite; the printed
  offset 0.1 (b cos r, a sin r) / sqrt(a^2 + b^2) points along the ellipse's normal, so we multiply it by
  eps_i ~ Normal(0, 1).
- a_j, b_j ~ Normal(0, sqrt 2): sqrt 2 is the variance, because Eq 13 writes variances.
- lambda_j ~ Normal(min(k, 4) [1, 1], I) would move all clusters of a data set together, so we read
  min(k, 4) as the scale: lambda_j = min(k, 4) Normal(0, I).

Under these readings the oracle's log-likelihood per point is about 0.0 for k_max = 4 and -0.8 for
k_max = 12. DAC prints -1.275 and -2.436 for its own network, so compare gaps to the oracle, not figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.base import Components, TaskBatch
from clusterwise.priors.ellipses import ellipse_normals
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.partitions import binomial_k

__all__ = ["WarpedComponents", "WarpedGaussians", "wrapped_normal_log_density"]

_TURN = 0.8 * np.pi  # r = _TURN * r~
_THICKNESS = 0.1
_AXIS_SD = 2.0**0.25
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
        unit = _THICKNESS / np.hypot(a, b)  # delta = unit * eps
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

    k, the weights and the labels are drawn as in Eq 13; ``mean_sd``, ``sd_median`` and ``sd_log_sd``
    are those of its one-dimensional mixture over positions along the arc.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_features != 2:
            raise RecipeError(
                f"Warped Gaussians are defined for n_features=2 only, but n_features is {self.n_features}."
            )

    def draw_k(self, rng: np.random.Generator, n_sets: int) -> np.ndarray:
        return binomial_k(rng, n_sets, self.k_max)

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        size = (n_sets, int(k.max()))
        angle_means = _TURN * rng.normal(0.0, self.mean_sd, size)
        angle_sds = _TURN * np.exp(rng.normal(np.log(self.sd_median), self.sd_log_sd, size))
        axes = rng.normal(0.0, _AXIS_SD, (*size, 2))
        rotations = rng.uniform(0.0, 2 * np.pi, size)
        shifts = np.minimum(k, _LARGEST_SHIFT_SD)[:, None, None] * rng.standard_normal((*size, 2))
        position, eps = rng.standard_normal((2, n_sets, n_points))

        own = (np.arange(n_sets)[:, None], labels)
        angle = angle_means[own] + angle_sds[own] * position
        a, b = np.moveaxis(axes[own], 2, 0)
        delta = _THICKNESS * eps / np.hypot(a, b)
        s = (a + delta * b) * np.cos(angle)
        t = (b + delta * a) * np.sin(angle)
        cosine, sine = np.cos(rotations)[own], np.sin(rotations)[own]
        points = np.stack([cosine * s - sine * t, sine * s + cosine * t], axis=2) + shifts[own]
        components = [
            WarpedComponents(
                *(array[i, : k[i]] for array in (weights, angle_means, angle_sds, axes, rotations, shifts))
            )
            for i in range(n_sets)
        ]
        return TaskBatch(points, labels, components)
