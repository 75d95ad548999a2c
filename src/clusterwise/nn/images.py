"""Images (n, h * w * c) turned, mirrored, spliced, and slightly distorted, to train encoders on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["distorted", "spliced", "turned"]

# At distortion 1, standard deviations: of the angle, of the logarithm of the sizes, of the shear, and of the
# shift in half images.
ANGLE, LOG_SIZE, SHEAR, SHIFT = 0.17, 0.12, 0.12, 0.08


def turned(rows: Tensor, turns: Tensor, shape: Sequence[int]) -> Tensor:
    """Turn images (n, h * w * c) by quarters, ``turns`` % 4 of them, and mirror those with 4 or more.

    Images that are not square are mirrored or turned by half only, so that their shape stays.
    """
    images = rows.view(len(rows), *shape)
    square = shape[0] == shape[1]
    result = images.clone()
    for turn in range(1, 8):
        chosen = turns == turn
        if bool(chosen.any()):
            some = images[chosen]
            some = some.flip(2) if turn >= 4 else some
            result[chosen] = torch.rot90(some, turn % 4 if square else 2 * (turn % 2), (1, 2))
    return result.view_as(rows)


def spliced(rows: Tensor, others: Tensor, seams: Tensor, shape: Sequence[int]) -> Tensor:
    """Images (n, h * w * c) that go on as others (n, h * w * c) beyond a seam.

    ``seams`` (n,) are places from the top, or from the left if they are negative; 0 leaves an image whole.
    """
    height, width = shape[:2]
    first, second = rows.view(len(rows), *shape), others.view(len(rows), *shape)
    down = torch.arange(height)[None, :, None] >= torch.where(seams > 0, seams, height)[:, None, None]
    right = torch.arange(width)[None, None, :] >= torch.where(seams < 0, -seams, width)[:, None, None]
    beyond = down | right
    beyond = beyond.view(*beyond.shape, *([1] * (len(shape) - 2)))
    return torch.where(beyond, second, first).view_as(rows)


def distorted(rows: Tensor, amount: float, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Images (n, h * w * c), each turned, stretched, sheared and shifted a little at random.

    What comes in from outside has the value of the image's first pixel.
    """
    n = len(rows)
    height, width, *colours = shape
    images = rows.view(n, height, width, *(colours or [1])).permute(0, 3, 1, 2)
    noise = amount * torch.randn(n, 6, generator=generator)
    angle, shear = ANGLE * noise[:, 0], SHEAR * noise[:, 1]
    across, down = torch.exp(LOG_SIZE * noise[:, 2]), torch.exp(LOG_SIZE * noise[:, 3])
    cos, sin = torch.cos(angle), torch.sin(angle)
    maps = torch.stack(
        [
            torch.stack([across * cos, -across * sin + shear, SHIFT * noise[:, 4]], dim=1),
            torch.stack([down * sin, down * cos, SHIFT * noise[:, 5]], dim=1),
        ],
        dim=1,
    )
    grid = functional.affine_grid(maps, list(images.shape), align_corners=False)
    ground = images[:, :, :1, :1]
    moved = functional.grid_sample(images - ground, grid, align_corners=False) + ground
    return moved.permute(0, 2, 3, 1).reshape(n, math.prod(shape))
