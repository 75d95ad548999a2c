"""Arrangements of few clusters that no mixture of blobs describes: rings, moons, spirals, letters, by name.

Each function takes the number of rows and of clusters, and returns points (n, 2) or (n, 3) with labels (n,).
Gaps between neighbouring clusters are about 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clusterwise.priors.broad.centred import best_candidates, draw_mixture
from clusterwise.priors.broad.labelled_table import draw_sizes, log_uniform
from clusterwise.priors.broad.shapes import along_path, directions

__all__ = ["ARRANGEMENTS", "Arrangement", "draw_arrangement", "draw_composite"]


def _split(rng: np.random.Generator, n: int, lengths: np.ndarray) -> np.ndarray:
    """Labels (n,) of clusters that are even along their lengths, equally large, or anything between."""
    shares = lengths ** rng.choice([0.0, 0.5, 1.0])
    if rng.random() < 0.4:
        shares = shares * np.exp(0.5 * rng.standard_normal(len(shares)))
    shares = 0.9 * shares / shares.sum() + 0.1 / len(shares)
    k = len(shares)
    sizes = 4 + rng.multinomial(n - 4 * k, shares / shares.sum())
    return np.repeat(np.arange(k), sizes)


def _noise(rng: np.random.Generator, shape: tuple[int, ...], gap: float = 1.0) -> np.ndarray:
    """Noise whose standard deviation is a small part of the gap."""
    return gap / log_uniform(rng, 5.0, 30.0) * rng.standard_normal(shape)


def _polar(radii: np.ndarray, angles: np.ndarray) -> np.ndarray:
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def _rings(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Concentric rings; the innermost may be a disc."""
    radii = rng.uniform(0.6, 1.6) + np.arange(k) * 1.0
    labels = _split(rng, n, radii)
    radius = radii[labels] + _noise(rng, (n,))
    if rng.random() < 0.4:
        inner = labels == 0
        radius[inner] = 0.5 * radii[0] * np.sqrt(rng.random(inner.sum()))
    points = _polar(radius, rng.uniform(0, 2 * np.pi, n))
    return points * [1.0, rng.uniform(0.6, 1.0)], labels


def _shells(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nested shells in three dimensions around a ball."""
    radii = np.arange(k) * 1.0
    labels = _split(rng, n, (radii + 0.5) ** 2)
    radius = radii[labels] + _noise(rng, (n,))
    inner = labels == 0
    radius[inner] = 0.4 * rng.random(inner.sum()) ** (1 / 3)
    return radius[:, None] * directions(rng, n, 3), labels


def _frames(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Nested outlines of squares or of other polygons."""
    radii = 0.7 + np.arange(k)
    labels = _split(rng, n, radii)
    sides = int(rng.integers(3, 7))
    angles = 2 * np.pi * np.arange(sides + 1) / sides
    outline = along_path(rng, n, _polar(np.ones(sides + 1), angles))
    return radii[labels][:, None] * outline + _noise(rng, (n, 2)), labels


def _halo(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Dense cores within a wide, sparse cluster."""
    labels = _split(rng, n, np.r_[rng.uniform(0.6, 2.0), np.ones(k - 1)])
    wide = rng.standard_normal((n, 2)) if rng.random() < 0.6 else np.sqrt(3) * rng.uniform(-1, 1, (n, 2))
    centres = np.zeros((k, 2))
    if k > 2 or rng.random() < 0.5:
        angles = 2 * np.pi * np.arange(k) / max(k - 1, 1) + rng.uniform(0, 2 * np.pi)
        centres[1:] = _polar(rng.uniform(0.5, 1.4, k - 1), angles[1:])
    width = log_uniform(rng, 0.04, 0.16)
    points = np.where((labels == 0)[:, None], wide, centres[labels] + width * rng.standard_normal((n, 2)))
    return points, labels


def _target(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Blobs inside a ring, or inside an open arc."""
    labels = _split(rng, n, np.r_[3.0, np.ones(k - 1)])
    reach = 2 * np.pi if rng.random() < 0.6 else rng.uniform(3.0, 5.0)
    angles = 2 * np.pi * np.arange(k) / max(k - 1, 1) + rng.uniform(0, 2 * np.pi)
    centres = _polar(np.full(k, 0.0 if k == 2 else 1.3), angles)
    blob = centres[labels] + rng.uniform(0.15, 0.38) * rng.standard_normal((n, 2))
    ring = _polar(3.0 + _noise(rng, (n,)), reach * rng.random(n))
    return np.where((labels == 0)[:, None], ring, blob), labels


def _links(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A chain of rings in three dimensions, each through the next."""
    labels = _split(rng, n, np.ones(k))
    flat = _polar(np.ones(n), rng.uniform(0, 2 * np.pi, n))
    points = np.zeros((n, 3))
    points[:, 0] = flat[:, 0] + 1.2 * labels
    even = labels % 2 == 0
    points[even, 1] = flat[even, 1]
    points[~even, 2] = flat[~even, 1]
    return points + _noise(rng, (n, 3), 0.6), labels


def _circles(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Circles side by side in the plane, each of which crosses the next."""
    labels = _split(rng, n, np.ones(k))
    row = np.arange(k)
    centres = np.column_stack([rng.uniform(0.8, 1.6) * row, (row % 2) * rng.uniform(0.0, 1.2)])
    rim = _polar(1.0 + _noise(rng, (n,), 0.6), rng.uniform(0, 2 * np.pi, n))
    return centres[labels] + rim, labels


def _moons(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A row of half circles, open up and down in turn, each reaching into the next."""
    labels = _split(rng, n, np.ones(k))
    angles = rng.uniform(0, np.pi, n)
    down = labels % 2
    x = np.cos(angles) + labels * rng.uniform(0.9, 1.1)
    y = np.sin(angles) * (1 - 2 * down) + down * rng.uniform(0.2, 0.6)
    return np.column_stack([x, y]) + _noise(rng, (n, 2), 0.5), labels


def _spirals(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Arms of one spiral; neighbouring arms are 1 apart."""
    labels = _split(rng, n, np.ones(k))
    turns = rng.uniform(0.5, 1.6)
    angles = 2 * np.pi * turns * np.sqrt(rng.uniform(0.02, 1, n))
    radii = angles * k / (2 * np.pi) + rng.uniform(0.2, 0.5)
    return _polar(radii, angles + 2 * np.pi * labels / k) + _noise(rng, (n, 2)), labels


def _stripes(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Parallel stripes, straight or in waves, thin or as wide as the gaps allow."""
    labels = _split(rng, n, np.ones(k))
    x = rng.uniform(-1, 1, n) * rng.uniform(1.5, 5.0)
    bend = rng.choice([0.0, 0.0, 0.5, 1.5]) * np.sin(rng.uniform(0.5, 1.5) * x)
    across = rng.uniform(-0.3, 0.3, n) if rng.random() < 0.4 else _noise(rng, (n,))
    return np.column_stack([x + rng.uniform(-1, 1, k)[labels], labels + bend + across]), labels


def _chain(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A row of Gaussians of equal height that touch."""
    labels = _split(rng, n, np.ones(k))
    across = rng.standard_normal(n) * rng.uniform(0.2, 1.5)
    along = labels + rng.uniform(0.12, 0.28) * rng.standard_normal(n)
    return np.column_stack([along, across + rng.uniform(-0.5, 0.5) * np.sin(labels)]), labels


def _cross(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Straight bars that cross in the middle."""
    labels = _split(rng, n, np.ones(k))
    angles = np.pi * (np.arange(k) + rng.uniform(-0.15, 0.15, k)) / k
    along = rng.uniform(-1, 1, n) if rng.random() < 0.5 else 0.6 * rng.standard_normal(n)
    return _polar(4 * along, angles[labels]) + _noise(rng, (n, 2)), labels


def _corners(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles around the four corners of a square, which face the middle or the outside."""
    labels = _split(rng, n, np.ones(k))
    corner = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])[labels % 4]
    along = rng.uniform(0, 2.5, n)
    first = rng.random(n) < 0.5
    arms = np.where(np.column_stack([first, ~first]), along[:, None], 0.0)
    ward = 1 if rng.random() < 0.5 else -1
    middle = 0.5 if ward == 1 else 3.2
    return corner * (middle + ward * arms) + _noise(rng, (n, 2)), labels


def _letters(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Letters in lines of text: each of a few strokes within its own cell."""
    labels = _split(rng, n, np.ones(k))
    points = np.empty((n, 2))
    width = int(np.ceil(np.sqrt(k * rng.uniform(1, 2.5))))
    room = rng.uniform(1.15, 1.6)
    for j in range(k):
        own = labels == j
        corners = rng.permutation(np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5], [0.5, 0], [0.5, 1]]))
        path = along_path(rng, int(own.sum()), corners[: rng.integers(2, 5)])
        points[own] = path * [0.8, 1.0] + [room * (j % width), 1.15 * room * (j // width)]
    return points + _noise(rng, (n, 2), 0.4), labels


def _lobes(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Evenly filled diamonds, discs or squares in a row that hardly touch."""
    labels = _split(rng, n, np.ones(k))
    law = rng.integers(3)
    if law == 0:
        inner = _polar(np.sqrt(rng.random(n)), rng.uniform(0, 2 * np.pi, n))
    else:
        inner = rng.uniform(-1, 1, (n, 2))
        if law == 1:
            inner = inner @ np.array([[1, 1], [-1, 1]]) / 2
    shift = np.column_stack([np.arange(k), 0.3 * rng.standard_normal(k)])
    return inner + rng.uniform(2.05, 2.6) * shift[labels], labels


def _worms(rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Smooth curves that wander through a square, and seldom cross."""
    labels = _split(rng, n, np.ones(k))
    sizes = np.bincount(labels)
    n_steps = 12
    headings = np.cumsum(rng.normal(0, rng.uniform(0.05, 0.4), (k, n_steps)), axis=1)
    headings += rng.uniform(0, 2 * np.pi, (k, 1)) if rng.random() < 0.7 else 0.0
    steps = np.stack([np.cos(headings), np.sin(headings)], axis=2) * (rng.uniform(2.0, 5.0) / n_steps)
    paths = np.concatenate([np.zeros((k, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
    paths -= paths.mean(axis=1, keepdims=True)
    starts = best_candidates(rng.uniform(0, 2.4 * np.sqrt(k), (k, 12, 2)), np.zeros(k))
    points = np.concatenate(
        [
            along_path(rng, int(size), path + start)
            for size, path, start in zip(sizes, paths, starts, strict=True)
        ]
    )
    return points + _noise(rng, (n, 2)), labels


class Arrangement(NamedTuple):
    """How to draw an arrangement, of how many clusters, how often, and how pure neighbours must be."""

    draw: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
    min_k: int
    max_k: int
    weight: float
    min_purity: float  # of neighbours; with less it cannot be seen


ARRANGEMENTS: dict[str, Arrangement] = {
    "rings": Arrangement(_rings, 2, 5, 1.5, 0.75),
    "shells": Arrangement(_shells, 2, 3, 2.0, 0.75),
    "frames": Arrangement(_frames, 2, 4, 0.8, 0.75),
    "halo": Arrangement(_halo, 2, 6, 1.0, 0.55),
    "target": Arrangement(_target, 2, 6, 1.0, 0.65),
    "links": Arrangement(_links, 2, 4, 1.0, 0.75),
    "circles": Arrangement(_circles, 2, 6, 0.6, 0.65),
    "moons": Arrangement(_moons, 2, 5, 1.2, 0.75),
    "spirals": Arrangement(_spirals, 2, 5, 1.2, 0.75),
    "stripes": Arrangement(_stripes, 2, 8, 1.0, 0.75),
    "chain": Arrangement(_chain, 2, 8, 0.8, 0.55),
    "cross": Arrangement(_cross, 2, 3, 0.8, 0.65),
    "corners": Arrangement(_corners, 2, 4, 0.8, 0.75),
    "letters": Arrangement(_letters, 2, 30, 1.0, 0.75),
    "lobes": Arrangement(_lobes, 2, 8, 0.6, 0.75),
    "worms": Arrangement(_worms, 2, 30, 0.8, 0.75),
}


def draw_arrangement(rng: np.random.Generator, k: int, d: int) -> str | None:
    """Draw the name of an arrangement of k clusters in at least 2 and up to d dimensions, if there is one."""
    flat = {"shells", "links"} if d < 3 else set()
    able = [name for name, what in ARRANGEMENTS.items() if what.min_k <= k <= what.max_k and name not in flat]
    if not able:
        return None
    ends = np.cumsum([ARRANGEMENTS[name].weight for name in able])
    return able[min(int(np.searchsorted(ends, rng.random() * ends[-1], side="right")), len(able) - 1)]


_ROWS_FOR_ARRANGEMENT = 40  # for each cluster, or its form could not be seen


def _draw_part(rng: np.random.Generator, n: int, k: int, ease: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw k clusters in the plane: an arrangement where the rows suffice, or a mixture."""
    if k > 1 and n >= _ROWS_FOR_ARRANGEMENT * k and rng.random() < 0.7:
        name = draw_arrangement(rng, k, 2)
        if name is not None:
            return ARRANGEMENTS[name].draw(rng, n, k)
    sizes = draw_sizes(rng, n, k)
    return draw_mixture(rng, sizes, 2, ease), np.repeat(np.arange(k), sizes)


def draw_composite(
    rng: np.random.Generator, n: int, k: int, ease: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Draw k >= 2 clusters in several parts, each with its own form; points (n, 2) and labels (n,)."""
    n_parts = min(k, int(rng.integers(2, 5)))
    clusters = 1 + rng.multinomial(k - n_parts, np.full(n_parts, 1 / n_parts))
    rows = 4 * clusters + rng.multinomial(n - 4 * k, clusters / k)
    parts = [_draw_part(rng, int(m), int(j), ease) for m, j in zip(rows, clusters, strict=True)]
    radii = np.sqrt(clusters) * np.exp(0.3 * rng.standard_normal(n_parts))
    places = best_candidates(rng.uniform(-1, 1, (n_parts, 12, 2)), np.zeros(n_parts))
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) / (radii[:, None] + radii[None])
    np.fill_diagonal(gaps, np.inf)
    places *= log_uniform(rng, 1.0, 1.8) * ease / gaps.min()
    points, labels = [], []
    first = np.cumsum(clusters) - clusters
    for j, (own, own_labels) in enumerate(parts):
        own = own - np.median(own, axis=0)
        reach = np.quantile(np.linalg.norm(own, axis=1), 0.97) + 1e-12
        points.append(own * (radii[j] / reach) + places[j])
        labels.append(own_labels + first[j])
    return np.concatenate(points), np.concatenate(labels)
