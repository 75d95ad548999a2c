"""A layout of raw rows: places such that neighbours are near each other, up to variations that do not matter.

Two images of the same digit may be far apart because one is shifted. Where the user can draw variants of
rows, a row's *tangents* are the directions in which its variants differ from it, and the distance between
two rows leaves out what lies along the tangents of either: the tangent distance of Simard, LeCun & Denker
(1993), with tangents found from samples instead of derivatives. The neighbour graph is laid out by UMAP
(McInnes, Healy & Melville 2018): edges pull their ends together, and every row pushes rows drawn at random
away, ::

    sum over edges of  log(1 + |z - z'|^2) - sum_{z''} log(|z - z''|^2 / (1 + |z - z''|^2)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.neighbors import NearestNeighbors
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from clusterwise.deepdpm.nets import Adam, to_tensor

__all__ = [
    "ImageVariants",
    "Vary",
    "graph_of_neighbours",
    "layout",
    "layout_of_rows",
    "principal_axes",
    "tangent_neighbours",
    "tangents",
]

# Draws a variant of each row (n, f).
Vary = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# Neighbours are sought in this many principal components.
N_NEIGHBOURS, NEIGHBOUR_AXES = 15, 50
N_VARIANTS, N_TANGENTS = 20, 12
# A row's neighbours by tangent distance are sought among this many of its neighbours by plain distance.
CANDIDATES = 400
# Numbers in the largest temporary.
CHUNK = 10_000_000
BATCH, NEGATIVES = 4096, 5
LEARNING_RATE = 0.1
# How often an edge is drawn on average, and the fewest and most steps that this may take.
DRAWS, MIN_STEPS, MAX_STEPS = 40, 300, 4000
# Two rows at the same place push each other apart no harder than rows at this squared distance.
MIN_SQUARE = 1e-2
# Largest coordinate at the start.
FIRST_SIZE = 5.0
IMAGES_AT_ONCE = 2048


def layout_of_rows(
    rng: np.random.Generator, features: np.ndarray, n_axes: int, vary: Vary | None, device: str
) -> np.ndarray:
    """Places (n, l) of features (n, f) on ``n_axes`` axes; ``vary`` draws variants, where there are any."""
    start = np.zeros((len(features), n_axes))
    if len(features) < 3:  # no graph to speak of
        return start
    axes = principal_axes(features, NEIGHBOUR_AXES)
    components = features @ axes
    start[:, : components.shape[1]] = components[:, :n_axes]
    if vary is None:
        neighbours, distances = nearest_neighbours(components, N_NEIGHBOURS)
    else:
        directions = tangents(rng, features, axes, vary)
        neighbours, distances = tangent_neighbours(components, directions, N_NEIGHBOURS)
    return layout(rng, graph_of_neighbours(neighbours, distances), start, device)


def principal_axes(inputs: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of inputs (n, d) as columns (d, m), m <= n_axes."""
    d = inputs.shape[1]
    centred = inputs - inputs.mean(axis=0)
    _, axes = eigh(centred.T @ centred / len(inputs), subset_by_index=[max(d - n_axes, 0), d - 1])
    result: np.ndarray = axes[:, ::-1]
    return result


# -- the neighbour graph -------------------------------------------------------------------------


def nearest_neighbours(points: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, d), themselves left out, and their distances (n, k)."""
    points = points.astype(np.float32)
    distances, neighbours = (
        NearestNeighbors(n_neighbors=min(n_neighbours, len(points) - 1)).fit(points).kneighbors()
    )
    return neighbours, distances


def tangents(rng: np.random.Generator, features: np.ndarray, axes: np.ndarray, vary: Vary) -> np.ndarray:
    """Orthonormal directions (n, m, t) in which the components (n, m) of variants of the rows differ most."""
    components = features @ axes
    offsets = np.stack(
        [vary(features, rng) @ axes - components for _ in range(N_VARIANTS)], axis=1
    )  # (n, v, m)
    t = min(N_TANGENTS, axes.shape[1] - 1, N_VARIANTS)
    squares, mixing = np.linalg.eigh(offsets @ offsets.transpose(0, 2, 1))
    directions = offsets.transpose(0, 2, 1) @ mixing[:, :, ::-1][:, :, :t]
    lengths = np.sqrt(np.maximum(squares[:, None, ::-1][:, :, :t], 0.0))
    # Variants that differ in fewer directions leave tangents of no length.
    result: np.ndarray = np.where(lengths > 1e-6 * lengths[:, :, :1], directions, 0.0)
    result /= np.where(lengths > 0, lengths, 1.0)
    return result.astype(np.float32)


def tangent_neighbours(
    components: np.ndarray, directions: np.ndarray, n_neighbours: int
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, m) by tangent distance, and these distances (n, k).

    The square of the distance between x and y is the mean of two squares: the length of x - y without the
    part along the tangents ``directions`` (n, m, t) of x, and without the part along those of y.
    """
    points = components.astype(np.float32)
    n, k = len(points), min(n_neighbours, len(points) - 1)
    candidates, _ = nearest_neighbours(points, max(CANDIDATES, k))
    neighbours, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    size = max(1, CHUNK // (candidates.shape[1] * directions[0].size))
    for start in range(0, n, size):
        part = slice(start, start + size)
        others = candidates[part]
        offsets = points[others] - points[part, None]  # (b, c, m)
        along = np.square(offsets @ directions[part]).sum(axis=2)
        along += np.square(np.einsum("bcm,bcmt->bct", offsets, directions[others], optimize=True)).sum(axis=2)
        squares = np.square(offsets).sum(axis=2) - along / 2
        nearest = np.argpartition(squares, k - 1, axis=1)[:, :k]
        neighbours[part] = np.take_along_axis(others, nearest, axis=1)
        distances[part] = np.sqrt(np.maximum(np.take_along_axis(squares, nearest, axis=1), 0.0))
    return neighbours, distances


def graph_of_neighbours(neighbours: np.ndarray, distances: np.ndarray) -> coo_matrix:
    """Symmetric graph (n, n) from the neighbours of each row (n, k): a + b - ab for weights both ways."""
    n, k = neighbours.shape
    rows = np.repeat(np.arange(n), k)
    one_way = csr_matrix((_edge_weights(distances).ravel(), (rows, neighbours.ravel())), shape=(n, n))
    return (one_way + one_way.T - one_way.multiply(one_way.T)).tocoo()


def _edge_weights(distances: np.ndarray) -> np.ndarray:
    """Weights (n, k) of the edges to neighbours as in UMAP: one for the nearest, log2(k + 1) in all."""
    beyond = distances - distances.min(axis=1, keepdims=True)
    low, high = np.zeros((len(distances), 1)), np.full((len(distances), 1), 1e3 * distances.max() + 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        too_wide = np.exp(-beyond / middle).sum(axis=1, keepdims=True) > np.log2(distances.shape[1] + 1)
        low, high = np.where(too_wide, low, middle), np.where(too_wide, middle, high)
    return np.exp(-beyond / high)


# -- the layout of the graph ---------------------------------------------------------------------


def layout(rng: np.random.Generator, graph: coo_matrix, start: np.ndarray, device: str) -> np.ndarray:
    """Places (n, l) of the rows, found from ``start`` (n, l); their mean is zero, their mean variance one."""
    n = len(start)
    first = start - start.mean(axis=0)
    first *= FIRST_SIZE / max(np.abs(first).max(), 1e-12)
    places = to_tensor(first, device).requires_grad_()
    optimizer = Adam([places], LEARNING_RATE)
    heads, tails = graph.row.astype(np.int64), graph.col.astype(np.int64)
    shares = np.cumsum(graph.data) / graph.data.sum()
    n_steps = int(np.clip(DRAWS * len(heads) // BATCH, MIN_STEPS, MAX_STEPS))
    for step in range(n_steps):
        optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
        edges = np.minimum(np.searchsorted(shares, rng.random(BATCH)), len(heads) - 1)
        others = rng.integers(n, size=(NEGATIVES, BATCH))
        index = [torch.from_numpy(rows).to(device) for rows in (heads[edges], tails[edges], others)]
        optimizer.step(_cross_entropy(places, *index))
    result = places.detach().cpu().numpy().astype(np.float64)
    result -= result.mean(axis=0)
    scaled: np.ndarray = result / max(np.sqrt(result.var(axis=0).mean()), 1e-12)
    return scaled


def _cross_entropy(places: Tensor, heads: Tensor, tails: Tensor, others: Tensor) -> Tensor:
    """The loss of edges from ``heads`` (b,) to ``tails`` (b,), with ``others`` (m, b) pushed away."""
    ends = places[heads]
    attraction = torch.log1p((ends - places[tails]).square().sum(dim=1)).sum()
    gaps = (ends - places[others]).square().sum(dim=2)
    repulsion = (torch.log1p(gaps) - torch.log(gaps + MIN_SQUARE)) * (others != heads)
    return attraction + repulsion.sum()


# -- variants of images ---------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageVariants:
    """Draws images that are shifted, turned, stretched and sheared a little, for ``DeepDPM(variants=...)``.

    Rows are grey images of ``height`` times ``width`` pixels, line by line. ``amount`` 1 means up to 15
    degrees, a tenth of the width and of the height, and a tenth of the size; small amounts are enough to
    find the directions in which an image changes.

    >>> images = np.random.default_rng(0).random((5, 12))
    >>> ImageVariants(3, 4)(images, np.random.default_rng(1)).shape
    (5, 12)
    """

    height: int
    width: int
    amount: float = 0.3

    def __call__(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A variant of each row (n, height * width)."""
        if rows.shape[1] != self.height * self.width:
            raise ValueError(
                f"ImageVariants({self.height}, {self.width}) takes rows of {self.height * self.width} "
                f"pixels, got {rows.shape[1]}."
            )
        variants = np.empty_like(rows, dtype=np.float64)
        for start in range(0, len(rows), IMAGES_AT_ONCE):
            part = slice(start, start + IMAGES_AT_ONCE)
            images = torch.from_numpy(rows[part].astype(np.float32)).view(-1, 1, self.height, self.width)
            grid = affine_grid(self._maps(rng, len(images)), list(images.shape), align_corners=False)
            # Beyond the rim an image goes on as it ends.
            moved = grid_sample(images, grid, padding_mode="border", align_corners=False)
            variants[part] = moved.view(len(images), -1).numpy()
        return variants

    def _maps(self, rng: np.random.Generator, n: int) -> torch.Tensor:
        """Random affine maps (n, 2, 3) of coordinates that go from -1 to 1."""
        spread = self.amount * np.array([np.radians(15), 0.1, 0.1, 0.15, 0.2, 0.2])
        angle, wider, higher, shear, right, down = rng.uniform(-1, 1, (n, 6)).T * spread[:, None]
        cosine, sine = np.cos(angle), np.sin(angle)
        first = np.stack([cosine * (1 + wider), shear - sine * (1 + higher), right], axis=1)
        second = np.stack([sine * (1 + wider), cosine * (1 + higher), down], axis=1)
        return torch.from_numpy(np.stack([first, second], axis=1).astype(np.float32))
