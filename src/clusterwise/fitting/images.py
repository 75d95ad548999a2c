"""Clusters of images as densities of images, where the weights have a decoder: samples, log-probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import logsumexp

from clusterwise._tensors import pad_sets
from clusterwise.gaussian.clusters import Described
from clusterwise.nn.statistician import NeuralStatistician
from clusterwise.papers.dac import DAC
from clusterwise.rows import Batch

__all__ = ["ImageClusters", "ImageDensities", "image_clusters"]

# Members that say what a cluster looks like; of more, every so many of them.
MOST_MEMBERS = 256
# Draws of z behind a log-probability: the same for every image, each is treated by itself.
N_DRAWS = 16
# Images that are looked at together.
IMAGES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class ImageClusters:
    """K clusters, each with the context that a network made of its members."""

    decoder: NeuralStatistician
    contexts: torch.Tensor  # (K, c)
    proportions: np.ndarray  # (K,)

    @torch.inference_mode()
    def sample(self, rng: np.random.Generator, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw images (n_samples, D) and their clusters (n_samples,), sorted by cluster."""
        counts = rng.multinomial(n_samples, self.proportions)
        noise = rng.standard_normal((n_samples, self.decoder.n_latent), dtype=np.float32)
        drawn = [
            self.decoder.draw(context, torch.from_numpy(own).to(context.device)).cpu().numpy()
            for context, own in zip(self.contexts, np.split(noise, counts.cumsum()[:-1]), strict=True)
        ]
        return np.concatenate(drawn).astype(np.float64), np.repeat(np.arange(len(counts)), counts)

    @torch.inference_mode()
    def log_density(self, rows: np.ndarray) -> np.ndarray:
        """A lower bound of the log-probability (n,) of each image (n, D), in nats."""
        device = self.contexts.device
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(N_DRAWS, 1, self.decoder.n_latent, generator=generator).to(device)
        joint = np.empty((len(rows), len(self.contexts)))
        for start in range(0, len(rows), IMAGES_AT_ONCE):
            part = torch.from_numpy(rows[start : start + IMAGES_AT_ONCE].astype(np.float32)).to(device)
            for k, context in enumerate(self.contexts):
                bound = self.decoder.log_density(part, context, noise.expand(-1, len(part), -1))
                joint[start : start + len(part), k] = bound.cpu().numpy()
        return logsumexp(joint + np.log(self.proportions), axis=1)


@torch.inference_mode()
def image_clusters(
    network: DAC, features: np.ndarray, labels: np.ndarray, clusters: Described
) -> ImageClusters:
    """Contexts of K clusters by their members: features (n, f) are encodings, labels (n,) are 0 .. K-1.

    A cluster without a member among these rows is told by its centre.
    """
    assert network.statistician is not None
    device = next(network.parameters()).device
    contexts = []
    for k, centre in enumerate(clusters.means):
        members = features[labels == k]
        members = members if len(members) > 0 else centre[None]
        some = members[np.linspace(0, len(members) - 1, min(MOST_MEMBERS, len(members))).astype(int)]
        points, mask = pad_sets([some], str(device))
        contexts.append(network.contexts(points, mask)[0])
    return ImageClusters(network.statistician, torch.stack(contexts), clusters.proportions)


@dataclass(frozen=True)
class ImageDensities:
    """The task that returns bounds of log-probabilities (m,) of the images in a batch."""

    read: Callable[[Batch], np.ndarray]
    clusters: ImageClusters

    def __call__(self, batch: Batch) -> np.ndarray:
        """One number for each image."""
        return self.clusters.log_density(self.read(batch))
