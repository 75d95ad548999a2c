"""What cluster-wise loops share: draws of a point, and labels 0 .. K-1."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["compact_labels", "drawn_points"]


def drawn_points(logits: Tensor, uniform: Tensor) -> Tensor:
    """One point per row (R,): where the cumulative probability passes ``uniform``; -1 takes the likeliest."""
    likeliest = logits.argmax(1)
    if bool((uniform < 0).all()):
        return likeliest
    cumulative = torch.softmax(logits.double(), dim=1).cumsum(1)
    thresholds = uniform.clamp(min=0).to(cumulative).unsqueeze(1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, thresholds, right=True).squeeze(1)
    return torch.where(uniform < 0, likeliest, drawn)


def compact_labels(columns: Tensor, present: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1; absent points get 0."""
    labels = torch.zeros_like(columns)
    labels[present] = torch.unique(columns[present], return_inverse=True)[1]
    return labels
