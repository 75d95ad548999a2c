"""The only border between numpy arrays and the networks' tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["pad_sets", "to_numpy"]


def pad_sets(sets: Sequence[np.ndarray], device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """Stack data sets (n_b, d) into points (B, max n, d) and a mask (B, max n), True where present."""
    longest = max(len(points) for points in sets)
    padded = np.zeros((len(sets), longest, sets[0].shape[1]), dtype=np.float32)
    mask = np.zeros((len(sets), longest), dtype=bool)
    for b, points in enumerate(sets):
        padded[b, : len(points)] = points
        mask[b, : len(points)] = True
    return torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)


def to_numpy(tensor: Tensor, dtype: Any = None) -> np.ndarray:
    """Copy a tensor to a numpy array."""
    array = tensor.detach().cpu().numpy()
    return array if dtype is None else array.astype(dtype)
