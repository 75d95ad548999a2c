"""The space that an encoder was trained to make: clusters live there, and there is no way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from clusterwise.nn.feature_encoder import FeatureEncoder

__all__ = ["EncodedSpace"]

# Rows are encoded in blocks of this size, the last one filled up: how a product is taken, and so its
# rounding, does not depend on how many other rows there are.
ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class EncodedSpace:
    """Encodings of the user's rows; see ``FeatureSpace``. Means and draws stay in this space."""

    encoder: FeatureEncoder

    @property
    def log_volume(self) -> float:
        """Zero: densities are those of the encodings."""
        return 0.0

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Encodings (n, f) of points (n, d), each row on its own."""
        largest = np.finfo(np.float32).max
        rows = np.clip(points, -largest, largest).astype(np.float32)
        n = len(rows)
        result = np.empty((n, self.encoder.config.n_out))
        device = self.encoder.shift.device
        with torch.inference_mode():
            for start in range(0, n, ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                block = np.zeros((ROWS_AT_ONCE, rows.shape[1]), dtype=np.float32)
                block[: len(part)] = part
                encoded = self.encoder(torch.from_numpy(block).to(device)).cpu().numpy()
                result[start : start + len(part)] = encoded[: len(part)]
        return result

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """The encodings themselves: no network has learned what a row with given ones looks like."""
        return features

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, f, f) of the encodings."""
        return of_features
