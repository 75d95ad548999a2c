"""From the features of a row, a table's columns or an image's pixels, to the space where networks cluster.

Each row is encoded on its own. The encoder is trained together with the network that clusters what it gives,
so that rows of one class, also of a class that was not there, come to lie together. How the columns are
centred and scaled is learned from the training table and stays with the weights: new data are never scaled
by themselves, a batch with one class in it must not be stretched to the width of many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["EncoderConfig", "FeatureEncoder", "Start"]

# Rows of images that go through the convolutions at a time where no gradient is needed.
ROWS_AT_A_TIME = 512
# Encodings of a network stay within this many spreads, on average over their coordinates.
REACH = 4.0
# Inputs farther out than this many spreads of the training table count as lying there.
FARTHEST = 30.0
# Sides of the last layer of a convolution, at most.
MAX_CELLS = 4


@dataclass(frozen=True)
class EncoderConfig:
    """What defines an encoder; stored in the header of the weights file."""

    n_features: int = 2  # columns of the table, or pixels of an image
    kind: Literal["identity", "mlp", "convolution"] = "mlp"
    image_shape: tuple[int, ...] | None = None  # (height, width) or (height, width, colours)
    n_encoded: int = 32  # features that the clustering network sees
    width: int = 128  # of the hidden layers of the MLP
    n_hidden: int = 2
    channels: tuple[int, ...] = (32, 64, 96)
    # Of the loss that draws rows of a class together, next to the clustering loss.
    metric_weight: float = field(default=1.0, metadata={"least": 0})

    def __post_init__(self) -> None:
        if self.kind == "convolution":
            if self.image_shape is None or len(self.image_shape) not in (2, 3):
                raise ValueError("a convolution needs image_shape, height and width (and colours)")
            if math.prod(self.image_shape) != self.n_features:
                raise ValueError(
                    f"images of shape {self.image_shape} have {math.prod(self.image_shape)} features, "
                    f"not {self.n_features}"
                )

    @property
    def n_out(self) -> int:
        """Number of features that come out."""
        return self.n_features if self.kind == "identity" else self.n_encoded


@dataclass(frozen=True)
class Start:
    """How the columns of a table are scaled and turned before anything else is learned."""

    per_feature: bool = False  # whether columns have a scale each
    share: float = 1.0  # how far the covariance within classes is shrunk to none at all
    directions: bool = False  # identity only: whether rows are brought to one length


class FeatureEncoder(nn.Module):
    """Standardization, and an MLP or convolutions; what comes out is of about unit spread."""

    shift: Tensor
    scale: Tensor
    out_shift: Tensor
    out_scale: Tensor
    directions: Tensor

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("shift", torch.zeros(config.n_features))
        self.register_buffer("scale", torch.ones(config.n_features))
        self.register_buffer("out_shift", torch.zeros(config.n_out))
        self.register_buffer("out_scale", torch.ones(()))
        self.log_temperature = nn.Parameter(torch.tensor(0.0))  # of the metric loss
        self.linear: nn.Linear | None = None
        self.layers: nn.Module | None = None
        if config.kind != "convolution":
            self.linear = nn.Linear(config.n_features, config.n_out)
        if config.kind == "mlp":
            self.layers = _mlp(config)
        if config.kind == "identity" and self.linear is not None:
            self.linear.requires_grad_(False)
            # 1 where only the directions of rows from the centre count, not how far away they are.
            self.register_buffer("directions", torch.zeros(()))
        elif config.kind == "convolution":
            self.layers = _convolutions(config)

    @property
    def n_features(self) -> int:
        """Number of features that the encoder takes."""
        return self.config.n_features

    def standardized(self, rows: Tensor) -> Tensor:
        """Rows (n, n_features) in units of the training table."""
        return ((rows - self.shift) / self.scale).clamp(-FARTHEST, FARTHEST)

    def raw(self, rows: Tensor) -> Tensor:
        """What the layers make of rows (n, n_features), before it is brought to unit spread."""
        x = self.standardized(rows)
        if self.linear is not None:
            # A linear map that a few steps cannot spoil, and what a nonlinear one adds.
            encoded: Tensor = self.linear(x)
            return encoded if self.layers is None else encoded + self.layers(x)
        assert self.layers is not None
        height, width, *colours = self.config.image_shape or ()
        images = x.view(len(x), height, width, *(colours or [1])).permute(0, 3, 1, 2)
        encoded = self.layers(images.contiguous(memory_format=torch.channels_last))
        return encoded

    def forward(self, rows: Tensor) -> Tensor:
        """Map rows (n, n_features) to (n, n_out), each on its own."""
        if torch.is_grad_enabled() or len(rows) <= ROWS_AT_A_TIME:
            encoded = (self.raw(rows) - self.out_shift) / self.out_scale
            if self.config.kind == "identity":
                unit = functional.normalize(encoded, dim=-1) * math.sqrt(encoded.shape[-1])
                return torch.where(self.directions > 0, unit, encoded)
            # Far out everything looks alike: nothing that a row holds may swamp the others of its data set.
            return encoded * torch.rsqrt(1 + encoded.square().mean(-1, keepdim=True) / REACH**2)
        return torch.cat([self(part) for part in rows.split(ROWS_AT_A_TIME)])

    @torch.no_grad()
    def start(
        self, rows: Tensor, labels: Tensor, loss_of: Callable[[FeatureEncoder], float] | None = None
    ) -> Start:
        """Learn the scales of a table of rows (n, n_features), and a linear map to begin with.

        Pixels have one scale in common. Columns have one in common or one each, and are turned towards what
        tells classes apart as far as that helps: ``loss_of`` gives an encoder's loss on other classes.
        """
        losses: dict[Start, float] = {}
        if self.linear is not None and loss_of is not None:
            for start in STARTS:
                self.begin(rows, labels, start)
                losses[start] = loss_of(self)
        best = min(losses, key=lambda start: losses[start], default=STARTS[-1])
        self.begin(rows, labels, best)
        return best

    @torch.no_grad()
    def begin(self, rows: Tensor, labels: Tensor, start: Start) -> None:
        """Begin with the scales, and for tables one linear map, of rows (n, n_features) with labels (n,)."""
        self._scale(rows, start.per_feature and self.linear is not None)
        if self.config.kind == "identity":
            self.directions.fill_(float(start.directions))
        if self.linear is not None:
            axes = discriminants(self.standardized(rows), labels, self.config.n_out, start.share)
            self.linear.weight.zero_()
            self.linear.weight[: axes.shape[1]].copy_(axes.T)
            self.linear.bias.zero_()
        self._to_unit_spread(rows)

    def _scale(self, rows: Tensor, per_feature: bool) -> None:
        self.shift.copy_(rows.mean(0) if self.config.image_shape is None else rows.mean())
        spread = rows.sub(self.shift).square().mean(0)
        spread = (spread if per_feature else spread.mean().expand_as(spread)).sqrt()
        self.scale.copy_(torch.where(spread > 1e-12 * rows.abs().amax(0).clamp(min=1e-12), spread, 1.0))

    def _to_unit_spread(self, rows: Tensor) -> None:
        encoded = self.raw(rows)
        self.out_shift.copy_(encoded.mean(0))
        self.out_scale.copy_((encoded - self.out_shift).square().mean().sqrt().clamp(min=1e-6))


STARTS = tuple(
    Start(per_feature, share)
    for per_feature, share in (
        (False, 1.0),
        (True, 1.0),
        (False, 0.5),
        (False, 0.2),
        (True, 0.5),
        (True, 0.1),
    )
)


def discriminants(rows: Tensor, labels: Tensor, n_axes: int, share: float = 0.1) -> Tensor:
    """Axes (d, at most n_axes) along which classes differ most, in units of the spread within a class.

    Fisher's discriminants with a within-class covariance that is shrunk towards a multiple of the identity,
    by ``share``; 1 is a rotation.
    """
    centred = (rows - rows.mean(0)).to(torch.float64)
    n_classes = int(labels.max()) + 1
    sums = torch.zeros(n_classes, rows.shape[1], dtype=torch.float64).index_add_(0, labels, centred)
    sizes = torch.bincount(labels, minlength=n_classes).clamp(min=1)
    means = sums / sizes[:, None]
    within = centred - means[labels]
    covariance = within.T @ within / len(rows)
    level = covariance.diagonal().mean().clamp(min=1e-12)
    covariance = (1 - share) * covariance + share * level * torch.eye(len(covariance), dtype=torch.float64)
    values, vectors = torch.linalg.eigh(covariance)
    whiten = vectors / values.sqrt()
    between = (means * sizes.sqrt()[:, None]) @ whiten
    # Classes that are there weigh most; the directions that they leave open follow by their total spread.
    total = (centred @ whiten).T @ (centred @ whiten) / len(rows)
    _, axes = torch.linalg.eigh(between.T @ between / len(rows) + 0.1 * total)
    return (whiten @ axes.flip(1)[:, :n_axes]).to(rows.dtype)


def _mlp(config: EncoderConfig) -> nn.Sequential:
    layers: list[nn.Module] = []
    width = config.n_features
    for _ in range(config.n_hidden):
        layers += [nn.Linear(width, config.width), nn.LayerNorm(config.width), nn.GELU()]
        width = config.width
    last = nn.Linear(width, config.n_encoded)
    nn.init.normal_(last.weight, std=0.01)  # to begin with, the linear map decides
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _convolutions(config: EncoderConfig) -> nn.Sequential:
    """Convolutions, the first with a stride of two, and a maximum of two by two after each.

    Most of the time goes into the large layers, so there is only one before the sides are a quarter.
    """
    height, width, *colours = config.image_shape or ()
    layers: list[nn.Module] = []
    before, size = colours[0] if colours else 1, [height, width]
    for i, channels in enumerate(config.channels):
        kernel, stride = (5, 2) if i == 0 else (3, 1)
        layers += [nn.Conv2d(before, channels, kernel, stride, kernel // 2)]
        # Groups, not batches: what comes out of a row depends on no other row.
        layers += [nn.GroupNorm(math.gcd(4, channels), channels), nn.ReLU()]
        size = [-(-side // stride) for side in size]
        if max(size) > MAX_CELLS and min(size) > 1:
            layers.append(nn.MaxPool2d(2))
            size = [side // 2 for side in size]
        before = channels
    if max(size) > MAX_CELLS:
        layers.append(nn.AdaptiveAvgPool2d(MAX_CELLS))
        size = [MAX_CELLS, MAX_CELLS]
    layers += [nn.Flatten(), nn.Linear(before * math.prod(size), config.n_encoded)]
    return nn.Sequential(*layers)
