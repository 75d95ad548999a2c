"""Variants of rows that belong to the same cluster, for feature learning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import affine_grid, grid_sample

__all__ = ["ImageVariants"]

ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class ImageVariants:
    """Draws images that are shifted, turned, stretched and sheared a little, for ``DeepDPM(variants=...)``.

    Rows are grey images of ``height`` times ``width`` pixels, line by line. ``amount`` 1 means up to 15
    degrees, a tenth of the width and of the height, and a tenth of the size; small amounts are enough to
    find the directions in which an image changes.

    >>> images = np.random.default_rng(0).random((5, 12))
    >>> ImageVariants(3, 4)(images, np.random.default_rng(1)).shape
    (5, 12)
    """

    height: int
    width: int
    amount: float = 0.3

    def __call__(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A variant of each row (n, height * width)."""
        if rows.shape[1] != self.height * self.width:
            raise ValueError(
                f"ImageVariants({self.height}, {self.width}) takes rows of {self.height * self.width} "
                f"pixels, got {rows.shape[1]}."
            )
        variants = np.empty_like(rows, dtype=np.float64)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            images = torch.from_numpy(rows[part].astype(np.float32)).view(-1, 1, self.height, self.width)
            grid = affine_grid(self._maps(rng, len(images)), list(images.shape), align_corners=False)
            # Beyond the rim an image goes on as it ends.
            moved = grid_sample(images, grid, padding_mode="border", align_corners=False)
            variants[part] = moved.view(len(images), -1).numpy()
        return variants

    def _maps(self, rng: np.random.Generator, n: int) -> torch.Tensor:
        """Random affine maps (n, 2, 3) of coordinates that go from -1 to 1."""
        spread = self.amount * np.array([np.radians(15), 0.1, 0.1, 0.15, 0.2, 0.2])
        angle, wider, higher, shear, right, down = rng.uniform(-1, 1, (n, 6)).T * spread[:, None]
        cosine, sine = np.cos(angle), np.sin(angle)
        first = np.stack([cosine * (1 + wider), shear - sine * (1 + higher), right], axis=1)
        second = np.stack([sine * (1 + wider), cosine * (1 + higher), down], axis=1)
        return torch.from_numpy(np.stack([first, second], axis=1).astype(np.float32))
