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
from typing import NamedTuple

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.mixtures import MixturePrior
from clusterwise.priors.prior import Components, TaskBatch

__all__ = ["Normals", "WarpedComponents", "WarpedGaussians", "ellipse_normals", "wrapped_normal_log_density"]

_TURN = 0.8 * np.pi  # r = _TURN * r~
_THICKNESS = 0.1
_AXIS_SD = 2.0
_LARGEST_SHIFT_SD = 4
_MAX_STEPS = 100  # about 6 are usual; two nearly equal solutions converge linearly and need some 30
_TINY = 1e-100  # a point on an axis is treated as the limit of nearby points


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
    one-dimensional mixture over positions along the arc.
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


class Normals(NamedTuple):
    """The four normals through each point, each array (4, ...); a missing one has tau = inf.

    ``spread`` is a^2 sin^2 r + b^2 cos^2 r + tau, the Jacobian determinant of (r, delta) -> (s, t) up to
    its sign; it is 0 where two normals meet.
    """

    angle: np.ndarray
    tau: np.ndarray
    spread: np.ndarray


def _walk_from_pole(
    near: np.ndarray, far: np.ndarray, gap: np.ndarray, direction: int, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Solve (near / u)^2 + (far / (gap + direction u))^2 = 1 for u in [start, end]; all arrays (m,).

    ``u`` is the distance from the pole, which keeps its precision however close the solution is to it.
    """
    u = start.copy()
    active = np.arange(len(u))
    for _ in range(_MAX_STEPS):
        here = u[active]
        other = gap[active] + direction * here
        near_square = np.square(near[active] / here)
        far_square = np.square(far[active] / other)
        value = near_square + far_square
        slope = near_square / here + direction * far_square / other  # minus half the derivative of value
        ahead = (value > 1.0) & (slope > 0.0)  # false only where rounding has the last word
        step = np.zeros_like(here)
        np.divide(value * (np.sqrt(value) - 1.0), slope, out=step, where=ahead)
        u[active] = np.minimum(here + step, end[active])
        active = active[step > 1e-15 * here]
        if not len(active):
            break
    return u


def ellipse_normals(s: np.ndarray, t: np.ndarray, a: np.ndarray, b: np.ndarray) -> Normals:
    """All normals of the ellipses (a cos r, b sin r) through the points (s, t), all of one shape.

    ``a`` and ``b`` may have either sign but must not be 0.

    The point (s, t) lies on the normal of (a cos r, b sin r) at the angle r, that is
    (s, t) = (a cos r, b sin r) + delta (b cos r, a sin r), when, with tau = a b delta,

        cos r = a s / (a^2 + tau),    sin r = b t / (b^2 + tau),

    so the normals are the solutions tau of (a s / (a^2 + tau))^2 + (b t / (b^2 + tau))^2 = 1. There is one
    beyond each of the two poles -a^2 and -b^2, and between the poles there are two or none: four or two in
    all. Between poles the inverse square root of the left side is concave, so Newton's method on it, started
    on the pole's side of the solution, walks up to it without passing it. That needs no companion matrix, and
    it stays exact for circles (a = b) and for points on an axis, where a quartic in exp(ir) degenerates.
    """
    shape = s.shape
    s, t, a, b = (np.asarray(array, dtype=float).ravel() for array in (s, t, a, b))
    cosine_numerator = np.copysign(np.maximum(np.abs(a * s), _TINY), a * s)
    sine_numerator = np.copysign(np.maximum(np.abs(b * t), _TINY), b * t)
    swap = np.square(a) > np.square(b)  # below, "low" belongs to the smaller square and "high" to the larger
    low_square = np.where(swap, np.square(b), np.square(a))
    high_square = np.where(swap, np.square(a), np.square(b))
    low_numerator = np.where(swap, sine_numerator, cosine_numerator)
    high_numerator = np.where(swap, cosine_numerator, sine_numerator)
    low, high = np.abs(low_numerator), np.abs(high_numerator)
    gap = np.abs((a - b) * (a + b))

    # low_shift and high_shift are low_square + tau and high_square + tau.
    low_shift = np.ones((4, len(s)))
    high_shift = np.ones((4, len(s)))
    tau = np.full((4, len(s)), np.inf)
    unbounded = np.full(len(s), np.inf)

    u = _walk_from_pole(low, high, gap, 1, np.maximum(low, high - gap), unbounded)
    low_shift[0], high_shift[0], tau[0] = u, u + gap, u - low_square
    u = _walk_from_pole(high, low, gap, 1, np.maximum(high, low - gap), unbounded)
    low_shift[1], high_shift[1], tau[1] = -u - gap, -u, -u - high_square

    low_third, high_third = np.cbrt(np.square(low)), np.cbrt(np.square(high))
    inside = np.flatnonzero(low_third + high_third < np.cbrt(np.square(gap)))  # within the evolute
    low, high, gap = low[inside], high[inside], gap[inside]
    turn = gap * low_third[inside] / (low_third + high_third)[inside]  # least value between the poles
    u = _walk_from_pole(low, high, gap, -1, low, turn)
    low_shift[2, inside], high_shift[2, inside], tau[2, inside] = -u, gap - u, -u - low_square[inside]
    u = _walk_from_pole(high, low, gap, -1, high, gap - turn)
    low_shift[3, inside], high_shift[3, inside], tau[3, inside] = u - gap, u, u - high_square[inside]

    cosine = cosine_numerator / np.where(swap, high_shift, low_shift)
    sine = sine_numerator / np.where(swap, low_shift, high_shift)
    angle = np.arctan2(sine, cosine)
    spread = np.where(swap, high_shift, low_shift) * np.square(np.sin(angle))
    spread += np.where(swap, low_shift, high_shift) * np.square(np.cos(angle))
    return Normals(*(array.reshape(4, *shape) for array in (angle, tau, spread)))
