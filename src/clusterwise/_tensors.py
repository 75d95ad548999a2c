"""The only border between numpy arrays and the networks' tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["to_numpy"]


def to_numpy(tensor: Tensor, dtype: Any = None) -> np.ndarray:
    """Copy a tensor to a numpy array."""
    array = tensor.detach().cpu().numpy()
    return array if dtype is None else array.astype(dtype)
