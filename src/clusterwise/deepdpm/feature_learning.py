"""Features learned from raw rows: an autoencoder that follows a layout and takes turns with the clustering.

1. *Neighbours.* Two images of the same digit may be far apart because one is shifted. Where the user can
   draw variants of rows, a row's *tangents* are the directions in which its variants differ from it, and the
   distance between two rows leaves out what lies along the tangents of either: the tangent distance of
   Simard, LeCun & Denker (1993), with tangents found from samples instead of derivatives.
2. *Layout.* UMAP (McInnes, Healy & Melville 2018) gives rows places t (n, l): the edges of the neighbour
   graph pull their ends together, and every row pushes rows drawn at random away, ::

       sum over edges of  log(1 + |t - t'|^2) - sum_{t''} log(|t - t''|^2 / (1 + |t - t''|^2)).

3. *Autoencoder.* It learns codes z of rows x from ``|z - t|^2 + weight |decode(z) - x|^2``, which makes the
   layout a function of x: new rows have codes too.
4. *Turns.* Once there are clusters with means mu the places move towards them, t <- t + pull (mu - t), the
   autoencoder is trained again, and so on.

Reconstruction and the pull alone, as in the authors' code, leave clusters of raw images lying in each other;
neighbours tell them apart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.sparse import coo_matrix, csr_matrix
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn
from torch.nn.functional import affine_grid, grid_sample

from clusterwise.affine import AffineMap
from clusterwise.deepdpm.method import History, Settings, Snapshot, fit_mixture
from clusterwise.deepdpm.nets import Adam, to_tensor, weighted_statistics
from clusterwise.exceptions import ClusterwiseError
from clusterwise.rows.sorted_rows import Rows

__all__ = ["FeatureLearner", "ImageVariants", "LearnedSpace", "Variants", "alternate", "layout_of_rows"]

# Draws a variant of each row (n, d).
Variants = Callable[[np.ndarray, np.random.Generator], np.ndarray]

# Rows that the autoencoder is trained on, at most.
MAX_ROWS = 20_000
# Neighbours are sought in this many principal components.
N_NEIGHBOURS, NEIGHBOUR_AXES = 15, 50
N_VARIANTS, N_TANGENTS = 20, 12
# A row's neighbours by tangent distance are sought among this many of its neighbours by plain distance.
CANDIDATES = 400
# Numbers in the largest temporary.
CHUNK = 10_000_000
# The layout: edges in a step, rows that each pushes away, and the step of Adam.
EDGES, NEGATIVES, LAYOUT_RATE = 4096, 5, 0.1
# How often an edge is drawn on average, and the fewest and most steps that this may take.
DRAWS, MIN_STEPS, MAX_STEPS = 40, 300, 4000
# Two rows at the same place push each other apart no harder than rows at this squared distance.
MIN_SQUARE = 1e-2
# Largest coordinate at the start.
FIRST_SIZE = 5.0
# The default encoder sees this many principal components: the narrow ones are noise to it, and cost time.
INPUT_AXES = 100
N_HIDDEN = 256
BATCH, LEARNING_RATE = 512, 2e-3
RECONSTRUCTION = 0.01
# Training steps of the autoencoder before the first clustering, and in each turn after it.
FIRST_STEPS, STEPS = 2000, 500
TURNS, PULL = 2, 0.3
ROWS_AT_ONCE = 4096


# -- the turns -----------------------------------------------------------------------------------


def alternate(
    learner: FeatureLearner,
    seed: int,
    features: np.ndarray,
    settings: Settings,
    k_init: int,
    before: Snapshot | None = None,
    callback: Callable[[History], object] = lambda history: None,
    log: Callable[[str], object] = lambda line: None,
) -> Snapshot:
    """Snapshot of the clusters of learned features: cluster, pull rows to their clusters, cluster again.

    ``before`` is where other turns ended. ``callback`` gets the history after every epoch, ``log`` the name
    of every stage. An interrupt from the keyboard ends the turns, once there are clusters.
    """
    snapshot, turn = before, 0
    if snapshot is None:
        log("training of the autoencoder")
        learner.train(FIRST_STEPS)
    while True:
        log(f"clustering of the learned features, turn {turn + 1} of {TURNS + 1}")
        learned = Rows(learner.space.encode(features))
        max_epochs = settings.max_epochs
        if snapshot is not None:  # the features have moved since then
            max_epochs += len(snapshot.history)
            membership = snapshot.weights.memberships(learned.points)
            statistics = weighted_statistics(learned, membership, settings.prior)
            snapshot = replace(snapshot, statistics=statistics)
        more = replace(settings, max_epochs=max_epochs)
        snapshot = fit_mixture(seed + turn, learned, more, k_init, snapshot, callback)
        if turn == TURNS or snapshot.interrupted:
            return snapshot
        try:
            labels = snapshot.weights.memberships(learned.points).argmax(axis=1)
            learner.pull(settings.prior.posterior(snapshot.statistics).mean, labels)
            learner.train(STEPS)
        except KeyboardInterrupt:
            return replace(snapshot, interrupted=True)
        turn += 1


# -- the autoencoder -----------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedSpace:
    """Features that an autoencoder makes of scaled columns (n, f); densities and covariances are theirs.

    The default encoder and decoder have a fixed projection in front of them.
    """

    columns: AffineMap
    encoder: nn.Module
    decoder: nn.Module
    projection: np.ndarray | None  # (f, m), orthonormal columns
    n_latent: int
    device: str
    log_volume: ClassVar[float] = 0.0

    @classmethod
    def draw(
        cls,
        seed: int,
        columns: AffineMap,
        features: np.ndarray,
        encoder: nn.Module | None,
        n_latent: int,
        device: str,
    ) -> LearnedSpace:
        """An untrained autoencoder for features (n, f), with a copy of the user's encoder if there is one."""
        n_inputs = features.shape[1]
        projection = None
        if encoder is None:
            projection = widest_axes(features[:: -(-len(features) // MAX_ROWS)], INPUT_AXES)
            n_inputs = projection.shape[1]
        with torch.random.fork_rng(devices=[]):  # weights depend on the seed alone
            torch.manual_seed(seed)
            encoder = _mlp(n_inputs, n_latent) if encoder is None else copy.deepcopy(encoder)
            encoder = encoder.to(device).eval()
            with torch.no_grad():
                n_latent = int(encoder(torch.zeros(2, n_inputs, device=device)).shape[1])
            decoder = _mlp(n_latent, n_inputs).to(device)
        return cls(columns, encoder, decoder, projection, n_latent, device)

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Learned features (n, l) of points (n, d), each row on its own."""
        return self.encode(self.columns.apply(points))

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """Points (n, d) that are decoded from learned features (n, l)."""
        return self.columns.inverse(self.decode(features))

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, l, l) of the learned features in their own units."""
        return of_features

    def project(self, features: np.ndarray) -> np.ndarray:
        """Inputs (n, m) of the encoder for scaled columns (n, f)."""
        return features if self.projection is None else features @ self.projection

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Learned features (n, l) of scaled columns (n, f), float64."""
        self.encoder.eval()
        parts = []
        with torch.no_grad():
            for start in range(0, len(features), ROWS_AT_ONCE):
                rows = self.project(features[start : start + ROWS_AT_ONCE])
                parts.append(self.encoder(to_tensor(rows, self.device)).cpu().numpy().astype(np.float64))
        return np.concatenate(parts)

    def decode(self, latent: np.ndarray) -> np.ndarray:
        """Scaled columns (n, f) of learned features (n, l)."""
        self.decoder.eval()
        with torch.no_grad():
            features = self.decoder(to_tensor(latent, self.device)).cpu().numpy().astype(np.float64)
        return features if self.projection is None else features @ self.projection.T


def _mlp(n_in: int, n_out: int) -> nn.Module:
    layers = [nn.Linear(n_in, N_HIDDEN), nn.ReLU(), nn.Linear(N_HIDDEN, N_HIDDEN), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(N_HIDDEN, n_out))


class FeatureLearner:
    """Trains the autoencoder of ``space`` on features (n, f), which are scaled columns."""

    def __init__(
        self,
        seed: int,
        features: np.ndarray,
        space: LearnedSpace,
        variants: Variants | None = None,
        is_trained: bool = False,
    ) -> None:
        self.rng, self.space = np.random.default_rng(seed), copy.deepcopy(space)
        n = len(features)
        self.rows = np.sort(self.rng.choice(n, min(n, MAX_ROWS), replace=False))
        features = features[self.rows]
        self.inputs = to_tensor(space.project(features), space.device)
        if is_trained:  # the places are where the rows are
            self.places = space.encode(features)
        else:
            vary = None if variants is None else vary_features(space.columns, variants)
            self.places = layout_of_rows(self.rng, features, space.n_latent, vary, space.device)

    def pull(self, centres: np.ndarray, labels: np.ndarray) -> None:
        """Move the places of the rows towards the ``centres`` (K, l) of their clusters ``labels`` (n,)."""
        self.places += PULL * (centres[labels[self.rows]] - self.places)

    def train(self, n_steps: int) -> None:
        """Take training steps at a learning rate that falls to nothing."""
        encoder, decoder = self.space.encoder.train(), self.space.decoder.train()
        optimizer = Adam([*encoder.parameters(), *decoder.parameters()], LEARNING_RATE)
        places = to_tensor(self.places, self.space.device)
        scale = RECONSTRUCTION / float(self.inputs.var(dim=0, correction=0).sum().clamp(min=1e-12))
        for step in range(n_steps):
            optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
            batch = torch.from_numpy(self.rng.integers(len(self.rows), size=BATCH)).to(places.device)
            inputs = self.inputs[batch]
            latent = encoder(inputs)
            rebuilt = (decoder(latent) - inputs).square().sum(dim=1).mean()
            optimizer.step((latent - places[batch]).square().mean() + scale * rebuilt)


# -- the neighbour graph -------------------------------------------------------------------------


def layout_of_rows(
    rng: np.random.Generator, features: np.ndarray, n_axes: int, vary: Variants | None, device: str
) -> np.ndarray:
    """Places (n, l) of features (n, f) on ``n_axes`` axes; ``vary`` draws variants, where there are any."""
    start = np.zeros((len(features), n_axes))
    if len(features) < 3:  # no graph to speak of
        return start
    axes = widest_axes(features, NEIGHBOUR_AXES)
    components = features @ axes
    start[:, : components.shape[1]] = components[:, :n_axes]
    if vary is None:
        neighbours, distances = nearest_neighbours(components, N_NEIGHBOURS)
    else:
        directions = tangents(rng, features, axes, vary)
        neighbours, distances = tangent_neighbours(components, directions, N_NEIGHBOURS)
    return layout(rng, graph_of_neighbours(neighbours, distances), start, device)


def widest_axes(features: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of features (n, f), exact, as columns (f, m), m <= n_axes."""
    f, centred = features.shape[1], features - features.mean(axis=0)
    _, axes = eigh(centred.T @ centred / len(features), subset_by_index=[max(f - n_axes, 0), f - 1])
    widest: np.ndarray = axes[:, ::-1]
    return widest


def nearest_neighbours(points: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, d), themselves left out, and their distances (n, k)."""
    points = points.astype(np.float32)
    search = NearestNeighbors(n_neighbors=min(n_neighbours, len(points) - 1)).fit(points)
    distances, neighbours = search.kneighbors()
    return neighbours, distances


def vary_features(columns: AffineMap, variants: Variants) -> Variants:
    """The user's variants as variants of scaled columns (n, f)."""

    def vary(features: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        points = columns.inverse(features)
        varied = np.asarray(variants(points, rng), dtype=np.float64)
        if varied.shape != points.shape or not np.isfinite(varied).all():
            raise ClusterwiseError(
                f"variants must return finite numbers of shape {points.shape}, one variant for each row; got "
                f"shape {varied.shape}."
            )
        return columns.apply(varied)

    return vary


def tangents(rng: np.random.Generator, features: np.ndarray, axes: np.ndarray, vary: Variants) -> np.ndarray:
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
    optimizer = Adam([places], LAYOUT_RATE)
    heads, tails = graph.row.astype(np.int64), graph.col.astype(np.int64)
    shares = np.cumsum(graph.data) / graph.data.sum()
    n_steps = int(np.clip(DRAWS * len(heads) // EDGES, MIN_STEPS, MAX_STEPS))
    for step in range(n_steps):
        optimizer.learning_rate = LAYOUT_RATE * (1 - step / n_steps)
        edges = np.minimum(np.searchsorted(shares, rng.random(EDGES)), len(heads) - 1)
        others = rng.integers(n, size=(NEGATIVES, EDGES))
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
        images = torch.from_numpy(rows.astype(np.float32)).view(-1, 1, self.height, self.width)
        grid = affine_grid(self._maps(rng, len(images)), list(images.shape), align_corners=False)
        # Beyond the rim an image goes on as it ends.
        moved = grid_sample(images, grid, padding_mode="border", align_corners=False)
        return moved.view(len(images), -1).numpy().astype(np.float64)

    def _maps(self, rng: np.random.Generator, n: int) -> torch.Tensor:
        """Random affine maps (n, 2, 3) of coordinates that go from -1 to 1."""
        spread = self.amount * np.array([np.radians(15), 0.1, 0.1, 0.15, 0.2, 0.2])
        angle, wider, higher, shear, right, down = rng.uniform(-1, 1, (n, 6)).T * spread[:, None]
        cosine, sine = np.cos(angle), np.sin(angle)
        first = np.stack([cosine * (1 + wider), shear - sine * (1 + higher), right], axis=1)
        second = np.stack([sine * (1 + wider), cosine * (1 + higher), down], axis=1)
        return torch.from_numpy(np.stack([first, second], axis=1).astype(np.float32))
