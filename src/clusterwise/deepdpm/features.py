"""Features learned from raw rows: an autoencoder that keeps neighbours together and takes turns with DeepDPM.

The encoder minimizes three terms on batches of rows x with one of their nearest neighbours x' each, whose
codes are z and z' among those of others, z'',

    |decode(z) - x|^2  +  [ log(1 + |z - z'|^2) - sum_{z''} log(|z - z''|^2 / (1 + |z - z''|^2)) ]
        +  weight |z - mu(z)|^2,

the reconstruction, the cross-entropy of a neighbour graph as in UMAP (McInnes et al. 2018), and, once there
are clusters, the distance to the mean of the row's cluster. Reconstruction alone, as in the authors' code,
leaves clusters of raw images lying in each other; neighbours pull them apart. The clusters of DeepDPM in the
learned features then say where the third term pulls, and so on in turn.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor, nn

from clusterwise.deepdpm.adam import Adam
from clusterwise.deepdpm.training import to_tensor

__all__ = ["Autoencoder", "FeatureLearner", "mlp", "nearest_neighbours"]

N_NEIGHBOURS = 10
# Neighbours are sought in this many principal components, among at most so many rows.
NEIGHBOUR_AXES, NEIGHBOUR_ROWS = 50, 20_000
N_HIDDEN = 256
BATCH, NEGATIVES = 512, 5
LEARNING_RATE = 1e-3
# Two rows at the same place push each other apart no harder than rows at this squared distance.
LEAST_SQUARE = 1e-2
PULL = 0.1
ROWS_AT_ONCE = 4096


def mlp(n_in: int, n_out: int, n_hidden: int, seed: int) -> nn.Module:
    """Two hidden layers, with weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(n_in, n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, n_out),
        )


def principal_axes(inputs: np.ndarray, n_axes: int) -> np.ndarray:
    """First principal axes of inputs (n, d) as columns (d, m), m <= n_axes."""
    d = inputs.shape[1]
    centred = inputs - inputs.mean(axis=0)
    m = min(n_axes, d)
    _, axes = eigh(centred.T @ centred / len(inputs), subset_by_index=[d - m, d - 1])
    result: np.ndarray = axes[:, ::-1]
    return result


def nearest_neighbours(points: np.ndarray, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbours (n, k) of points (n, d), themselves left out, and their distances (n, k)."""
    points = points.astype(np.float32)
    squares = np.square(points).sum(axis=1)
    n, k = len(points), min(n_neighbours, len(points) - 1)
    neighbours, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    for start in range(0, n, 1000):
        part = np.arange(start, min(start + 1000, n))
        gaps = squares[part, None] + squares - 2 * points[part] @ points.T
        gaps[part - start, part] = np.inf
        nearest = np.argpartition(gaps, k - 1, axis=1)[:, :k]
        neighbours[part] = nearest
        distances[part] = np.sqrt(np.maximum(np.take_along_axis(gaps, nearest, axis=1), 0.0))
    return neighbours, distances


def _graph_weights(distances: np.ndarray) -> np.ndarray:
    """Weights (n, k) of the edges to neighbours as in UMAP: one for the nearest, log2(k + 1) in all."""
    beyond = distances - distances.min(axis=1, keepdims=True)
    low, high = np.zeros((len(distances), 1)), np.full((len(distances), 1), 1e3 * distances.max() + 1e-12)
    for _ in range(60):
        middle = (low + high) / 2
        too_wide = np.exp(-beyond / middle).sum(axis=1, keepdims=True) > np.log2(distances.shape[1] + 1)
        low, high = np.where(too_wide, low, middle), np.where(too_wide, middle, high)
    return np.exp(-beyond / high)


@dataclass
class Autoencoder:
    """An encoder and a decoder of features (n, f), after a fixed projection in front of the default ones."""

    encoder: nn.Module
    decoder: nn.Module
    projection: np.ndarray | None  # (f, m), orthonormal columns
    device: str

    def _project(self, features: np.ndarray) -> np.ndarray:
        return features if self.projection is None else features @ self.projection

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Latent features (n, l), float64."""
        self.encoder.eval()
        parts = []
        with torch.no_grad():
            for start in range(0, len(features), ROWS_AT_ONCE):
                rows = self._project(features[start : start + ROWS_AT_ONCE])
                parts.append(self.encoder(to_tensor(rows, self.device)).cpu().numpy().astype(np.float64))
        return np.concatenate(parts)

    def decode(self, latent: np.ndarray) -> np.ndarray:
        """Features (n, f) of latent features (n, l)."""
        self.decoder.eval()
        with torch.no_grad():
            features = self.decoder(to_tensor(latent, self.device)).cpu().numpy().astype(np.float64)
        return features if self.projection is None else features @ self.projection.T


class FeatureLearner:
    """Trains an autoencoder on features (n, f)."""

    def __init__(
        self,
        seed: int,
        features: np.ndarray,
        encoder: nn.Module | None,
        n_latent: int,
        device: str = "cpu",
        before: Autoencoder | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        chosen = np.arange(len(features))
        if len(chosen) > NEIGHBOUR_ROWS:
            chosen = np.sort(self.rng.choice(len(features), NEIGHBOUR_ROWS, replace=False))
        self.chosen = chosen
        axes = principal_axes(features[chosen], NEIGHBOUR_AXES)
        components = features[chosen] @ axes
        # The narrow components of raw features are noise to a small net, and cost time.
        projection = axes if encoder is None else None
        if before is not None:
            projection = before.projection
        self.inputs = to_tensor(
            features[chosen] if projection is None else features[chosen] @ projection, device
        )
        if before is not None:
            self.autoencoder = copy.deepcopy(before)
        else:
            self.autoencoder = self._new(seed, encoder, projection, n_latent, device)
        self.scale = 1 / float(self.inputs.var(dim=0, correction=0).sum().clamp(min=1e-12))
        if len(chosen) > 1:
            neighbours, distances = nearest_neighbours(components, N_NEIGHBOURS)
            self.neighbours = neighbours
            self.weights = np.cumsum(_graph_weights(distances), axis=1)

    def _new(
        self, seed: int, encoder: nn.Module | None, projection: np.ndarray | None, n_latent: int, device: str
    ) -> Autoencoder:
        n_inputs = self.inputs.shape[1]
        encoder = mlp(n_inputs, n_latent, N_HIDDEN, seed) if encoder is None else copy.deepcopy(encoder)
        encoder = encoder.to(device).eval()
        with torch.no_grad():
            n_out = int(encoder(self.inputs[:2]).shape[1])
        return Autoencoder(encoder, mlp(n_out, n_inputs, N_HIDDEN, seed + 1).to(device), projection, device)

    def _draw_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows (b,) and a neighbour of each (b,), the likelier the heavier its edge is."""
        first = self.rng.integers(len(self.chosen), size=BATCH)
        edges = self.weights[first]
        place = (edges < self.rng.random((BATCH, 1)) * edges[:, -1:]).sum(axis=1)
        return first, self.neighbours[first, place]

    def train(
        self, n_steps: int, centres: np.ndarray | None = None, labels: np.ndarray | None = None
    ) -> None:
        """Take training steps; where given, ``centres`` (K, l) pull the rows with their ``labels`` (n,)."""
        if len(self.chosen) < 2:
            return
        encoder, decoder = self.autoencoder.encoder, self.autoencoder.decoder
        encoder.train()
        decoder.train()
        optimizer = Adam([*encoder.parameters(), *decoder.parameters()], LEARNING_RATE)
        device = self.autoencoder.device
        targets = None
        if centres is not None and labels is not None:
            targets = to_tensor(centres[labels[self.chosen]], device)
        for step in range(n_steps):
            optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
            rows = np.concatenate(self._draw_pairs())
            optimizer.step(self._loss(torch.from_numpy(rows).to(device), targets))

    def _loss(self, rows: Tensor, targets: Tensor | None) -> Tensor:
        """The loss of rows (2 b,), the second half neighbours of the first."""
        inputs = self.inputs[rows]
        latent = self.autoencoder.encoder(inputs)
        rebuilt = (self.autoencoder.decoder(latent) - inputs).square().sum(dim=1).mean() * self.scale
        half = len(rows) // 2
        attraction = torch.log1p((latent[:half] - latent[half:]).square().sum(dim=1)).mean()
        others = torch.from_numpy(self.rng.integers(len(rows), size=(NEGATIVES, len(rows)))).to(rows.device)
        gaps = (latent - latent[others]).square().sum(dim=2)
        strangers = (rows[others] != rows).float()
        repulsion = ((torch.log1p(gaps) - torch.log(gaps + LEAST_SQUARE)) * strangers).sum(dim=0).mean()
        loss = rebuilt + attraction + repulsion
        if targets is not None:
            loss = loss + PULL * (latent - targets[rows]).square().sum(dim=1).mean()
        return loss
