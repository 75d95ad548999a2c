"""What cluster-wise loops share: draws of a point, labels 0 .. K-1, a Gaussian for each cluster."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from clusterwise.models.base import GaussianSummaries, Inference, Step

__all__ = ["compact_labels", "drawn_index", "drawn_points", "summarized_paths"]

# Of a cluster of equal points.
SMALLEST_VARIANCE = math.exp(-14)


def drawn_points(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One point per row (R,): where the cumulative probability passes ``uniform``; -1 takes the likeliest."""
    likeliest: np.ndarray = logits.argmax(axis=1)
    if (uniform < 0).all():
        return likeliest
    exceeding = logits - logits[np.arange(len(logits)), likeliest, None]
    cumulative = np.exp(exceeding, dtype=np.float64).cumsum(axis=1)
    passed = cumulative > uniform[:, None] * cumulative[:, -1:]
    return np.where(uniform < 0, likeliest, passed.argmax(axis=1))


def drawn_index(logits: Tensor, uniform: Tensor) -> Tensor:
    """Call ``drawn_points`` on tensors."""
    drawn = drawn_points(logits.cpu().numpy(), uniform.cpu().numpy())
    return torch.from_numpy(drawn).to(logits.device)


def compact_labels(columns: Tensor, present: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1; absent points get 0."""
    labels = torch.zeros_like(columns)
    labels[present] = torch.unique(columns[present], return_inverse=True)[1]
    return labels


def summarized_paths(
    points: Tensor, present: Tensor, paths: list[Tensor], steps: list[Step], cap_reached: bool
) -> Inference:
    """Summarize each cluster of the first path by its moments, as if one point had the pooled variance."""
    # In numpy, whose calls take less time than torch's, and here all the time is in the calls.
    x, labels, rows = (tensor.cpu().numpy() for tensor in (points, paths[0], present))
    if not rows.all():
        x, labels = x[rows], labels[rows]
    members = (labels == np.arange(labels.max() + 1)[:, None]).astype(x.dtype)  # (K, n)
    counts = members.sum(axis=1, keepdims=True)
    means = members @ x / counts
    scatter = members @ np.square(x - means[labels])
    variances = (scatter + scatter.sum(axis=0) / len(x)) / (counts + 1)
    log_sds = 0.5 * np.log(np.maximum(variances, SMALLEST_VARIANCE))
    log_proportions = np.log(counts[:, 0] / len(x))
    of_clusters = [torch.from_numpy(a).to(points.device) for a in (means, log_sds, log_proportions)]
    return Inference(
        paths[0],
        GaussianSummaries(*of_clusters[:2]),
        of_clusters[2],
        tuple(steps),
        cap_reached=cap_reached,
        draws=tuple(paths[1:]),
    )
