"""What cluster-wise loops share: draws of a point, labels 0 .. K-1, a Gaussian for each cluster."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.models.base import GaussianSummaries, Inference, Step

__all__ = ["compact_labels", "drawn_index", "summarized_paths"]


def drawn_index(logits: Tensor, uniform: Tensor) -> Tensor:
    """One point per row (R,): where the cumulative probability passes ``uniform``; -1 takes the likeliest."""
    likeliest = logits.argmax(1)
    takes_likeliest = uniform < 0
    if bool(takes_likeliest.all()):
        return likeliest
    cumulative = torch.softmax(logits.to(torch.float64), dim=1).cumsum(1)
    passed = cumulative > uniform[:, None] * cumulative[:, -1:]
    return torch.where(takes_likeliest, likeliest, passed.to(torch.uint8).argmax(1))


def compact_labels(columns: Tensor, present: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1; absent points get 0."""
    labels = torch.zeros_like(columns)
    labels[present] = torch.unique(columns[present], return_inverse=True)[1]
    return labels


def summarized_paths(
    points: Tensor, present: Tensor, paths: list[Tensor], steps: list[Step], cap_reached: bool
) -> Inference:
    """Summarize each cluster of the first path by its moments, as if one point had the pooled variance."""
    inside, labels = points[present], paths[0][present]
    members = functional.one_hot(labels).to(points.dtype)  # (n, K)
    counts = members.sum(0).unsqueeze(1)
    means = members.T @ inside / counts
    scatter = members.T @ (inside - means[labels]).square()
    log_variances = torch.log((scatter + scatter.sum(0) / len(inside)) / (counts + 1))
    summaries = GaussianSummaries(means, 0.5 * log_variances.clamp(min=-14.0))
    log_proportions = torch.log(counts.squeeze(1) / len(inside))
    return Inference(
        paths[0], summaries, log_proportions, tuple(steps), cap_reached=cap_reached, draws=tuple(paths[1:])
    )
