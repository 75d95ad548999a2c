"""The shapes of single clusters: blobs of many laws, and curves, outlines and sheets with some thickness.

A shape is drawn around the origin at a scale of about 1. What the clusters of one table have in common is
their ``Style``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterwise.priors.broad.labelled_table import log_uniform

__all__ = [
    "BLOBS",
    "SHAPES",
    "Style",
    "along_path",
    "directions",
    "draw_family",
    "draw_shape",
    "draw_style",
    "embed",
    "frame",
    "rotate",
]

_EXACT_UP_TO = 6  # beyond this a product of reflections is random enough, and much cheaper


def directions(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Draw n unit vectors; shape (n, d)."""
    vectors = rng.standard_normal((n, d))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-300
    return vectors


def frame(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    """Draw m <= d orthonormal directions; shape (m, d)."""
    basis: np.ndarray = np.linalg.qr(rng.standard_normal((d, m)))[0].T
    return basis


def rotate(rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
    """Turn points (n, d) in a random way."""
    d = points.shape[1]
    if d == 1:
        return points if rng.random() < 0.5 else -points
    if d <= _EXACT_UP_TO:
        return points @ frame(rng, d, d)
    for mirror in directions(rng, 4, d):
        points = points - np.outer(2 * (points @ mirror), mirror)
    return points


def embed(rng: np.random.Generator, points: np.ndarray, d: int) -> np.ndarray:
    """Place points (n, m) into a random m-dimensional subspace of d >= m dimensions."""
    return points @ frame(rng, points.shape[1], d)


@dataclass(frozen=True)
class Style:
    """What clusters of one kind have in common."""

    elongation: float  # log of the largest ratio of the axes of a blob
    tilted: bool  # whether blobs are turned away from the axes
    thickness: float  # of curves, as a share of their radius
    tail: float  # degrees of freedom of a Student-t; the smaller the heavier
    skew: float  # sd of the logarithm of a lognormal
    turn: float  # of arcs, in radians


def draw_style(rng: np.random.Generator) -> Style:
    """Draw a style."""
    return Style(
        elongation=(0.0, 0.5, 1.2, 2.5, 4.0)[rng.integers(5)],
        tilted=bool(rng.random() < 0.75),
        thickness=log_uniform(rng, 0.02, 0.25),
        tail=(2.5, 4.0, 8.0)[rng.integers(3)],
        skew=rng.uniform(0.3, 0.9),
        turn=np.pi * (0.6, 1.0, 1.4, 1.8)[rng.integers(4)],
    )


def _stretch(rng: np.random.Generator, points: np.ndarray, style: Style) -> np.ndarray:
    """Scale the axes and turn them."""
    d = points.shape[1]
    if style.elongation > 0:
        points = points * np.exp(rng.uniform(-style.elongation, 0.0, d))
        points /= np.exp(-0.5 * style.elongation)
    return rotate(rng, points) if style.tilted else points


def _gaussian(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    return _stretch(rng, rng.standard_normal((n, d)), style)


def _student(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """A multivariate Student-t, whose rows share a scale, or independent columns."""
    normal = rng.standard_normal((n, d))
    shape = (n, 1) if rng.random() < 0.5 else (n, d)
    scale = np.sqrt(rng.chisquare(style.tail, shape) / style.tail)
    return _stretch(rng, 0.6 * np.clip(normal / scale, -30, 30), style)


def _box(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    return _stretch(rng, rng.uniform(-1.7, 1.7, (n, d)), style)


def _ball(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    radii = np.sqrt(d + 2) * rng.random((n, 1)) ** (1 / d)
    return _stretch(rng, radii * directions(rng, n, d), style)


def _wedge(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """A box that is filled more and more densely toward one side, or tapers toward it."""
    points = rng.uniform(-1.7, 1.7, (n, d))
    along = rng.random(n) ** rng.uniform(0.35, 0.8)
    points[:, 0] = 3.4 * along - 1.7
    if d > 1 and rng.random() < 0.4:
        points[:, 1:] *= along[:, None]
    return _stretch(rng, points, style)


def _exponential(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    return _stretch(rng, rng.standard_exponential((n, d)) - 1, style)


def _lognormal(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    skewed = np.exp(style.skew * rng.standard_normal((n, d)))
    return _stretch(rng, (skewed - 1) / style.skew, style)


def _thicken(rng: np.random.Generator, points: np.ndarray, style: Style, d: int) -> np.ndarray:
    """Lift a thin shape (n, m) to d dimensions, and add noise around it.

    In many dimensions the noise of each column is smaller, so that the thickness stays the same.
    """
    embedded = points if points.shape[1] == d and d <= 2 else embed(rng, points, d)
    return embedded + style.thickness * np.sqrt(min(1.0, 2 / d)) * rng.standard_normal((len(points), d))


def _ellipse(rng: np.random.Generator, angles: np.ndarray) -> np.ndarray:
    """Points (n, 2) of an ellipse in a random position."""
    flat = rng.uniform(0.5, 1.0)
    start = rng.uniform(0, 2 * np.pi)
    x, y = 1.6 * np.cos(angles), 1.6 * flat * np.sin(angles)
    return np.column_stack(
        [np.cos(start) * x - np.sin(start) * y, np.sin(start) * x + np.cos(start) * y],
    )


def _arc(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    points = _ellipse(rng, rng.uniform(0, 2 * np.pi) + rng.uniform(0, style.turn, n))
    return _thicken(rng, points - points.mean(axis=0), style, d)


def _ring(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    return _thicken(rng, _ellipse(rng, rng.uniform(0, 2 * np.pi, n)), style, d)


def _segment(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    return _thicken(rng, np.outer(rng.uniform(-2, 2, n), directions(rng, 1, d)), style, d)


def _curve(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """A smooth curve: a line bent by a few slow waves."""
    t = rng.uniform(-1.5, 1.5, n)
    basis = np.column_stack([t, 0.5 * t**2, 0.4 * np.sin(2 * t), 0.2 * np.cos(3 * t)])
    points = basis @ rng.standard_normal((4, d))
    return _thicken(rng, points - points.mean(axis=0), style, d)


def _spiral(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    end = rng.uniform(1.5, 3.2) * np.pi
    t = np.sqrt(rng.uniform(0.3, end**2, n))  # even along the curve
    angles = t + rng.uniform(0, 2 * np.pi)
    points = (2.2 / end) * t[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return _thicken(rng, points, replace(style, thickness=min(style.thickness, 0.12)), d)


def along_path(rng: np.random.Generator, n: int, corners: np.ndarray) -> np.ndarray:
    """Draw n points, even along the polyline through ``corners`` (m, d)."""
    steps = np.diff(corners, axis=0)
    ends = np.cumsum(np.linalg.norm(steps, axis=1))
    place = rng.uniform(0, ends[-1], n)
    piece = np.minimum(np.searchsorted(ends, place), len(steps) - 1)
    starts = np.concatenate([[0.0], ends[:-1]])
    part = (place - starts[piece]) / np.maximum(ends - starts, 1e-12)[piece]
    points: np.ndarray = corners[piece] + part[:, None] * steps[piece]
    return points


def _strokes(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """A letter: a few straight strokes, each from the end of the last one."""
    m = min(d, 2)
    turns = np.cumsum(rng.choice([-1, 1], 3) * rng.uniform(0.6, 2.2, 3))[: rng.integers(2, 4)]
    steps = np.column_stack([np.cos(turns), np.sin(turns)])[:, :m] * rng.uniform(1.0, 2.2, (len(turns), 1))
    corners = np.concatenate([np.zeros((1, m)), np.cumsum(steps, axis=0)])
    points = along_path(rng, n, corners)
    return _thicken(rng, rotate(rng, points - corners.mean(axis=0)), style, d)


def _hollow(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """The surface of a box or of a ball."""
    m = min(d, 3)
    if rng.random() < 0.5:
        surface = 1.6 * directions(rng, n, m)
    else:
        surface = rng.uniform(-1.4, 1.4, (n, m))
        surface[np.arange(n), rng.integers(0, m, n)] = 1.4 * rng.choice([-1.0, 1.0], n)
    return _thicken(rng, surface * rng.uniform(0.6, 1.0, m), style, d)


def _sheet(rng: np.random.Generator, n: int, d: int, style: Style) -> np.ndarray:
    """A curved manifold of 1 to 3 dimensions: the output of a random network."""
    inner = int(rng.integers(1, min(3, d) + 1))
    latent = rng.uniform(-1, 1, (n, inner)) if rng.random() < 0.5 else 0.6 * rng.standard_normal((n, inner))
    hidden = np.tanh(latent @ rng.normal(0, 1.5, (inner, 8)) + rng.normal(0, 0.5, 8))
    points = hidden @ rng.normal(0, 0.5, (8, d))
    return _thicken(rng, points - points.mean(axis=0), style, d) if d > 1 else points


# How often each shape is drawn, and how; the first ones exist in one dimension too.
_BLOBS = {
    "gaussian": (0.36, _gaussian),
    "student": (0.10, _student),
    "box": (0.08, _box),
    "ball": (0.05, _ball),
    "wedge": (0.04, _wedge),
    "exponential": (0.05, _exponential),
    "lognormal": (0.05, _lognormal),
}
_SHAPES = _BLOBS | {
    "arc": (0.08, _arc),
    "ring": (0.03, _ring),
    "segment": (0.05, _segment),
    "curve": (0.05, _curve),
    "spiral": (0.015, _spiral),
    "strokes": (0.03, _strokes),
    "hollow": (0.025, _hollow),
    "sheet": (0.03, _sheet),
}
BLOBS, SHAPES = list(_BLOBS), list(_SHAPES)


def draw_family(rng: np.random.Generator, d: int) -> str:
    """Draw the name of a shape that exists in d dimensions."""
    names = BLOBS if d == 1 else SHAPES
    ends = np.cumsum([_SHAPES[name][0] for name in names])
    return names[int(np.searchsorted(ends, rng.random() * ends[-1], side="right").clip(0, len(names) - 1))]


def draw_shape(rng: np.random.Generator, family: str, n: int, d: int, style: Style) -> np.ndarray:
    """Draw n points of one cluster around the origin; shape (n, d)."""
    return _SHAPES[family][1](rng, n, d, style)
