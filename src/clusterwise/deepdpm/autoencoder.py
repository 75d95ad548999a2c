"""Features learned from raw rows: an autoencoder that follows a layout and takes turns with the clustering.

The rows' neighbour graph has a layout t (n, l) (``layout``). The autoencoder learns codes z of rows x from ::

    |z - t|^2  +  weight |decode(z) - x|^2,

and once there are clusters with means mu the places t move towards them, t <- t + pull (mu - t), and so on in
turn. Reconstruction and the pull alone, as in the authors' code, leave clusters of raw images lying in each
other; neighbours tell them apart. The encoder makes the layout a function of x: new rows have codes too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from clusterwise.deepdpm.method import fit_mixture, weighted_rows
from clusterwise.deepdpm.net_training import History, Settings, Snapshot
from clusterwise.deepdpm.nets import Adam, to_tensor
from clusterwise.deepdpm.row_layout import Vary, layout_of_rows, principal_axes
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["Autoencoder", "FeatureLearner", "alternate"]

# Training steps of the autoencoder before the first clustering, and in each turn after it.
FIRST_STEPS, STEPS = 2000, 500
TURNS = 2
# Rows that the autoencoder is trained on, at most.
MAX_ROWS = 20_000
# The default encoder sees this many principal components: the narrow ones are noise to it, and cost time.
INPUT_AXES = 100
N_HIDDEN = 256
BATCH = 512
LEARNING_RATE = 2e-3
RECONSTRUCTION = 0.01
PULL = 0.3
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Autoencoder:
    """An encoder and a decoder of features (n, f), after a fixed projection in front of the default ones."""

    encoder: nn.Module
    decoder: nn.Module
    projection: np.ndarray | None  # (f, m), orthonormal columns
    n_latent: int
    device: str

    @classmethod
    def draw(
        cls, seed: int, features: np.ndarray, encoder: nn.Module | None, n_latent: int, device: str
    ) -> Autoencoder:
        """An untrained autoencoder for features (n, f), with a copy of the user's encoder if there is one."""
        projection = principal_axes(features, INPUT_AXES) if encoder is None else None
        n_inputs = features.shape[1] if projection is None else projection.shape[1]
        with torch.random.fork_rng(devices=[]):  # weights depend on the seed alone
            torch.manual_seed(seed)
            encoder = _mlp(n_inputs, n_latent) if encoder is None else copy.deepcopy(encoder)
            encoder = encoder.to(device).eval()
            with torch.no_grad():
                n_latent = int(encoder(torch.zeros(2, n_inputs, device=device)).shape[1])
            decoder = _mlp(n_latent, n_inputs).to(device)
        return cls(encoder, decoder, projection, n_latent, device)

    def project(self, features: np.ndarray) -> np.ndarray:
        """What the encoder sees of features (n, f)."""
        return features if self.projection is None else features @ self.projection

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Latent features (n, l) of features (n, f), float64."""
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


def _mlp(n_in: int, n_out: int) -> nn.Module:
    layers = [nn.Linear(n_in, N_HIDDEN), nn.ReLU(), nn.Linear(N_HIDDEN, N_HIDDEN), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(N_HIDDEN, n_out))


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
        n = len(features)
        self.rows = np.sort(self.rng.choice(n, min(n, MAX_ROWS), replace=False))
        features = features[self.rows]
        if before is None:
            self.autoencoder = Autoencoder.draw(seed, features, encoder, n_latent, device)
            self.places = layout_of_rows(self.rng, features, self.autoencoder.n_latent, vary, device)
        else:
            self.autoencoder = copy.deepcopy(before)
            self.places = before.encode(features)
        self.inputs = to_tensor(self.autoencoder.project(features), device)

    def pull(self, centres: np.ndarray, labels: np.ndarray) -> None:
        """Move the places of the rows towards the ``centres`` (K, l) of their clusters ``labels`` (n,)."""
        self.places += PULL * (centres[labels[self.rows]] - self.places)

    def train(self, n_steps: int) -> None:
        """Take training steps at a learning rate that falls to nothing."""
        encoder, decoder = self.autoencoder.encoder.train(), self.autoencoder.decoder.train()
        optimizer = Adam([*encoder.parameters(), *decoder.parameters()], LEARNING_RATE)
        places = to_tensor(self.places, self.autoencoder.device)
        scale = RECONSTRUCTION / float(self.inputs.var(dim=0, correction=0).sum().clamp(min=1e-12))
        for step in range(n_steps):
            optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
            batch = torch.from_numpy(self.rng.integers(len(self.rows), size=BATCH)).to(places.device)
            inputs = self.inputs[batch]
            latent = encoder(inputs)
            rebuilt = (decoder(latent) - inputs).square().sum(dim=1).mean()
            optimizer.step((latent - places[batch]).square().mean() + scale * rebuilt)


def alternate(
    learner: FeatureLearner,
    seed: int,
    features: np.ndarray,
    settings: Settings,
    k_init: int,
    before: Snapshot | None,
    callback: Callable[[History], object],
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
        learned = Rows(learner.autoencoder.encode(features))
        max_epochs = settings.max_epochs
        if snapshot is not None:  # the features have moved since then
            max_epochs += len(snapshot.history)
            _, statistics = weighted_rows(learned, snapshot.weights, settings.prior)
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
