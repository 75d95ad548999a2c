"""What a CHiGac network is worth on data sets that it was not trained on: likelihood, bounds, partitions.

All figures of a network come from the same held-out data sets, the same states of the loop and the same
noise, so that strategies of inference are compared on equal terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score

from benchmarks.scores import index_of_clusters
from clusterwise.metrics import matched_accuracy
from clusterwise.models.base import TrainingTask
from clusterwise.models.chigac import CHiGac
from clusterwise.models.chigac_inference import (
    Gaussian,
    Scene,
    elbo,
    learned_path,
    log_likelihood,
    log_weight,
    svi_path,
)
from clusterwise.models.chigac_states import random_prefix

__all__ = ["FIGURES", "Effort", "figures_of", "importance_weighted", "partition_of"]

FIGURES = ("log-likelihood", "ELBO", "reconstruction", "accuracy", "ARI", "k error", "DBI (cosine)")
PROPOSAL_RATE = 0.1


@dataclass(frozen=True)
class Effort:
    """How many random numbers go into one set of figures."""

    n_states: int = 3  # clusters that may come next, per data set
    n_samples: int = 50  # L of the importance-weighted estimate
    n_proposal_steps: int = 20  # SVI steps towards its proposal, the same for every strategy
    n_noise: int = 8  # draws of z behind the ELBO and the reconstruction


def _own_psi(model: CHiGac, scene: Scene, psi: Gaussian, generator: torch.Generator) -> Gaussian:
    """Variational parameters as the strategy that the network was trained by infers them."""
    config = model.config
    noise = torch.randn(config.n_inner_steps + 1, *psi.mean.shape, generator=generator)
    if config.inference == "amortized":
        return psi
    if config.inference == "iterative":
        return learned_path(scene, psi, noise, model.learned_update)[-1]
    return svi_path(scene, psi, noise, config.inner_rate)[-1]


def importance_weighted(scene: Scene, psi: Gaussian, noise: torch.Tensor) -> torch.Tensor:
    """Estimate of log p(h | S_I) from L samples (Burda et al. 2016); ``noise`` is (L, R, S, D)."""
    weights = torch.stack([log_weight(scene, psi, of_sample) for of_sample in noise])
    return torch.logsumexp(weights, dim=0) - torch.log(torch.tensor(float(len(noise))))


def _bounds(model: CHiGac, task: TrainingTask, effort: Effort, seed: int) -> dict[str, float]:
    """Log-likelihood, ELBO and reconstruction error of a cluster, in nats; means over states that go on."""
    generator = torch.Generator().manual_seed(seed)
    prefix = random_prefix(task.labels, task.n_clusters, effort.n_states, generator)
    candidates = model.candidates(model.encode(task.points, None), prefix, generator)
    scene, psi = candidates.scene.detached(), candidates.psi.detached()
    own = _own_psi(model, scene, psi, generator)
    noise = torch.randn(effort.n_noise, *psi.mean.shape, generator=generator)
    bound = torch.stack([elbo(scene, own, one) for one in noise]).mean(0)
    reconstruction = -torch.stack([log_likelihood(scene, own.at(one)) for one in noise]).mean(0)
    noise = torch.randn(effort.n_proposal_steps + 1, *psi.mean.shape, generator=generator)
    proposal = svi_path(scene, psi, noise, PROPOSAL_RATE)[-1]
    noise = torch.randn(effort.n_samples, *psi.mean.shape, generator=generator)
    estimate = importance_weighted(scene, proposal, noise)
    goes_on = ~prefix.is_over
    of_pioneer = candidates.of_pioneer.detach()
    values = {
        "log-likelihood": estimate + of_pioneer,
        "ELBO": bound + of_pioneer,
        "reconstruction": reconstruction,
    }
    return {name: float(value[goes_on].mean()) for name, value in values.items()}


def partition_of(model: CHiGac, points: torch.Tensor) -> np.ndarray:
    """Labels (n,) of the likeliest path for points (n, d)."""
    mask = torch.ones(1, len(points), dtype=torch.bool)
    labels: np.ndarray = model.infer(points.unsqueeze(0), mask)[0].labels.numpy()
    return labels


def _partitions(model: CHiGac, task: TrainingTask) -> dict[str, float]:
    present = torch.ones(task.points.shape[:2], dtype=torch.bool)
    found = [inference.labels.numpy() for inference in model.infer(task.points, present)]
    true, points = list(task.labels.numpy()), list(task.points.numpy().astype(np.float64))
    pairs = list(zip(true, found, strict=True))
    indices = [index_of_clusters(x, labels, "cosine") for x, labels in zip(points, found, strict=True)]
    known = [value for value in indices if np.isfinite(value)]
    return {
        "accuracy": float(np.mean([matched_accuracy(*pair) for pair in pairs])),
        "ARI": float(np.mean([adjusted_rand_score(*pair) for pair in pairs])),
        "k error": float(np.mean([abs(len(np.unique(y)) - len(np.unique(labels))) for y, labels in pairs])),
        "DBI (cosine)": float(np.median(known)) if known else float("nan"),
    }


def figures_of(
    model: CHiGac, task: TrainingTask, effort: Effort | None = None, seed: int = 0
) -> dict[str, float]:
    """All of FIGURES on held-out data sets, in nats per cluster where they are in nats."""
    with torch.no_grad():
        return _bounds(model, task, effort or Effort(), seed) | _partitions(model, task)
