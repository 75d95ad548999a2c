"""Features learned from raw rows: an autoencoder that follows a layout and takes turns with DeepDPM.

The rows' neighbour graph has a layout t (n, l) (``layout``). The autoencoder learns codes z of rows x from ::

    |z - t|^2  +  weight |decode(z) - x|^2,

and once there are clusters with means mu the places t move towards them, t <- t + pull (mu - t), and so on in
turn. Reconstruction and the pull alone, as in the authors' code, leave clusters of raw images lying in each
other; neighbours tell them apart. The encoder makes the layout a function of x: new rows have codes too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from clusterwise.deepdpm.adam import Adam
from clusterwise.deepdpm.layout import layout, neighbour_graph
from clusterwise.deepdpm.neighbours import (
    Vary,
    nearest_neighbours,
    principal_axes,
    tangent_neighbours,
    tangents,
)
from clusterwise.deepdpm.training import to_tensor

__all__ = ["Autoencoder", "FeatureLearner", "mlp"]

N_NEIGHBOURS = 15
# Neighbours are sought in this many principal components, among at most this many rows.
NEIGHBOUR_AXES, NEIGHBOUR_ROWS = 50, 20_000
# The default encoder sees this many principal components: the narrow ones are noise to it, and cost time.
INPUT_AXES = 100
N_HIDDEN = 256
BATCH = 512
LEARNING_RATE = 2e-3
RECONSTRUCTION = 0.01
PULL = 0.3
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


@dataclass
class Autoencoder:
    """An encoder and a decoder of features (n, f), after a fixed projection in front of the default ones."""

    encoder: nn.Module
    decoder: nn.Module
    projection: np.ndarray | None  # (f, m), orthonormal columns
    device: str

    def project(self, features: np.ndarray) -> np.ndarray:
        """What the encoder sees of features (n, f)."""
        return features if self.projection is None else features @ self.projection

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Latent features (n, l), float64."""
        self.encoder.eval()
        parts = []
        with torch.no_grad():
            for start in range(0, len(features), ROWS_AT_ONCE):
                rows = self.project(features[start : start + ROWS_AT_ONCE])
                parts.append(self.encoder(to_tensor(rows, self.device)).cpu().numpy().astype(np.float64))
        return np.concatenate(parts)

    def decode(self, latent: np.ndarray) -> np.ndarray:
        """Features (n, f) of latent features (n, l)."""
        self.decoder.eval()
        with torch.no_grad():
            features = self.decoder(to_tensor(latent, self.device)).cpu().numpy().astype(np.float64)
        return features if self.projection is None else features @ self.projection.T


class FeatureLearner:
    """Trains an autoencoder on features (n, f); ``vary`` draws variants of them, where there are any."""

    def __init__(
        self,
        seed: int,
        features: np.ndarray,
        encoder: nn.Module | None,
        n_latent: int,
        device: str = "cpu",
        before: Autoencoder | None = None,
        vary: Vary | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        chosen = np.arange(len(features))
        if len(chosen) > NEIGHBOUR_ROWS:
            chosen = np.sort(self.rng.choice(len(features), NEIGHBOUR_ROWS, replace=False))
        self.chosen = chosen
        if before is None:
            self.autoencoder = _new(seed, features[chosen], encoder, n_latent, device)
            self.targets = self._lay_out(features[chosen], vary)
        else:
            self.autoencoder = copy.deepcopy(before)
            self.targets = before.encode(features[chosen])
        self.inputs = to_tensor(self.autoencoder.project(features[chosen]), device)
        self.scale = 1 / float(self.inputs.var(dim=0, correction=0).sum().clamp(min=1e-12))

    def _lay_out(self, features: np.ndarray, vary: Vary | None) -> np.ndarray:
        """Places (n, l) for the codes of the rows."""
        n, n_latent = len(features), self.autoencoder.encode(features[:2]).shape[1]
        if n < 3:  # no graph to speak of
            return np.zeros((n, n_latent))
        axes = principal_axes(features, NEIGHBOUR_AXES)
        components = features @ axes
        if vary is None:
            found = nearest_neighbours(components, N_NEIGHBOURS)
        else:
            found = tangent_neighbours(components, tangents(self.rng, features, axes, vary), N_NEIGHBOURS)
        start = np.zeros((n, n_latent))
        start[:, : components.shape[1]] = components[:, :n_latent]
        return layout(self.rng, neighbour_graph(*found), start, self.autoencoder.device)

    def pull(self, centres: np.ndarray, labels: np.ndarray) -> None:
        """Move the places of the rows towards the ``centres`` (K, l) of their clusters ``labels`` (n,)."""
        self.targets += PULL * (centres[labels[self.chosen]] - self.targets)

    def train(self, n_steps: int) -> None:
        """Take training steps."""
        encoder, decoder = self.autoencoder.encoder, self.autoencoder.decoder
        encoder.train()
        decoder.train()
        optimizer = Adam([*encoder.parameters(), *decoder.parameters()], LEARNING_RATE)
        targets = to_tensor(self.targets, self.autoencoder.device)
        for step in range(n_steps):
            optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
            rows = torch.from_numpy(self.rng.integers(len(self.chosen), size=BATCH)).to(targets.device)
            inputs = self.inputs[rows]
            latent = encoder(inputs)
            rebuilt = (decoder(latent) - inputs).square().sum(dim=1).mean() * self.scale
            optimizer.step((latent - targets[rows]).square().mean() + RECONSTRUCTION * rebuilt)


def _new(
    seed: int, features: np.ndarray, encoder: nn.Module | None, n_latent: int, device: str
) -> Autoencoder:
    """An autoencoder for features (n, f), with a copy of the user's encoder if there is one."""
    projection = principal_axes(features, INPUT_AXES) if encoder is None else None
    n_inputs = features.shape[1] if projection is None else projection.shape[1]
    encoder = mlp(n_inputs, n_latent, N_HIDDEN, seed) if encoder is None else copy.deepcopy(encoder)
    encoder = encoder.to(device).eval()
    with torch.no_grad():
        n_out = int(encoder(torch.zeros(2, n_inputs, device=device)).shape[1])
    return Autoencoder(encoder, mlp(n_out, n_inputs, N_HIDDEN, seed + 1).to(device), projection, device)
