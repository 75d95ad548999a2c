"""Every normal of an ellipse that passes through a given point.

The point (s, t) lies on the normal of (a cos r, b sin r) at the angle r, that is
(s, t) = (a cos r, b sin r) + delta (b cos r, a sin r), when, with tau = a b delta,

    cos r = a s / (a^2 + tau),    sin r = b t / (b^2 + tau),

so the normals are the solutions tau of (a s / (a^2 + tau))^2 + (b t / (b^2 + tau))^2 = 1. There is one
beyond each of the two poles -a^2 and -b^2, and between the poles there are two or none: four or two in
all. Between poles the inverse square root of the left side is concave, so Newton's method on it, started
on the pole's side of the solution, walks up to it without passing it. That needs no companion matrix, and
it stays exact for circles (a = b) and for points on an axis, where a quartic in exp(ir) degenerates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Normals", "ellipse_normals"]

_MAX_STEPS = 100  # about 6 are usual; two nearly equal solutions converge linearly and need some 30
_TINY = 1e-100  # a point on an axis is treated as the limit of nearby points


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
    """Find all normals of the ellipses (a cos r, b sin r) through the points (s, t), all of one shape.

    ``a`` and ``b`` may have either sign but must not be 0.
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
