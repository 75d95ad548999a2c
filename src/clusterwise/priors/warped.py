"""Warped Gaussians: noisy arcs of ellipses, and their oracle.

A point (x, y) in the frame of the ellipse (a cos r, b sin r) comes from every angle r whose normal goes
through it; the densities of all of them are summed, each divided by the Jacobian of (r, offset along the
normal). The offset is tau / (a b) times the length of (b cos r, a sin r), and ::

    cos r = a x / (a^2 + tau)    sin r = b y / (b^2 + tau)    cos^2 r + sin^2 r = 1.

One solution tau lies beyond each of the poles -a^2 and -b^2, and two or none between them. The inverse
square root of cos^2 r + sin^2 r is concave between poles: Newton's method on it, started on the pole's side
of a solution, walks up to it without passing it. It is exact for circles and points on an axis, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.prior import Components, TaskBatch

__all__ = ["WarpedComponents", "WarpedGaussians", "ellipse_normals"]

# r over r~, standard deviations of noise and half-axes, and the largest one of shifts.
TURN, THICKNESS, AXIS_SD, MAX_SHIFT_SD = 0.8 * np.pi, 0.1, 2.0, 4
# Standard deviations that an angle may lie from its mean: the terms left out are below exp(-32).
REACH = 8.0
# About 6 steps of Newton's method are typical; two nearly equal solutions need some 30.
MAX_STEPS = 100
# A point on an axis is treated as the limit of nearby points.
TINY = 1e-100
# Of the four normals: beyond both poles of tau or between them, and whether tau grows from the near pole.
BEYOND = np.array([1.0, 1.0, -1.0, -1.0])[:, None, None]
UPWARDS = np.array([1.0, -1.0, -1.0, 1.0])[:, None, None]


@dataclass(frozen=True)
class WarpedComponents(Components):
    """The true arcs behind one data set of warped Gaussians; their density is exact."""

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
        angle, tau, spread = ellipse_normals(cosine * x + sine * y, cosine * y - sine * x, a, b)
        length = np.hypot(b * np.cos(angle), a * np.sin(angle))
        eps = tau * length / (a * b * THICKNESS)
        jacobian = np.maximum(np.abs(spread) * THICKNESS / length, np.finfo(float).tiny)
        log_terms = self._log_density_of_angles(angle) - 0.5 * np.square(eps) - np.log(jacobian)
        log_density: np.ndarray = np.logaddexp.reduce(log_terms, axis=0) - np.log(2 * np.pi)
        return log_density

    def _log_density_of_angles(self, angle: np.ndarray) -> np.ndarray:
        """Log density of angles (..., K) modulo 2 pi, times the root of 2 pi."""
        nearest = np.remainder(angle - self.angle_means + np.pi, 2 * np.pi) - np.pi
        n_turns = 1 + int(np.ceil(REACH * self.angle_sds.max() / (2 * np.pi)))
        total = np.full(angle.shape, -np.inf)
        for turn in range(-n_turns, n_turns + 1):
            np.logaddexp(total, -0.5 * np.square((nearest + 2 * np.pi * turn) / self.angle_sds), out=total)
        log_density: np.ndarray = total - np.log(self.angle_sds)
        return log_density


@dataclass(frozen=True)
class WarpedGaussians(MixturePrior):
    """Noisy arcs of ellipses, DAC Eq 16, which is defined in two dimensions only.

    k and the labels are drawn as in Eq 13; ``mean_sd``, ``sd_median`` and ``sd_log_sd`` are those of its
    one-dimensional mixture over positions along the arc. The equation leaves room. Where it does, the prior
    follows the generator that the authors published.

    - The weights have Dirichlet parameter 5; the paper does not print it.
    - MoG_1(y): the position along the arc is r~_i ~ Normal(m_{y_i}, sigma_{y_i}^2) with m and sigma drawn
      as the mean and the standard deviation of Eq 13 in one dimension, and r = 0.8 pi r~ with pi = 3.14159...
    - Noise across the arc: as printed, the points lie on a curve, where a density is infinite. The offset is
      0.1 eps_i, eps_i ~ Normal(0, 1), along the unit normal
      (b cos r, a sin r) / sqrt(b^2 cos^2 r + a^2 sin^2 r).
    - a_j, b_j ~ Normal(0, 2^2).
    - lambda_j ~ Normal(min(k, 4) [1, 1], I) would move all clusters of a data set together: min(k_max, 4) is
      the scale, lambda_j = min(k_max, 4) Normal(0, I).

    The oracle's log-likelihood per point is -1.11 +- 0.03 for k_max = 4 and -2.07 +- 0.02 for k_max = 12
    (400 data sets). DAC prints -1.275 and -2.436 for its own network.
    """

    concentration: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_features != 2:
            raise RecipeError(
                f"Warped Gaussians are defined for n_features=2 only, but n_features is {self.n_features}."
            )

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        k, weights, labels = self.draw_labels(rng, n_sets, n_points)
        size = (n_sets, int(k.max()))
        angle_means = TURN * rng.normal(0.0, self.mean_sd, size)
        angle_sds = TURN * np.exp(rng.normal(np.log(self.sd_median), self.sd_log_sd, size))
        axes = rng.normal(0.0, AXIS_SD, (*size, 2))
        rotations = rng.uniform(0.0, 2 * np.pi, size)
        shifts = min(self.k_max, MAX_SHIFT_SD) * rng.standard_normal((*size, 2))
        position, eps = rng.standard_normal((2, n_sets, n_points))

        own = (np.arange(n_sets)[:, None], labels)
        angle = angle_means[own] + angle_sds[own] * position
        a, b = np.moveaxis(axes[own], 2, 0)
        along, across = np.cos(angle), np.sin(angle)
        delta = THICKNESS * eps / np.hypot(b * along, a * across)
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


def ellipse_normals(
    x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Angles r, tau and spreads (4, n, K) of all normals of K ellipses (a, b) through points x, y (n, K).

    A missing normal has tau = inf. The spread a^2 sin^2 r + b^2 cos^2 r + tau is zero where two normals
    meet. Half-axes a, b (K,) may have either sign but must not be 0.
    """
    cosine, sine = (np.copysign(np.maximum(np.abs(v), TINY), v) for v in (a * x, b * y))
    # Two normals beyond the poles, two between them, each sought from the pole next to it: -a^2 or -b^2.
    upper_is_a = np.broadcast_to(np.square(a) <= np.square(b), x.shape)
    is_a = np.stack([upper_is_a, ~upper_is_a, upper_is_a, ~upper_is_a])
    near, far = np.where(is_a, cosine, sine), np.where(is_a, sine, cosine)
    gap = BEYOND * np.abs((a - b) * (a + b)) + np.zeros(near.shape)
    near_root, far_root, gap_root = np.cbrt(np.square([near, far, gap]))
    exists = (gap_root > near_root + far_root) | (BEYOND > 0)  # between the poles: within the evolute
    end = np.where(BEYOND > 0, np.inf, np.abs(gap) * near_root / (near_root + far_root))
    u = _walk_from_pole(np.abs(near[exists]), np.abs(far[exists]), gap[exists], end[exists])

    near_shift, far_shift, tau = np.ones(near.shape), np.ones(near.shape), np.full(near.shape, np.inf)
    upwards = np.broadcast_to(UPWARDS, near.shape)[exists]
    near_shift[exists], far_shift[exists] = upwards * u, upwards * (u + gap[exists])
    tau[exists] = (near_shift - np.square(np.where(is_a, a, b)))[exists]
    near, far = near / near_shift, far / far_shift
    angle = np.arctan2(np.where(is_a, far, near), np.where(is_a, near, far))
    near, far = np.square(near), np.square(far)
    return angle, tau, (near_shift * far + far_shift * near) / (near + far)


def _walk_from_pole(near: np.ndarray, far: np.ndarray, gap: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Solutions u (m,) of (near / u)^2 + (far / (u + gap))^2 = 1 up to ``end`` (m,).

    ``u`` is the distance from a pole, which keeps its precision however close the solution is to it.
    """
    u, active = np.maximum(near, far - np.abs(gap)), np.arange(len(near))
    for _ in range(MAX_STEPS):
        here, there = u[active], u[active] + gap[active]
        near_square, far_square = np.square(near[active] / here), np.square(far[active] / there)
        value = near_square + far_square
        slope = near_square / here + far_square / there  # minus half the derivative of value
        ahead = (value > 1.0) & (slope > 0.0)  # false only where rounding has the last word
        step = np.zeros(len(active))
        np.divide(value * (np.sqrt(value) - 1.0), slope, out=step, where=ahead)
        u[active] = np.minimum(here + step, end[active])
        active = active[step > 1e-15 * here]
        if len(active) == 0:
            break
    return u
