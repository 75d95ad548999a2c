"""What cluster-wise loops share: draws of a point, and labels 0 .. K-1."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

__all__ = ["compact_labels", "drawn_points"]


def drawn_points(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """One point per row (R,): where the cumulative probability passes ``uniform``; -1 takes the likeliest."""
    likeliest: np.ndarray = logits.argmax(axis=1)
    if (uniform < 0).all():
        return likeliest
    exceeding = logits - logits[np.arange(len(logits)), likeliest, None]
    cumulative = np.exp(exceeding, dtype=np.float64).cumsum(axis=1)
    passed = cumulative > uniform[:, None] * cumulative[:, -1:]
    return np.where(uniform < 0, likeliest, passed.argmax(axis=1))


def compact_labels(columns: Tensor, present: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1; absent points get 0."""
    labels = torch.zeros_like(columns)
    labels[present] = torch.unique(columns[present], return_inverse=True)[1]
    return labels
